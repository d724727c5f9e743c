/** The vectors of documents in a data directory, in the shard of their user. */
import { Slices } from '../../../../core/waiting/yielding.js';
import type { EntryFacts } from '../../../../find/model.js';
import { ByteReader, ByteWriter } from '../../../../find/segments/bytes.js';
import type { Entry, RangeOptions } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Transaction } from '../../kernel/transaction.js';
import { newStamp } from '../filing/marks.js';

export const vectorFamilies = {
  /**
   * Document → stamp: it was written since its vector was made. With an empty document key: the settings of
   * the namespace changed, and all its documents must be examined.
   */
  waiting: 'find/waiting_vectors',
  /** Document → its vector, and what it was made of. */
  vectors: 'find/vectors',
} as const;

/** Notes that a document, or with an empty key its namespace, has other text than its vector. */
export function waitForVector(tx: Transaction, rowKey: Buffer): void {
  tx.put(vectorFamilies.waiting, rowKey, newStamp(tx.nowMs));
}

export function removeVector(tx: Transaction, rowKey: Buffer): void {
  tx.delete(vectorFamilies.waiting, rowKey);
  tx.delete(vectorFamilies.vectors, rowKey);
}

export interface VectorHead {
  readonly facts: Omit<EntryFacts, 'name'>;
  readonly space: string;
  readonly textHash: string;
}

const headLengthBytes = 4;

/** The numbers first, so that they are aligned; then the rest, and its length. */
export function encodeVector({ facts, space, textHash }: VectorHead, vector: Float32Array | null): Buffer {
  const writer = new ByteWriter();
  writer.number(facts.version);
  writer.time(facts.timeMs);
  writer.number(facts.expiresAtMs ?? 0);
  writer.number(facts.author === null ? 0 : 1);
  writer.text(facts.author ?? '');
  writer.text(space);
  writer.text(textHash);
  const head = writer.take();
  const length = Buffer.allocUnsafe(headLengthBytes);
  length.writeUInt32BE(head.length);
  const numbers =
    vector === null ? Buffer.alloc(0) : Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return Buffer.concat([numbers, head, length]);
}

export function decodeHead(row: Buffer): VectorHead {
  const end = row.length - headLengthBytes;
  const reader = new ByteReader(row, numbersEnd(row), end);
  const version = reader.number();
  const timeMs = reader.time();
  const expiresAtMs = reader.number() || null;
  const hasAuthor = reader.number() === 1;
  const author = reader.text();
  return {
    facts: { version, timeMs, expiresAtMs, author: hasAuthor ? author : null },
    space: reader.text(),
    textHash: reader.text(),
  };
}

/** Empty if the document has no vector: the embedder refused its text, or it has none. */
export function decodeNumbers(row: Buffer): Float32Array {
  const end = numbersEnd(row);
  const bytes = row.byteOffset % 4 === 0 ? row : Buffer.from(new Uint8Array(row).buffer);
  return new Float32Array(bytes.buffer, bytes.byteOffset, end >> 2);
}

function numbersEnd(row: Buffer): number {
  const end = row.length - headLengthBytes;
  const start = end < 0 ? -1 : end - row.readUInt32BE(end);
  if (start < 0 || start % 4 !== 0) throw new RangeError('The row of a vector is damaged.');
  return start;
}

/** The rows of a range, read in parts with pauses between them. */
export async function* rowsIn(
  store: Store,
  family: string,
  { gte, lt }: RangeOptions,
  limit: number,
): AsyncGenerator<Entry> {
  const slices = new Slices();
  for (let after: Buffer | undefined; ;) {
    const start = after === undefined ? { ...(gte && { gte }) } : { gt: after };
    const rows = [...store.range(family, { ...start, ...(lt && { lt }), limit })];
    yield* rows;
    after = rows.at(-1)?.key;
    if (rows.length < limit) return;
    await slices.pause();
  }
}
