/** Messages of a commit, checked as if they were posted now, and kept for the outbox instead. */
import { randomUUID } from 'node:crypto';
import { isMessage } from '../../commit/messages.js';
import { OperationFailed } from '../../commit/port.js';
import type { Operation } from '../../commit/schemas.js';
import type { Caller } from '../../core/caller.js';
import type { CommitDraft } from '../../messaging/drafts.js';
import type { MessagingPort, NewMessage } from '../../messaging/port.js';
import { refuse } from '../../messaging/refusals.js';
import type { MessagingService } from '../../messaging/service.js';
import type { DeliveryState, Promised } from './commit-outbox.js';

/** A promised message, and which operation it is of. */
export interface PromisedOperation extends Promised {
  index: number;
}

/**
 * Checks what posting them now would check (room, key, author, signature, size, parent, bytes left)
 * before the commit, so that what is acknowledged can be delivered. Nonces are used up when all of
 * it holds.
 */
export async function promiseMessages(
  { steps, port }: Pick<MessagingService, 'steps' | 'port'>,
  caller: Caller,
  operations: readonly Operation[],
): Promise<PromisedOperation[]> {
  const drafts: { index: number; draft: CommitDraft }[] = [];
  /** All messages of an author in the commit count together. */
  const spent = new Map<string, number>();
  for (const [index, operation] of operations.entries()) {
    if (!isMessage(operation)) continue;
    await asOperation(index, async () => {
      const draft = await steps.prepareMessage(caller, operation);
      if ('roomId' in draft.message) await checkPost(port, draft.message, spent);
      drafts.push({ index, draft });
    });
  }
  for (const { index, draft } of drafts) await asOperation(index, () => useNonce(port, draft.nonce));
  return drafts.map(({ index, draft }) => ({ index, delivery: randomUUID(), message: draft.message }));
}

async function checkPost(
  port: MessagingPort,
  { from, body, roomId, parentId }: NewMessage,
  spent: Map<string, number>,
): Promise<void> {
  if (parentId !== null && (await port.message(roomId, parentId)) === undefined)
    throw refuse('parentUnknown');
  const bytes = (spent.get(from) ?? 0) + Buffer.byteLength(body);
  if (bytes > (await port.bytesLeft(from))) throw refuse('byteRate');
  spent.set(from, bytes);
}

async function useNonce(port: MessagingPort, used: CommitDraft['nonce']): Promise<void> {
  if (used === null) return;
  const { fresh, durable } = await port.claimNonce(used.agentId, used.nonce);
  if (!fresh) throw refuse('nonceUsed');
  await durable;
}

async function asOperation(index: number, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    throw new OperationFailed(index, error);
  }
}

/** How the answer shows a message: as it stands in its room, or as what is still on its way. */
export function messageResult({ delivery, message }: Promised, state: DeliveryState | undefined): unknown {
  const where = 'roomId' in message ? { room: message.roomId } : {};
  if (state?.state === 'delivered') return { id: state.id, ts: state.tsMs, ...where };
  if (state?.state === 'undeliverable') return { delivery, undeliverable: state.reason, ...where };
  return { delivery, queued: true, ...where };
}
