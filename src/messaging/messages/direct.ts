/**
 * Direct messages: opaque to the server, stored until they expire, delivered again until they are
 * acknowledged.
 */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Writer } from '../../core/write.js';
import type { Authors } from '../identities/authors.js';
import type { Recipients } from '../identities/recipients.js';
import type { MessageHub } from './hub.js';
import type { DirectMessage } from '../model.js';
import type { Delivered, KeptFor, MessagingPort, Page, Span } from '../port.js';
import type { CheckedSignature } from '../identities/proof.js';
import { type MessagingSteps, writePrepared } from '../steps.js';

export interface DirectMessagesOptions {
  writer: Writer;
  port: MessagingPort;
  steps: MessagingSteps;
  authors: Authors;
  recipients: Recipients;
  hub: MessageHub;
}

export class DirectMessages {
  readonly #options: DirectMessagesOptions;

  constructor(options: DirectMessagesOptions) {
    this.#options = options;
  }

  send(
    caller: Caller | null,
    recipient: string,
    input: { body: string },
    signature: CheckedSignature | null,
    idempotency: Idempotency | null = null,
  ): Promise<Delivered> {
    const { writer, steps } = this.#options;
    return writePrepared(writer, caller, () => steps.send(caller, recipient, input, signature), idempotency);
  }

  /** The identity whose inbox the caller reads. */
  readerOf(caller: Caller | null): Promise<string> {
    return this.#options.authors.readerOf(caller);
  }

  /** The recipient by its id, or by the name of one of the caller's agents. */
  recipient(caller: Caller, to: string): Promise<string> {
    return this.#options.recipients.idOf(caller, to);
  }

  /** The inbox of an agent of the same user, for callers that write to it by name. */
  recipientOf(agent: KeptFor): Promise<string> {
    return this.#options.authors.recipientOf(agent);
  }

  async read(agentId: string, span: Span, waitMs: number, signal: AbortSignal): Promise<Page<DirectMessage>> {
    const page = await this.#options.port.inbox(agentId, span);
    if (page.items.length > 0 || waitMs === 0 || !('afterMs' in span)) return page;
    const came = await this.#options.hub.wait({ kind: 'inbox', id: agentId }, span.afterMs, waitMs, signal);
    return came ? this.#options.port.inbox(agentId, span) : page;
  }

  /**
   * Messages that were not acknowledged, oldest first. Every read returns them again until they are
   * acknowledged.
   */
  async pending(
    agentId: string,
    afterMs: number,
    limit: number,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Page<DirectMessage>> {
    // Read before the page, so that a message that arrives in between ends the wait at once.
    const newest =
      waitMs === 0 ? undefined : await this.#options.port.inbox(agentId, { beforeMs: null, limit: 1 });
    const page = await this.#options.port.pending(agentId, afterMs, limit);
    if (page.items.length > 0 || newest === undefined) return page;
    const came = await this.#options.hub.wait(
      { kind: 'inbox', id: agentId },
      Math.max(afterMs, newest.items[0]?.tsMs ?? 0),
      waitMs,
      signal,
    );
    return came ? this.#options.port.pending(agentId, afterMs, limit) : page;
  }

  acknowledge(caller: Caller | null, ids: readonly string[]): Promise<number> {
    const { writer, steps } = this.#options;
    return writePrepared(writer, caller, () => steps.acknowledge(caller, ids));
  }
}
