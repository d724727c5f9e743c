/** Live delivery: readers of rooms and inboxes get every message after their position, once, in order. */
import type { DirectMessage, Message } from './model.js';
import type { MessagingPort, Notice, Page, Span } from './port.js';

export type Topic = { kind: 'room'; id: string } | { kind: 'inbox'; id: string };

export interface Delivery {
  onMessage(topic: Topic, message: Message | DirectMessage): void;
  onDeleted?(topic: Topic, messageId: string): void;
  /** Messages came in behind the reader's position: it should read the topic anew. */
  onImported?(topic: Topic): void;
  /** Resolves when the reader has taken what it got: one that catches up is not sent more than it takes. */
  drained?(): Promise<void>;
  /** The store could not be read; the reader should come back from its position. */
  onFailure(error: unknown): void;
}

interface Reader {
  delivery: Delivery;
  /** The time of the last message that it got. */
  positionMs: number;
}

/** Messages read at once for a reader that has to catch up. */
const catchUpPage = 200;

export class MessageHub {
  readonly #port: MessagingPort;
  readonly #channels = new Map<string, Channel>();
  readonly #stop: () => void;

  constructor(port: MessagingPort) {
    this.#port = port;
    this.#stop = port.subscribe((notice) => this.#onNotice(notice));
  }

  /** Delivers all that comes after `afterMs`, first what is stored, then what happens. Returns the way to stop it. */
  follow(topic: Topic, afterMs: number, delivery: Delivery): () => void {
    const key = keyOf(topic.kind, topic.id);
    const channel =
      this.#channels.get(key) ?? new Channel(this.#port, topic, () => this.#channels.delete(key));
    this.#channels.set(key, channel);
    return channel.join({ delivery, positionMs: afterMs });
  }

  /** Resolves true as soon as there is something after `afterMs`, false when the time is over. */
  wait(topic: Topic, afterMs: number, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const finish = (outcome: () => void) => {
        clearTimeout(timeout);
        signal.removeEventListener('abort', onEnd);
        // A message may be there before `follow` has returned.
        queueMicrotask(() => leave());
        outcome();
      };
      const onEnd = () => finish(() => resolve(false));
      const timeout = setTimeout(onEnd, timeoutMs);
      signal.addEventListener('abort', onEnd);
      const leave = this.follow(topic, afterMs, {
        onMessage: () => finish(() => resolve(true)),
        onFailure: (error) => finish(() => reject(error)),
      });
      if (signal.aborted) onEnd();
    });
  }

  close(): void {
    this.#stop();
    this.#channels.clear();
  }

  #onNotice(notice: Notice): void {
    if (notice.topic === 'all') {
      for (const channel of this.#channels.values()) channel.wake();
      return;
    }
    if (notice.topic === 'identity' || notice.topic === 'block') return;
    const channel = this.#channels.get(keyOf(notice.topic, notice.id));
    if (notice.kind === 'deleted') channel?.announceDeleted(notice.messageId);
    else if (notice.kind === 'imported') channel?.announceImported();
    else channel?.wake();
  }
}

function keyOf(kind: Topic['kind'], id: string): string {
  return `${kind} ${id}`;
}

/** One room or inbox with readers: a new message is read once and handed to all who are up to date. */
class Channel {
  readonly #port: MessagingPort;
  readonly #topic: Topic;
  readonly #onEmpty: () => void;
  readonly #live = new Set<Reader>();
  readonly #joining = new Set<Reader>();
  /** Every live reader has got all up to here. */
  #positionMs = 0;
  #pumping = false;
  #woken = false;

  constructor(port: MessagingPort, topic: Topic, onEmpty: () => void) {
    this.#port = port;
    this.#topic = topic;
    this.#onEmpty = onEmpty;
  }

  join(reader: Reader): () => void {
    this.#joining.add(reader);
    void this.#catchUp(reader);
    return () => {
      this.#joining.delete(reader);
      this.#live.delete(reader);
      if (this.#live.size + this.#joining.size === 0) this.#onEmpty();
    };
  }

  wake(): void {
    this.#woken = true;
    void this.#pump();
  }

  announceDeleted(messageId: string): void {
    for (const { delivery } of [...this.#live, ...this.#joining])
      delivery.onDeleted?.(this.#topic, messageId);
  }

  announceImported(): void {
    for (const { delivery } of [...this.#live, ...this.#joining]) delivery.onImported?.(this.#topic);
    this.wake();
  }

  async #catchUp(reader: Reader): Promise<void> {
    try {
      for (;;) {
        const { items, hasMore } = await this.#read(reader.positionMs);
        if (!this.#joining.has(reader)) return;
        for (const message of items) {
          deliver(reader, this.#topic, message);
          if (reader.delivery.drained !== undefined) await reader.delivery.drained();
        }
        // Between this line and the next nothing else runs: no message can slip through.
        if (!hasMore && (this.#live.size === 0 || this.#positionMs <= reader.positionMs)) break;
      }
    } catch (error) {
      this.#joining.delete(reader);
      reader.delivery.onFailure(error);
      return;
    }
    this.#joining.delete(reader);
    if (this.#live.size === 0) this.#positionMs = reader.positionMs;
    this.#live.add(reader);
    this.wake();
  }

  async #pump(): Promise<void> {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#woken && this.#live.size > 0) {
        this.#woken = false;
        const { items, hasMore } = await this.#read(this.#positionMs);
        this.#woken ||= hasMore;
        for (const message of items) {
          this.#positionMs = Math.max(this.#positionMs, message.tsMs);
          for (const reader of this.#live) deliver(reader, this.#topic, message);
        }
      }
    } catch (error) {
      const readers = [...this.#live];
      this.#live.clear();
      for (const { delivery } of readers) delivery.onFailure(error);
    } finally {
      this.#pumping = false;
    }
  }

  #read(afterMs: number): Promise<Page<Message> | Page<DirectMessage>> {
    const span: Span = { afterMs, limit: catchUpPage };
    return this.#topic.kind === 'room'
      ? this.#port.messages(this.#topic.id, span)
      : this.#port.inbox(this.#topic.id, span);
  }
}

function deliver(reader: Reader, topic: Topic, message: Message | DirectMessage): void {
  if (message.tsMs <= reader.positionMs) return;
  reader.positionMs = message.tsMs;
  reader.delivery.onMessage(topic, message);
}
