/** What `stoa doctor` checks in the kernel's own families: valid timers, and stored answers that expire. */
import { messageOf } from '../../../core/errors.js';
import { type Check, type Damage, surplusRow, wrongRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import { kernelFamilies as families } from '../kernel/families.js';
import { keptAnswerTimer, putKeptBytes } from '../kept-answers.js';
import { timerOf } from '../kernel/timers/timers.js';
import type { Reader } from '../kernel/transaction.js';
import { expiryTimer as dataTimer } from '../datastore/rows.js';
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

/** An unreadable answer would refuse its key forever, although the caller may repeat the request. */
function* inspectAnswer(reader: Reader, { key, value }: Entry): Generator<Damage> {
  let expiresAtMs: unknown;
  try {
    ({ expiresAtMs } = JSON.parse(value.toString()) as { expiresAtMs?: unknown });
  } catch (error) {
    yield {
      ...surplusRow(families.idempotency, key, 'wrong', `A stored answer is not JSON: ${messageOf(error)}.`),
      kind: 'unreadable',
    };
    return;
  }
  if (typeof expiresAtMs !== 'number')
    yield surplusRow(families.idempotency, key, 'wrong', 'A stored answer has no expiry time.');
  else
    yield* inspectTimer(
      reader,
      { atMs: expiresAtMs, kind: keptAnswerTimer, reference: key },
      'The expiry timer of a stored answer is missing.',
    );
}

/** A user's number is the sum of its answers. A missing number is not damage: it counts as 0. */
function* inspectKeptBytes(reader: Reader): Generator<Damage> {
  const sums = new Map<string, number>();
  for (const { value } of reader.range(families.idempotency, {})) {
    const user = ownerOfAnswer(value);
    if (user !== undefined) sums.set(user, (sums.get(user) ?? 0) + value.length);
  }
  for (const { key, value } of reader.range(families.idempotencyBytes, {})) {
    const sum = sums.get(key.toString('hex')) ?? 0;
    const said = value.length === 8 ? Number(value.readBigUInt64BE()) : undefined;
    if (sum === 0)
      yield surplusRow(
        families.idempotencyBytes,
        key,
        'dangling',
        'The row counts the answers of a user who has none.',
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

/** Undefined for an answer that counts for no user, or that cannot be read, which its own check reports. */
function ownerOfAnswer(value: Buffer): string | undefined {
  try {
    const { user } = JSON.parse(value.toString()) as { user?: unknown };
    return typeof user === 'string' ? user : undefined;
  } catch {
    return undefined;
  }
}

/** A timer of a deleted record does nothing when it fires. Most timers end this way. */
function* inspectTimerRow(_reader: Reader, { key }: Entry): Generator<Damage> {
  if (!isTimerKey(key)) yield surplusRow(families.timers, key, 'wrong', 'The key is not the key of a timer.');
  else if (!kinds.has(timerOf(key).kind))
    yield surplusRow(families.timers, key, 'wrong', `Unknown kind of timer "${timerOf(key).kind}".`);
}
