/** The keys of private rooms: hashed slowly, checked off the main thread, remembered for a moment. */
import { createHmac, randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/bcrypt';
import type { Limits } from '../limits.js';
import type { Room } from './model.js';
import type { MessagingPort } from './port.js';
import { refuse } from './refusals.js';
import { SlidingWindows } from './sliding-windows.js';

const cost = 10;
const minuteMs = 60_000;
const rememberedMax = 10_000;

export class RoomKeys {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  /** Keys the tags below, so that memory never holds a room key in a form that another process could use. */
  readonly #secret = randomBytes(32);
  /** Tag of a room and a right key → when to check it again. */
  readonly #checked = new Map<string, number>();
  readonly #wrong = new SlidingWindows();
  /** Keys that are being checked, by who gave them: each may turn out to be wrong. */
  readonly #checking = new Map<string, Set<Promise<void>>>();

  constructor(port: MessagingPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  async hash(key: string): Promise<string> {
    const bytes = Buffer.byteLength(key);
    if (bytes < this.#limits.roomKeyBytesMin) throw refuse('roomKeyShort');
    if (bytes > this.#limits.roomKeyBytesMax) throw refuse('roomKeyLong');
    return hash(key, cost);
  }

  /** Returns when the key opens the room; a public room needs none. `guesser` is whose wrong keys are counted. */
  async check(room: Room, key: string | undefined, guesser: string): Promise<void> {
    if (!room.isPrivate) return;
    if (key === undefined || key === '') throw refuse('roomKeyRequired');
    const tag = createHmac('sha256', this.#secret).update(`${room.id}|${key}`).digest('base64');
    while (!this.#isKnown(tag)) {
      const checking = this.#checking.get(guesser) ?? new Set();
      // A hundred guesses at once are a hundred guesses: what goes beyond the minute's waits for those before it.
      if (this.#wrong.count(guesser, minuteMs, this.#port.nowMs()) + checking.size < this.#limits.roomKeyGuessesPerMinuteMax) return this.#guess(room, key, guesser, tag);
      if (checking.size === 0) throw refuse('rate');
      await Promise.race(checking);
    }
  }

  #isKnown(tag: string): boolean {
    return (this.#checked.get(tag) ?? 0) > this.#port.nowMs();
  }

  async #guess(room: Room, key: string, guesser: string, tag: string): Promise<void> {
    const opens = this.#opens(room, key);
    // Whoever waits for it waits for its end, good or bad.
    const ended = opens.then(() => undefined, () => undefined);
    const checking = this.#checking.get(guesser) ?? new Set();
    this.#checking.set(guesser, checking.add(ended));
    try {
      if (await opens) return this.#remember(tag);
      this.#wrong.take(guesser, this.#limits.roomKeyGuessesPerMinuteMax, minuteMs, this.#port.nowMs());
      throw refuse('roomKeyWrong');
    } finally {
      checking.delete(ended);
      if (checking.size === 0) this.#checking.delete(guesser);
    }
  }

  async #opens(room: Room, key: string): Promise<boolean> {
    const stored = await this.#port.roomKeyHash(room.id);
    return stored !== null && Buffer.byteLength(key) <= this.#limits.roomKeyBytesMax && verify(key, stored);
  }

  #remember(tag: string): void {
    this.#checked.set(tag, this.#port.nowMs() + this.#limits.roomKeyCacheSeconds * 1000);
    if (this.#checked.size <= rememberedMax) return;
    const [oldest] = this.#checked.keys();
    if (oldest !== undefined) this.#checked.delete(oldest);
  }
}
