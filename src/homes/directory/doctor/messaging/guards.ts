/**
 * What `stoa doctor` checks of messaging's guards: that nonces, windows and blocks can be read and are
 * forgotten in time.
 */
import {
  type Check,
  type Damage,
  type Found,
  beyondRepair,
  surplusRow,
} from '../../kernel/inspect/doctor.js';
import type { Entry } from '../../kernel/engine.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Block } from '../../../../messaging/model.js';
import type { ByteWindow } from '../../../../messaging/rooms/clock.js';
import type { Examined, SharedTimers } from '../timers.js';
import { isForgottenKey, spansIn } from '../../messaging/guards/forgotten-times.js';
import { isNonceKey, nonceBucketAt, nonceBucketOf, nonceTimer } from '../../messaging/guards/nonces.js';
import { expiryTimers } from '../../messaging/retention-timers.js';
import { decodeOrUndefined, families } from '../../messaging/rows.js';

export function guardChecks(limits: Limits, timers: SharedTimers): Check[] {
  return [
    {
      family: families.nonces,
      inspect: (reader, entry, store, pass) => inspectNonce(limits, timers, { reader, store, pass }, entry),
    },
    { family: families.bytes, inspect: inspectBytes },
    { family: families.rateWindows, inspect: inspectWindows },
    {
      family: families.blocks,
      inspect: (reader, entry, store, pass) => inspectBlock(timers, { reader, store, pass }, entry),
    },
  ];
}

function* inspectNonce(
  limits: Limits,
  timers: SharedTimers,
  examined: Examined,
  { key, value }: Entry,
): Generator<Found> {
  const { reader, store } = examined;
  if (isForgottenKey(key) && spansIn(value) !== undefined) return;
  if (!isNonceKey(key)) {
    yield surplusRow(families.nonces, key, 'wrong', 'The key is not the key of a nonce.');
    return;
  }
  const bucket = nonceBucketOf(key);
  // Reported once, with the first nonce of the bucket. A bucket in the future was made with another setting.
  for (const before of reader.range(families.nonces, { lt: key, reverse: true, limit: 1 }))
    if (isNonceKey(before.key) && nonceBucketOf(before.key) === bucket) return;
  if (bucket > nonceBucketAt(limits, store.nowMs())) return;
  yield* timers.inspect(
    examined,
    nonceTimer(limits, key),
    'The timer that deletes expired nonces is missing.',
    { orAny: true },
  );
}

function* inspectBytes(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const window = decodeOrUndefined<ByteWindow>(value);
  if (typeof window?.bytes !== 'number' || typeof window.fromMs !== 'number')
    yield surplusRow(families.bytes, key, 'wrong', 'The byte count or the start of the window is invalid.');
  else if (reader.get(families.agents, key) === undefined)
    yield surplusRow(
      families.bytes,
      key,
      'dangling',
      'The row counts the bytes of an identity that does not exist.',
    );
}

/** A row that cannot be read is a window that would begin empty. */
function* inspectWindows(_reader: Reader, { key, value }: Entry): Generator<Damage> {
  if (!Array.isArray(decodeOrUndefined(value)))
    yield {
      ...surplusRow(families.rateWindows, key, 'wrong', 'The rate windows cannot be read.'),
      kind: 'unreadable',
    };
}

function* inspectBlock(timers: SharedTimers, examined: Examined, { key, value }: Entry): Generator<Found> {
  const block = decodeOrUndefined<Block>(value);
  if (block === undefined || block.address !== key.toString() || typeof block.expiresAtMs !== 'number') {
    yield beyondRepair(
      families.blocks,
      key,
      'unreadable',
      `The block of ${key.toString()} cannot be read and has no effect.`,
    );
    return;
  }
  yield* timers.inspect(
    examined,
    { atMs: block.expiresAtMs, kind: expiryTimers.block, reference: key },
    `The expiry timer of the block of ${block.address} is missing.`,
    { orAny: false },
  );
}
