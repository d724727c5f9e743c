/**
 * The number and the time of the newest transaction of a store. Each group writes them with its data, also if there is
 * no redo log.
 */
import type { WriteOperation } from '../engine.js';
import { kernelFamilies } from '../families.js';
import type { Reader } from '../transaction.js';
import type { RedoTransaction } from './log.js';

export type NewestTransaction = Pick<RedoTransaction, 'lsn' | 'atMs'>;

const newestKey = Buffer.from('newest_transaction');

export function newestMark({ lsn, atMs }: NewestTransaction): WriteOperation {
  return {
    family: kernelFamilies.meta,
    key: newestKey,
    value: Buffer.from(JSON.stringify({ lsn, at_ms: atMs })),
  };
}

/** Zeros for a store without transactions. */
export function readNewest(reader: Pick<Reader, 'get'>): NewestTransaction {
  const value = reader.get(kernelFamilies.meta, newestKey);
  if (value === undefined) return { lsn: 0, atMs: 0 };
  const { lsn, at_ms: atMs } = JSON.parse(value.toString()) as { lsn: number; at_ms: number };
  return { lsn, atMs };
}
