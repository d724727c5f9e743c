/** Delivers messages that commits in another database have promised. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { Delivered, Delivery } from '../../../../messaging/port.js';
import type { Transaction } from '../../kernel/transaction.js';
import { deliveryOwner, findAnswer, keepAnswer } from '../../kept-answers.js';
import { sendDirect } from './inboxes.js';
import { postMessage } from './messages.js';

/** Posts the message, or returns what an earlier attempt of the same delivery posted. */
export function deliver(tx: Transaction, limits: Limits, { id: key, message }: Delivery): Delivered {
  // Twice the time for which a delivery is tried: no attempt comes after the first answer is forgotten.
  const idempotency = {
    scope: 'commit deliveries',
    key,
    fingerprint: key,
    seconds: 2 * limits.commitDeliverySecondsMax,
  };
  const [before] = findAnswer(tx, idempotency, tx.nowMs) ?? [];
  // An earlier call stored it below.
  if (before !== undefined) return before as Delivered;
  const unbounded = { ...limits, messageBytesPerMinuteMax: Infinity };
  const { id, tsMs } =
    'roomId' in message ? postMessage(tx, unbounded, message) : sendDirect(tx, limits, message);
  const delivered = { id, tsMs };
  keepAnswer(tx, deliveryOwner, idempotency, [delivered], limits);
  return delivered;
}
