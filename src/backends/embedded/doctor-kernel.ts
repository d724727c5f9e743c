/** What `stoa doctor` checks of the kernel's own families: timers that can ring, answers that are forgotten in time. */
import { messageOf } from '../../errors.js';
import { type Check, type Damage, surplusRow } from '../../kernel/doctor.js';
import type { Entry } from '../../kernel/engine.js';
import { kernelFamilies as families } from '../../kernel/families.js';
import { idempotencyTimer } from '../../kernel/once.js';
import { keptAnswerTimer } from '../../homes/directory/kept-answers.js';
import { timerOf } from '../../kernel/timers.js';
import type { Reader } from '../../kernel/transaction.js';
import { expiryTimer as dataTimer } from './datastore-rows.js';
import { inspectTimer, isTimerKey } from './doctor-timers.js';
import { expiryTimer as tokenTimer } from './identity.js';
import { expiryTimers as messagingTimers } from './messaging-retention-timers.js';
import { activityTimer } from './registry-agents.js';
import { leaseTimer } from './registry-leases.js';
import { sessionTimer } from './workspaces-sessions.js';
import { leaseTimer as taskTimer } from './workspaces-task-rows.js';

const kinds: ReadonlySet<string> = new Set([
  idempotencyTimer,
  keptAnswerTimer,
  dataTimer,
  tokenTimer,
  activityTimer,
  leaseTimer,
  sessionTimer,
  taskTimer,
  ...Object.values(messagingTimers),
]);

export const kernelChecks: readonly Check[] = [
  { family: families.idempotency, inspect: inspectAnswer },
  { family: families.timers, inspect: inspectTimerRow },
];

/** An answer that cannot be read would refuse its key for ever, to a caller who may repeat the request. */
function* inspectAnswer(reader: Reader, { key, value }: Entry): Generator<Damage> {
  let expiresAtMs: unknown;
  let user: unknown;
  try {
    ({ expiresAtMs, user } = JSON.parse(value.toString()) as { expiresAtMs?: unknown; user?: unknown });
  } catch (error) {
    yield {
      ...surplusRow(families.idempotency, key, 'wrong', `A kept answer is not JSON: ${messageOf(error)}.`),
      kind: 'unreadable',
    };
    return;
  }
  if (typeof expiresAtMs !== 'number')
    yield surplusRow(families.idempotency, key, 'wrong', 'A kept answer does not say until when.');
  else
    yield* inspectTimer(
      reader,
      { atMs: expiresAtMs, kind: user === undefined ? idempotencyTimer : keptAnswerTimer, reference: key },
      'A kept answer would not be forgotten when its time is over.',
    );
}

/** A timer of something that is gone does nothing when it rings; that is how most of them end. */
function* inspectTimerRow(_reader: Reader, { key }: Entry): Generator<Damage> {
  if (!isTimerKey(key)) yield surplusRow(families.timers, key, 'wrong', 'The key is not that of a timer.');
  else if (!kinds.has(timerOf(key).kind))
    yield surplusRow(
      families.timers,
      key,
      'wrong',
      `Nothing answers to timers of the kind "${timerOf(key).kind}".`,
    );
}
