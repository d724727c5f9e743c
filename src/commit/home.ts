/** What a commit needs of the home: its writer, and how a message takes part. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Step, Writer } from '../core/write.js';
import type { MessageOperation } from './operations.js';
import type { Check, Operation } from './schemas.js';
import type { OutboxFacts } from './service.js';

/**
 * A message that is prepared: its step, and what must hold before any step runs, like a nonce that is new.
 */
export interface MessageStep {
  readonly checks: readonly Step<void>[];
  readonly step: Step<unknown>;
}

export interface CommitHome {
  readonly writer: Writer;
  /** Prepares the messages of one commit, in order. */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep>;
  /** Shows messages that are delivered after the write as they stand in their rooms. */
  delivered?(operations: readonly Operation[], results: readonly unknown[]): Promise<unknown[]>;
  /** Messages that wait for delivery; missing if messages are part of the write. */
  outbox?(): Promise<OutboxFacts>;
  /** Ends the delivery of messages; missing if messages are part of the write. */
  close?(): Promise<void>;
}

/** A store beside the home shares no transaction with it. Refused before anything happens. */
export function refuseStore(store: string, checks: readonly Check[], operations: readonly Operation[]): void {
  const touchesData =
    checks.some(({ check }) => check === 'data') || operations.some(({ op }) => op.startsWith('data.'));
  if (!touchesData) return;
  throw new StoaError(
    'unsupported',
    `The commit has an operation or a check on documents. The documents are in ${store}, which cannot take part in a commit.`,
    { fix: 'Write the documents in a separate request.', details: { domain: 'data', backend: store } },
  );
}
