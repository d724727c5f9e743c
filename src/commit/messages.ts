/** Messages inside a commit. */
import type { Caller } from '../core/caller.js';
import type { CommitMessage } from '../messaging/drafts.js';
import type { Operation } from './schemas.js';

/** What of messaging a commit needs. */
export interface MessagingPart {
  post(caller: Caller, message: CommitMessage): Promise<unknown>;
}

/** Whether an operation says something. */
export function isMessage(
  operation: Operation,
): operation is Extract<Operation, { op: CommitMessage['op'] }> {
  return operation.op === 'room.post' || operation.op === 'dm.send';
}
