/** Direct messages: opaque to the server, kept until their time is over, delivered again until acknowledged. */
import type { Caller } from '../identity/caller.js';
import type { Limits } from '../limits.js';
import type { Authors } from './authors.js';
import type { MessageHub } from './hub.js';
import type { DirectMessage } from './model.js';
import { wellFormed } from './names.js';
import type { MessagingPort, Page, Span } from './port.js';
import type { CheckedSignature } from './proof.js';
import { refuse } from './refusals.js';
import { canonicalUuid } from './uuid.js';

export class DirectMessages {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  readonly #authors: Authors;
  readonly #hub: MessageHub;

  constructor(port: MessagingPort, limits: Limits, authors: Authors, hub: MessageHub) {
    this.#port = port;
    this.#limits = limits;
    this.#authors = authors;
    this.#hub = hub;
  }

  async send(
    caller: Caller | null,
    recipient: string,
    input: { body: string },
    signature: CheckedSignature | null,
  ): Promise<DirectMessage> {
    const to = canonicalUuid(recipient);
    if (to === undefined) throw refuse('recipientId');
    if ((await this.#port.identity(to)) === undefined) throw refuse('recipientUnknown');
    const body = wellFormed(input.body);
    if (body === '') throw refuse('bodyMissing');
    if (Buffer.byteLength(body) > this.#limits.directBytesMax) throw refuse('directLong');
    const author = await this.#authors.authorOf(caller, signature);
    return this.#port.send({
      to,
      from: author.id,
      body,
      proof: author.prove(body),
      serverSigned: author.serverSigned,
    });
  }

  /** Whose inbox the caller reads. */
  readerOf(caller: Caller | null): Promise<string> {
    return this.#authors.readerOf(caller);
  }

  /** The inbox of an agent of the same user, for those who write to it by name. */
  recipientOf(agent: Pick<Caller, 'user' | 'agent'>): Promise<string> {
    return this.#authors.recipientOf(agent);
  }

  async read(agentId: string, span: Span, waitMs: number, signal: AbortSignal): Promise<Page<DirectMessage>> {
    const page = await this.#port.inbox(agentId, span);
    if (page.items.length > 0 || waitMs === 0 || !('afterMs' in span)) return page;
    const came = await this.#hub.wait({ kind: 'inbox', id: agentId }, span.afterMs, waitMs, signal);
    return came ? this.#port.inbox(agentId, span) : page;
  }

  /** What was not acknowledged, oldest first: the same again with every read until it is. */
  async pending(
    agentId: string,
    afterMs: number,
    limit: number,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Page<DirectMessage>> {
    // Read before the page: what comes in between then ends the wait at once.
    const newest = waitMs === 0 ? undefined : await this.#port.inbox(agentId, { beforeMs: null, limit: 1 });
    const page = await this.#port.pending(agentId, afterMs, limit);
    if (page.items.length > 0 || newest === undefined) return page;
    const came = await this.#hub.wait(
      { kind: 'inbox', id: agentId },
      Math.max(afterMs, newest.items[0]?.tsMs ?? 0),
      waitMs,
      signal,
    );
    return came ? this.#port.pending(agentId, afterMs, limit) : page;
  }

  async acknowledge(caller: Caller | null, ids: readonly string[]): Promise<number> {
    if (ids.length === 0) throw refuse('acknowledgeMissing');
    if (ids.length > this.#limits.acknowledgedIdsMax) throw refuse('acknowledgeMany');
    return this.#port.acknowledge(await this.readerOf(caller), ids);
  }
}
