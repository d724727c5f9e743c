/** Messages of a commit, checked as if they were posted now, and kept for the outbox instead. */
import { randomUUID } from 'node:crypto';
import { type MessagingPart, isMessage, postToRoom, sendDirect } from '../../commit/messages.js';
import { OperationFailed } from '../../commit/port.js';
import type { Operation } from '../../commit/schemas.js';
import type { Caller } from '../../core/caller.js';
import { faceOf } from '../../kernel/joint.js';
import type { DirectMessage, Message } from '../../messaging/model.js';
import type { MessagingPort, NewDirectMessage, NewMessage } from '../../messaging/port.js';
import { refuse } from '../../messaging/refusals.js';
import type { MessagingService } from '../../messaging/service.js';
import type { DeliveryState, Promised } from './commit-outbox.js';

/** A promised message, and which operation it is of. */
export interface PromisedOperation extends Promised {
  index: number;
}

/**
 * Runs the services' own checks (room, key, author, signature, size, parent, bytes left) before the
 * commit, so that what is acknowledged can be delivered.
 */
export async function promiseMessages(
  messaging: MessagingService,
  caller: Caller,
  operations: readonly Operation[],
): Promise<PromisedOperation[]> {
  const promised: PromisedOperation[] = [];
  let index = 0;
  const port = promisingPort(messaging.port, (message) =>
    promised.push({ index, delivery: randomUUID(), message }),
  );
  const part: MessagingPart = { ...messaging.over(port), signatures: messaging.signatures };
  for (const operation of operations) {
    try {
      if (isMessage(operation))
        await (operation.op === 'room.post'
          ? postToRoom(part, caller, operation)
          : sendDirect(part, caller, operation));
    } catch (error) {
      throw new OperationFailed(index, error);
    }
    index += 1;
  }
  return promised;
}

/** How the answer shows a message: as it stands in its room, or as what is still on its way. */
export function messageResult({ delivery, message }: Promised, state: DeliveryState | undefined): unknown {
  const where = 'roomId' in message ? { room: message.roomId } : {};
  if (state?.state === 'delivered') return { id: state.id, ts: state.tsMs, ...where };
  if (state?.state === 'undeliverable') return { delivery, undeliverable: state.reason, ...where };
  return { delivery, queued: true, ...where };
}

/** The same port, but that it keeps what would have been posted or sent. */
function promisingPort(
  port: MessagingPort,
  keep: (message: NewMessage | NewDirectMessage) => void,
): MessagingPort {
  /** All messages of an author in the commit count together. */
  const spent = new Map<string, number>();
  const post = async (message: NewMessage): Promise<Message> => {
    const { from, body, roomId, parentId } = message;
    if (parentId !== null && (await port.message(roomId, parentId)) === undefined)
      throw refuse('parentUnknown');
    const bytes = (spent.get(from) ?? 0) + Buffer.byteLength(body);
    if (bytes > (await port.bytesLeft(from))) throw refuse('byteRate');
    spent.set(from, bytes);
    keep(message);
    return { ...message, ...unplaced, rootId: null };
  };
  const send = async (message: NewDirectMessage): Promise<DirectMessage> => {
    keep(message);
    return { ...message, ...unplaced, acknowledged: false };
  };
  return faceOf(port, { post, send });
}

/** Its id and time are given by the room when it is delivered. */
const unplaced = { id: '', tsMs: 0 };
