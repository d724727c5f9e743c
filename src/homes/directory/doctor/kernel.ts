/** What `stoa doctor` checks in the kernel's own families: valid timers, and stored answers that expire. */
import { type Damage, type ExaminedRow, surplusRow, wrongRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import { kernelFamilies as families } from '../kernel/families.js';
import { keptAnswerTimer, putKeptBytes } from '../kept-answers.js';
import { timerOf } from '../kernel/timers/timers.js';
import type { Reader } from '../kernel/transaction.js';
import { expiryTimer as dataTimer } from '../datastore/rows.js';
import { readable } from './indexes.js';
import { inspectTimer, isTimerKey } from './timers.js';
import { expiryTimer as tokenTimer } from '../identity/identity.js';
import { expiryTimers as messagingTimers } from '../messaging/retention-timers.js';
import { entryTimer } from '../find/store-entries.js';
import { lockTimer } from '../locks/locks.js';
import { activityTimer, leaseTimer } from '../registry/timers.js';
import { sessionTimer } from '../workspaces/sessions.js';
import { leaseTimer as taskLeaseTimer, taskTimer } from '../workspaces/tasks/rows.js';

const kinds: ReadonlySet<string> = new Set([
  keptAnswerTimer,
  dataTimer,
  entryTimer,
  tokenTimer,
  activityTimer,
  leaseTimer,
  sessionTimer,
  taskLeaseTimer,
  taskTimer,
  lockTimer,
  ...Object.values(messagingTimers),
]);

export const kernelChecks: readonly Check[] = [
  { family: families.idempotency, inspect: inspectAnswer },
  { family: families.idempotencyBytes, inspect: () => [], conclude: inspectKeptBytes },
  { family: families.timers, inspect: inspectTimerRow },
];

/** An answer that cannot be read would refuse its key forever, although the caller may repeat the request. */
function* inspectAnswer(row: ExaminedRow): Generator<Damage> {
  const answer = readable(() => JSON.parse(row.value.toString()) as { expiresAtMs?: unknown });
  const atMs = answer?.expiresAtMs;
  if (typeof atMs !== 'number')
    yield row.surplus('A stored answer is not JSON with an expiry time.', 'unreadable');
  else
    yield* inspectTimer(
      row.reader,
      { atMs, kind: keptAnswerTimer, reference: row.key },
      'The expiry timer of a stored answer is missing.',
    );
}

/** A user's number is the sum of its answers. A missing number is not damage: it counts as 0. */
function* inspectKeptBytes(reader: Reader): Generator<Damage> {
  const sums = new Map<string, number>();
  for (const { value } of reader.range(families.idempotency, {})) {
    // Some answers count for no user. The check of answers reports those that cannot be read.
    const { user } = readable(() => JSON.parse(value.toString()) as { user?: string }) ?? {};
    if (user !== undefined) sums.set(user, (sums.get(user) ?? 0) + value.length);
  }
  for (const { key, value } of reader.range(families.idempotencyBytes, {})) {
    const sum = sums.get(key.toString('hex')) ?? 0;
    const said = value.length === 8 ? Number(value.readBigUInt64BE()) : undefined;
    if (sum === 0)
      yield surplusRow(
        families.idempotencyBytes,
        key,
        'The row counts the answers of a user who has none.',
        'dangling',
      );
    else if (said !== sum)
      yield wrongRow(
        families.idempotencyBytes,
        key,
        `The row counts ${said ?? 'an invalid number of'} bytes, but the stored answers of the user have ${sum}.`,
        (tx) => putKeptBytes(tx, key, sum),
      );
  }
}

/** A timer of a deleted record does nothing when it fires. Most timers end this way. */
function* inspectTimerRow(row: ExaminedRow): Generator<Damage> {
  if (!isTimerKey(row.key)) yield row.surplus('The key is not the key of a timer.');
  else if (!kinds.has(timerOf(row.key).kind))
    yield row.surplus(`Unknown kind of timer "${timerOf(row.key).kind}".`);
}
