/**
 * The times of nonces that are forgotten. If the clock was ahead, this includes times that come again when it
 * is set back: a signature of such a time could be one that was used.
 */
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { decodeOrUndefined, encode, families } from '../rows.js';

/** From a time, inclusive, to a time, exclusive. */
type Span = readonly [fromMs: number, toMs: number];

/** Beyond this number the two earliest become one, with the time between them. */
const spansMax = 16;

/** Shorter than a nonce, and after all buckets. */
const forgottenKey = Buffer.alloc(6, 0xff);

export class ForgottenTimes {
  #spans: readonly Span[];

  private constructor(spans: readonly Span[]) {
    this.#spans = spans;
  }

  static read(reader: Reader): ForgottenTimes {
    const value = reader.get(families.nonces, forgottenKey);
    return new ForgottenTimes((value === undefined ? undefined : spansIn(value)) ?? []);
  }

  add(fromMs: number, toMs: number): void {
    const spans: Span[] = [];
    for (const [from, to] of [...this.#spans, [fromMs, toMs] as const].toSorted(([a], [b]) => a - b)) {
      const last = spans.at(-1);
      if (last !== undefined && from <= last[1]) spans[spans.length - 1] = [last[0], Math.max(last[1], to)];
      else spans.push([from, to]);
    }
    const [first, second] = spans;
    if (spans.length > spansMax && first !== undefined && second !== undefined)
      spans.splice(0, 2, [first[0], second[1]]);
    this.#spans = spans;
  }

  /** Whether one of the times in between, both included, is forgotten. */
  has(fromMs: number, toMs: number): boolean {
    return this.#spans.some(([from, to]) => from <= toMs && fromMs < to);
  }

  write(tx: Transaction): void {
    tx.put(families.nonces, forgottenKey, encode(this.#spans));
  }
}

export function isForgottenKey(key: Buffer): boolean {
  return key.equals(forgottenKey);
}

/** The content of the row, or undefined if it cannot be read. */
export function spansIn(value: Buffer): readonly Span[] | undefined {
  const spans = decodeOrUndefined<Span[]>(value);
  return Array.isArray(spans) && spans.every(isSpan) ? spans : undefined;
}

function isSpan(span: unknown): boolean {
  return Array.isArray(span) && span.length === 2 && span.every((time) => typeof time === 'number');
}
