/** Live delivery: readers of rooms and inboxes get every message after their position, once, in order. */
import { Waits } from '../../core/waiting/waits.js';
import { Slices } from '../../core/waiting/yielding.js';
import type { DirectMessage, Message } from '../model.js';
import type { MessagingPort, Notice, Page, Span } from '../port.js';
import type { RoomKeep } from '../rooms/visibility.js';

export type Topic = { kind: 'room'; id: string; room: RoomKeep } | { kind: 'inbox'; id: string };

export interface Delivery {
  onMessage(topic: Topic, message: Message | DirectMessage): void;
  onDeleted?(topic: Topic, messageId: string): void;
  /** Messages were added before the reader's position. The reader should read the topic again. */
  onImported?(topic: Topic): void;
  /** The room was deleted. */
  onRemoved?(topic: Topic): void;
  /**
   * Resolves when the reader has taken the messages, so that a slow reader is not sent more than it can take.
   */
  drained?(): Promise<void>;
  /** The store could not be read; the reader should connect again from its position. */
  onFailure(error: unknown): void;
}

interface Reader {
  delivery: Delivery;
  /**
   * First the position that the reader named, then the time of the last message that it got. It may be later
   * than every message.
   */
  positionMs: number;
  /**
   * The reader's position at the start of the page that is being delivered: several messages of a page may
   * have the same time.
   */
  fromMs: number;
}

/** Messages read at once for a reader that has to catch up. */
const catchUpPage = 200;

export class MessageHub {
  readonly #port: MessagingPort;
  readonly #channels = new Map<string, Channel>();
  /** Readers that wait for their next message, or for their inbox. */
  readonly waits = new Waits();
  readonly #stop: () => void;

  constructor(port: MessagingPort) {
    this.#port = port;
    this.#stop = port.subscribe((notice) => this.#onNotice(notice));
  }

  /** How many readers wait for their next message. */
  get waiting(): number {
    return this.waits.size;
  }

  /**
   * Delivers all messages after `afterMs`: first the stored ones, then new ones. Returns a function that
   * stops it.
   */
  follow(topic: Topic, afterMs: number, delivery: Delivery): () => void {
    const key = keyOf(topic.kind, topic.id);
    const channel: Channel =
      this.#channels.get(key) ??
      new Channel(this.#port, topic, () => {
        // A reader may leave twice. The second time, another channel may have this name.
        if (this.#channels.get(key) === channel) this.#channels.delete(key);
      });
    this.#channels.set(key, channel);
    return channel.join({ delivery, positionMs: afterMs, fromMs: afterMs });
  }

  /**
   * Resolves to true when there is a message after `afterMs`, and to false when the time is over or the
   * server stops.
   */
  wait(topic: Topic, afterMs: number, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    return this.waits.run({ signal, timeMs: timeoutMs }, (ended) => this.#firstAfter(topic, afterMs, ended));
  }

  #firstAfter(topic: Topic, afterMs: number, ended: AbortSignal): Promise<boolean> {
    if (ended.aborted) return Promise.resolve(false);
    return new Promise((resolve, reject) => {
      const finish = (outcome: () => void) => {
        // A message may arrive before `follow` has returned.
        queueMicrotask(() => leave());
        outcome();
      };
      const onEnd = () => finish(() => resolve(false));
      ended.addEventListener('abort', onEnd);
      const leave = this.follow(topic, afterMs, {
        onMessage: () => finish(() => resolve(true)),
        onRemoved: onEnd,
        onFailure: (error) => finish(() => reject(error)),
      });
    });
  }

  /** Ends every wait at once. Later waits end immediately. */
  stopWaiting(): void {
    this.waits.stop();
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
    else if (notice.kind === 'removed') channel?.announceRemoved();
    else channel?.wake();
  }
}

function keyOf(kind: Topic['kind'], id: string): string {
  return `${kind} ${id}`;
}

/**
 * One room or inbox with readers: a new message is read once and delivered to all readers that have caught
 * up. A reader has caught up when a page after its position has nothing more. No step compares positions to
 * find an end: a message may be deleted or expire meanwhile, and a reader may name any position.
 */
class Channel {
  readonly #port: MessagingPort;
  readonly #topic: Topic;
  readonly #onEmpty: () => void;
  /** Readers that still catch up. Each reads its own pages until the last one. */
  readonly #catchingUp = new Set<Reader>();
  /** They have caught up and get messages with the next read of the channel. */
  readonly #arrived = new Set<Reader>();
  readonly #live = new Set<Reader>();
  /** No message that a live reader lacks is at or before this time. */
  #positionMs = 0;
  #pumping = false;
  #woken = false;
  #imported = false;
  /** Notices about messages that some readers are about to get. */
  readonly #notices: (() => void)[] = [];

  constructor(port: MessagingPort, topic: Topic, onEmpty: () => void) {
    this.#port = port;
    this.#topic = topic;
    this.#onEmpty = onEmpty;
  }

  join(reader: Reader): () => void {
    this.#catchingUp.add(reader);
    void this.#catchUp(reader);
    return () => {
      for (const readers of [this.#catchingUp, this.#arrived, this.#live]) readers.delete(reader);
      if (this.#catchingUp.size + this.#arrived.size + this.#live.size === 0) this.#onEmpty();
    };
  }

  wake(): void {
    this.#woken = true;
    void this.#pump();
  }

  announceDeleted(messageId: string): void {
    this.#notices.push(() => {
      for (const { delivery } of this.#readers()) delivery.onDeleted?.(this.#topic, messageId);
    });
    if (!this.#pumping) this.#announce();
  }

  /** After the messages that were read before: no reader may get a message after the notice of its deletion. */
  #announce(): void {
    for (const notice of this.#notices.splice(0)) notice();
  }

  announceImported(): void {
    this.#imported = true;
    for (const { delivery } of this.#readers()) delivery.onImported?.(this.#topic);
    this.wake();
  }

  announceRemoved(): void {
    for (const { delivery } of this.#readers()) delivery.onRemoved?.(this.#topic);
  }

  #readers(): Reader[] {
    return [...this.#live, ...this.#arrived, ...this.#catchingUp];
  }

  async #catchUp(reader: Reader): Promise<void> {
    try {
      for (;;) {
        const { items, hasMore } = await this.#read(reader.positionMs);
        reader.fromMs = reader.positionMs;
        for (const message of items) {
          if (!this.#catchingUp.has(reader)) return;
          deliver(reader, this.#topic, message);
          if (reader.delivery.drained !== undefined) await reader.delivery.drained();
        }
        if (!this.#catchingUp.has(reader)) return;
        if (!hasMore || items.length === 0) break;
      }
    } catch (error) {
      this.#catchingUp.delete(reader);
      reader.delivery.onFailure(error);
      return;
    }
    this.#catchingUp.delete(reader);
    this.#arrived.add(reader);
    this.wake();
  }

  async #pump(): Promise<void> {
    if (this.#pumping) return;
    this.#pumping = true;
    // One message to thousands of readers takes tens of milliseconds.
    const slices = new Slices();
    try {
      while (this.#woken) {
        this.#woken = false;
        this.#admit();
        if (this.#live.size === 0) break;
        if (this.#imported) await this.#pullBack();
        const { items, hasMore } = await this.#read(this.#positionMs);
        for (const reader of this.#live) reader.fromMs = reader.positionMs;
        for (const message of items) {
          this.#positionMs = message.tsMs;
          for (const reader of this.#live) {
            deliver(reader, this.#topic, message);
            const pause = slices.pause();
            if (pause !== undefined) await pause;
          }
        }
        this.#announce();
        this.#woken ||= hasMore && items.length > 0;
      }
    } catch (error) {
      const readers = [...this.#live, ...this.#arrived];
      this.#live.clear();
      this.#arrived.clear();
      for (const { delivery } of readers) delivery.onFailure(error);
    } finally {
      this.#pumping = false;
      this.#announce();
    }
  }

  /**
   * Runs between two reads of the channel, because a page that is being delivered was not read for new
   * readers. The next page begins at the reader that is furthest behind; the others skip messages that they
   * have.
   */
  #admit(): void {
    for (const reader of this.#arrived) {
      this.#positionMs =
        this.#live.size === 0 ? reader.positionMs : Math.min(this.#positionMs, reader.positionMs);
      this.#live.add(reader);
    }
    this.#arrived.clear();
  }

  /**
   * Times that were in the future may have been repaired. Readers past the newest message wait for the
   * messages after it.
   */
  async #pullBack(): Promise<void> {
    this.#imported = false;
    const { items } = await this.#page({ beforeMs: null, limit: 1 });
    const newestMs = items[0]?.tsMs ?? 0;
    this.#positionMs = Math.min(this.#positionMs, newestMs);
    for (const reader of this.#live) reader.positionMs = Math.min(reader.positionMs, newestMs);
  }

  #read(afterMs: number): Promise<Page<Message> | Page<DirectMessage>> {
    return this.#page({ afterMs, limit: catchUpPage });
  }

  #page(span: Span): Promise<Page<Message> | Page<DirectMessage>> {
    return this.#topic.kind === 'room'
      ? this.#port.messages(this.#topic.room, span)
      : this.#port.inbox(this.#topic.id, span);
  }
}

function deliver(reader: Reader, topic: Topic, message: Message | DirectMessage): void {
  if (message.tsMs <= reader.fromMs) return;
  reader.positionMs = message.tsMs;
  reader.delivery.onMessage(topic, message);
}
