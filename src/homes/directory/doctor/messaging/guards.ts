/**
 * What `stoa doctor` checks of messaging's guards: that nonces, windows and blocks can be read and are
 * forgotten in time.
 */
import type { Damage, ExaminedRow } from '../../kernel/inspect/damage.js';
import type { Check, Found } from '../../kernel/inspect/doctor.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Block } from '../../../../messaging/model.js';
import type { ByteWindow } from '../../../../messaging/rooms/clock.js';
import type { SharedTimers } from '../timers.js';
import { isForgottenKey, spansIn } from '../../messaging/guards/forgotten-times.js';
import { isNonceKey, nonceBucketAt, nonceBucketOf, nonceTimer } from '../../messaging/guards/nonces.js';
import { expiryTimers } from '../../messaging/retention-timers.js';
import { decodeOrUndefined, families } from '../../messaging/rows.js';

export function guardChecks(limits: Limits, timers: SharedTimers): Check[] {
  return [
    { family: families.nonces, inspect: (row) => inspectNonce(limits, timers, row) },
    { family: families.bytes, inspect: inspectBytes },
    { family: families.rateWindows, inspect: inspectWindows },
    { family: families.blocks, inspect: (row) => inspectBlock(timers, row) },
  ];
}

function* inspectNonce(limits: Limits, timers: SharedTimers, row: ExaminedRow): Generator<Found> {
  const { reader, store, key } = row;
  if (isForgottenKey(key) && spansIn(row.value) !== undefined) return;
  if (!isNonceKey(key)) {
    yield row.surplus('The key is not the key of a nonce.');
    return;
  }
  const bucket = nonceBucketOf(key);
  // Reported once, with the first nonce of the bucket. A bucket in the future was made with another setting.
  for (const before of reader.range(families.nonces, { lt: key, reverse: true, limit: 1 }))
    if (isNonceKey(before.key) && nonceBucketOf(before.key) === bucket) return;
  if (bucket > nonceBucketAt(limits, store.nowMs())) return;
  yield* timers.inspect(row, nonceTimer(limits, key), 'The timer that deletes expired nonces is missing.', {
    orAny: true,
  });
}

function* inspectBytes(row: ExaminedRow): Generator<Damage> {
  const window = decodeOrUndefined<ByteWindow>(row.value);
  if (typeof window?.bytes !== 'number' || typeof window.fromMs !== 'number')
    yield row.surplus('The byte count or the start of the window is invalid.');
  else if (row.reader.get(families.agents, row.key) === undefined)
    yield row.dangling('The row counts the bytes of an identity that does not exist.');
}

/** A row that cannot be read is a window that would begin empty. */
function* inspectWindows(row: ExaminedRow): Generator<Damage> {
  if (!Array.isArray(decodeOrUndefined(row.value)))
    yield row.surplus('The rate windows cannot be read.', 'unreadable');
}

function* inspectBlock(timers: SharedTimers, row: ExaminedRow): Generator<Found> {
  const address = row.key.toString();
  const block = decodeOrUndefined<Block>(row.value);
  if (block?.address !== address || typeof block.expiresAtMs !== 'number') {
    yield row.unreadable(`The block of ${address} cannot be read and has no effect.`);
    return;
  }
  yield* timers.inspect(
    row,
    { atMs: block.expiresAtMs, kind: expiryTimers.block, reference: row.key },
    `The expiry timer of the block of ${address} is missing.`,
    { orAny: false },
  );
}
