/** The rows of the kernel's own families as readable JSON, for `stoa inspect`. */
import { kernelFamilies as families } from '../families.js';
import { decodeFeed, decodeRedo, positionOf } from '../feed/log.js';
import { shardOfIntent } from '../shards/pairs.js';
import { timerOf } from '../timers/timers.js';

/** What makes a row of each family readable. Throws for a row that cannot be read. */
export type RowDecoders = Readonly<Record<string, (key: Buffer, value: Buffer) => unknown>>;

/**
 * Without the redo log, which contains every value that was ever written, also deleted ones, and cannot be
 * inspected.
 */
export const kernelRows: RowDecoders = {
  [families.meta]: (key, value) => ({ note: key.toString(), value: noteOf(value.toString()) }),
  [families.changes]: (key, value) => ({ last_seq: positionOf(key), commits: decodeFeed(value).items }),
  [families.timers]: (key) => {
    const { atMs, kind, reference } = timerOf(key);
    return { at: new Date(atMs).toISOString(), kind, reference: reference.toString('hex') };
  },
  [families.idempotency]: (key, value) => ({
    scope_and_key: key.toString('hex'),
    ...(JSON.parse(value.toString()) as object),
  }),
  [families.idempotencyBytes]: (key, value) => ({
    user_id: key.toString('hex'),
    bytes: Number(value.readBigUInt64BE()),
  }),
  [families.intents]: (key, value) => {
    const { items } = decodeRedo(value);
    return {
      shard: shardOfIntent(key),
      transactions: items.map(({ lsn, commit, operations }) => ({
        lsn,
        writes: operations.length,
        changes: commit?.changes ?? [],
      })),
    };
  },
  [families.directory]: (key, value) => ({ id: key.toString(), user_id: value.toString('hex') }),
};

/** Notes are text: a name, a number, or JSON. */
function noteOf(text: string): unknown {
  return text.startsWith('{') || text.startsWith('[') ? (JSON.parse(text) as unknown) : text;
}
