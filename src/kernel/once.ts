/** An Idempotency-Key inside the transaction that it protects: a retry finds the first answer, also after a crash. */
import type { Idempotency } from '../core/idempotency.js';
import { StoaError } from '../errors.js';
import { blake3 } from './blake3.js';
import { kernelFamilies } from './families.js';
import type { Store } from './store.js';
import type { TimerHandler } from './sweeper.js';
import type { Reader, Transaction } from './transaction.js';

interface Kept {
  fingerprint: string;
  /** The answer held a secret and is not here. */
  secret?: true;
  result?: unknown;
  expiresAtMs: number;
}

export const idempotencyTimer = 'idempotency';

/**
 * Runs `body`, or answers what it answered under the same key before. The result must survive
 * JSON. With `keep: false` (an answer that holds a secret) only the fact is kept.
 */
export function once<T>(
  tx: Transaction,
  idempotency: Idempotency | null,
  body: () => T,
  options: { keep?: boolean } = {},
): T {
  if (idempotency === null) return body();
  const key = rowKey(idempotency);
  const stored = tx.get(kernelFamilies.idempotency, key);
  const kept = stored === undefined ? undefined : (JSON.parse(stored.toString()) as Kept);
  if (kept !== undefined && kept.expiresAtMs > tx.nowMs) return answerAgain<T>(kept, idempotency);
  const result = body();
  const expiresAtMs = tx.nowMs + idempotency.seconds * 1_000;
  const value: Kept = {
    fingerprint: idempotency.fingerprint,
    expiresAtMs,
    ...(options.keep === false ? { secret: true } : { result }),
  };
  tx.put(kernelFamilies.idempotency, key, Buffer.from(JSON.stringify(value)));
  tx.schedule({ atMs: expiresAtMs, kind: idempotencyTimer, reference: key });
  return result;
}

/** What was answered under the key before; undefined where the key is new, which it stays. */
export function answeredBefore<T>(
  reader: Reader,
  idempotency: Idempotency | null,
  nowMs: number,
): T | undefined {
  if (idempotency === null) return undefined;
  const stored = reader.get(kernelFamilies.idempotency, rowKey(idempotency));
  const kept = stored === undefined ? undefined : (JSON.parse(stored.toString()) as Kept);
  return kept !== undefined && kept.expiresAtMs > nowMs ? answerAgain<T>(kept, idempotency) : undefined;
}

/** Keeps the answer to a request that `once` let through without one. */
export function keepAnswer(tx: Transaction, idempotency: Idempotency, result: unknown): void {
  const key = rowKey(idempotency);
  const stored = tx.get(kernelFamilies.idempotency, key);
  if (stored === undefined) return;
  const { fingerprint, expiresAtMs } = JSON.parse(stored.toString()) as Kept;
  const value: Kept = { fingerprint, expiresAtMs, result };
  tx.put(kernelFamilies.idempotency, key, Buffer.from(JSON.stringify(value)));
}

/**
 * The same around work that happens in another database: the key is noted before it, the answer
 * after it. A repeat while it runs, or after a crash in between, is refused rather than done twice.
 */
export async function onceAround<T>(
  store: Store,
  idempotency: Idempotency,
  work: () => Promise<T>,
): Promise<T> {
  let isFirst = false;
  const before = await store.transact((tx) =>
    once<T | undefined>(
      tx,
      idempotency,
      () => {
        isFirst = true;
        return undefined;
      },
      { keep: false },
    ),
  );
  // Without a first call of ours it is what the first one answered.
  if (!isFirst) return before as T;
  try {
    const result = await work();
    await store.transact((tx) => keepAnswer(tx, idempotency, result));
    return result;
  } catch (error) {
    await store.transact((tx) => tx.delete(kernelFamilies.idempotency, rowKey(idempotency)));
    throw error;
  }
}

function rowKey({ scope, key }: Idempotency): Buffer {
  return blake3(Buffer.from(JSON.stringify([scope, key])));
}

/** Forgets an answer whose time is over. */
export const forgetAnswer: TimerHandler = (tx, reference) => {
  const stored = tx.get(kernelFamilies.idempotency, reference);
  if (stored === undefined) return;
  const kept = JSON.parse(stored.toString()) as Kept;
  if (kept.expiresAtMs <= tx.nowMs) tx.delete(kernelFamilies.idempotency, reference);
};

function answerAgain<T>(kept: Kept, idempotency: Idempotency): T {
  if (kept.fingerprint !== idempotency.fingerprint) {
    throw new StoaError(
      'idempotency_mismatch',
      'This Idempotency-Key was used before with another request.',
      { fix: 'Use a new key for a new request.' },
    );
  }
  if (kept.secret === true) {
    throw new StoaError(
      'idempotency_unrepeatable',
      'This request was carried out before; its answer was not kept.',
      {
        fix: 'List what exists, and create anew under a new key where the secret is lost.',
      },
    );
  }
  // What was kept is what the same body returned before.
  return kept.result as T;
}
