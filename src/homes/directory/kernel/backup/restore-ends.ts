/** Where a restore to a point ends in each shard. A write over two shards is before the end of both, or of neither. */
import type { BackupDescription, ShardBackup } from './description.js';
import { kernelFamilies } from '../families.js';
import type { RedoTransaction } from '../feed/log.js';
import { readTransactions } from './read.js';
import type { ShardPoint } from './restore-chain.js';
import { pairOfIntent } from '../shards/pairs.js';

/** The numbers of the two transactions of a write over two shards. */
interface Pair {
  rootLsn: number;
  shard: number;
  lsn: number;
}

export interface ShardParts {
  directory: string;
  /** A full backup and its increments. */
  chain: readonly BackupDescription[];
  points: readonly ShardPoint[];
}

/** The number of the first transaction of each shard that is not restored. */
export async function restoreEnds({ directory, chain, points }: ShardParts): Promise<number[]> {
  const ends = points.map(() => Infinity);
  const pairs: Pair[] = [];
  if (points.every(({ seq, timeMs }) => seq === Infinity && timeMs === Infinity)) return ends;
  for (const [shard, point] of points.entries())
    for (const backup of chain.slice(1))
      for await (const items of readTransactions(directory, backup, backup.shards[shard] as ShardBackup)) {
        for (const item of items)
          if (isAfter(item, point)) ends[shard] = Math.min(ends[shard] ?? 0, item.lsn);
        if (shard === 0) pairs.push(...items.flatMap(pairsIn));
      }
  // A write over two shards is announced in one of them, and after a clock was set back, times are not in order.
  for (let isMoved = true; isMoved;) {
    isMoved = false;
    for (const { rootLsn, shard, lsn } of pairs) {
      const [rootEnd, end] = [ends[0] ?? 0, ends[shard] ?? 0];
      if (rootLsn >= rootEnd === lsn >= end) continue;
      ends[0] = Math.min(rootEnd, rootLsn);
      ends[shard] = Math.min(end, lsn);
      isMoved = true;
    }
  }
  return ends;
}

function isAfter({ atMs, commit }: RedoTransaction, { seq, timeMs }: ShardPoint): boolean {
  return atMs > timeMs || (commit !== null && commit.seq > seq);
}

/** A transaction of shard 00 stores an intent for the other shard. */
function pairsIn({ lsn: rootLsn, operations }: RedoTransaction): Pair[] {
  return operations.flatMap(({ family, key, value }) =>
    family === kernelFamilies.intents && value !== undefined ? [{ rootLsn, ...pairOfIntent(key) }] : [],
  );
}
