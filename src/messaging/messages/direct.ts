/**
 * Direct messages: opaque to the server, stored until they expire, delivered again until they are
 * acknowledged.
 */
import { type Caller, operatorCaller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { WaitEnd } from '../../core/waiting/waits.js';
import { type Writer, prepareAndWrite, writeOne } from '../../core/write.js';
import type { Feed } from '../../feed/port.js';
import { type Authors, type Inboxes, nobodyId } from '../identities/authors.js';
import type { MessageHub } from './hub.js';
import { mergedPage } from './merged-pages.js';
import type { DirectMessage } from '../model.js';
import type { MessagingPort, Page, Span } from '../port.js';
import type { CheckedSignature } from '../identities/proof.js';
import type { RecipientReference } from './drafts.js';
import { type MessagingSteps, type Sent, writePrepared } from '../steps.js';

export interface DirectMessagesOptions {
  writer: Writer;
  port: MessagingPort;
  steps: MessagingSteps;
  authors: Authors;
  hub: MessageHub;
  /** Wakes readers that have no inbox yet, on all servers. */
  feed: Feed;
}

/** Readers without an inbox look again after this time, also if they missed a change. */
const lookAgainMs = 2_000;

export class DirectMessages {
  readonly #options: DirectMessagesOptions;

  constructor(options: DirectMessagesOptions) {
    this.#options = options;
  }

  send(
    caller: Caller | null,
    recipient: RecipientReference,
    input: { body: string },
    signature: CheckedSignature | null,
    idempotency: Idempotency | null = null,
  ): Promise<Sent> {
    const { writer, steps } = this.#options;
    return writePrepared(writer, caller, () => steps.send(caller, recipient, input, signature), idempotency);
  }

  /** The identity whose inbox the caller reads. */
  readerOf(caller: Caller | null): Promise<string> {
    return this.#options.authors.readerOf(caller);
  }

  /** Where the messages of the caller are: new ones in the first inbox, which alone is followed. */
  inboxesOf(caller: Caller | null): Promise<Inboxes> {
    return this.#options.authors.inboxesOf(caller);
  }

  async read(
    caller: Caller | null,
    span: Span,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Page<DirectMessage>> {
    const { port, hub } = this.#options;
    const waits = 'afterMs' in span ? waitMs : 0;
    const { inboxes, leftMs } = await this.#inboxesOf(caller, waits, signal);
    const read = async () =>
      mergedPage(await Promise.all(inboxes.map((inbox) => port.inbox(inbox, span))), span);
    const page = await read();
    if (page.items.length > 0 || leftMs <= 0 || !('afterMs' in span)) return page;
    const came = await hub.wait({ kind: 'inbox', id: inboxes[0] }, span.afterMs, leftMs, signal);
    return came ? read() : page;
  }

  /**
   * Messages that were not acknowledged, oldest first. Every read returns them again until they are
   * acknowledged.
   */
  async pending(
    caller: Caller | null,
    afterMs: number,
    limit: number,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Page<DirectMessage>> {
    const { port, hub } = this.#options;
    const { inboxes, leftMs } = await this.#inboxesOf(caller, waitMs, signal);
    const [inbox] = inboxes;
    const read = async () =>
      mergedPage(await Promise.all(inboxes.map((id) => port.pending(id, afterMs, limit))), {
        afterMs,
        limit,
      });
    // Read before the page, so that a message that arrives in between ends the wait at once.
    const newest = leftMs <= 0 ? undefined : await port.inbox(inbox, { beforeMs: null, limit: 1 });
    const page = await read();
    if (page.items.length > 0 || newest === undefined) return page;
    const came = await hub.wait(
      { kind: 'inbox', id: inbox },
      Math.max(afterMs, newest.items[0]?.tsMs ?? 0),
      leftMs,
      signal,
    );
    return came ? read() : page;
  }

  /**
   * Resolves when the caller has an inbox, or at the end of the wait. An agent gets its inbox with the first
   * message from or to it.
   */
  async firstInbox(caller: Caller | null, end: WaitEnd): Promise<void> {
    const { feed, hub } = this.#options;
    // Read before the inbox: a change after it is in the pages that follow.
    const since = await feed.newest();
    if ((await this.readerOf(caller)) !== nobodyId) return;
    await hub.waits.run(end, async (signal) => {
      const pages = feed.follow({
        since,
        accept: ({ domain, kind }) => domain === 'messaging' && kind.startsWith('identity.'),
        signal,
        idleMs: lookAgainMs,
      });
      for await (const _ of pages) if ((await this.readerOf(caller)) !== nobodyId) return;
    });
  }

  /** The inboxes that the caller reads, and how long the caller may still wait for a message in the first one. */
  async #inboxesOf(
    caller: Caller | null,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<{ inboxes: Inboxes; leftMs: number }> {
    const { authors } = this.#options;
    const inboxes = await authors.inboxesOf(caller);
    if (inboxes[0] !== nobodyId || waitMs <= 0) return { inboxes, leftMs: waitMs };
    const untilMs = performance.now() + waitMs;
    await this.firstInbox(caller, { signal, timeMs: waitMs });
    return { inboxes: await authors.inboxesOf(caller), leftMs: untilMs - performance.now() };
  }

  /** An acknowledgement can be repeated, so each inbox has a write of its own. */
  acknowledge(caller: Caller | null, ids: readonly string[]): Promise<number> {
    const { writer, steps } = this.#options;
    return prepareAndWrite(async () => {
      let acknowledged = 0;
      for (const step of await steps.acknowledge(caller, ids))
        acknowledged += await writeOne(writer, { caller: caller ?? operatorCaller() }, step);
      return acknowledged;
    });
  }
}
