/** The keys of private rooms: hashed slowly, checked off the main thread, remembered for a moment. */
import { createHmac, randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/bcrypt';
import type { Limits } from '../limits.js';
import { countedAddress } from './addresses.js';
import type { Room } from './model.js';
import type { MessagingPort, RateKey } from './port.js';
import { refuse } from './refusals.js';

const cost = 10;
const minute = 60;
const rememberedMax = 10_000;

/** A key that somebody came with. */
interface Guess {
  room: Room;
  key: string;
  /** Room and key, as memory knows them. */
  tag: string;
  counter: RateKey;
}

export class RoomKeys {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  /** Keys the tags below, so that memory never holds a room key in a form that another process could use. */
  readonly #secret = randomBytes(32);
  /** Tag of a room and a right key → when to check it again. */
  readonly #checked = new Map<string, number>();
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

  /** Returns when the key opens the room; a public room needs none. `address` is whose wrong keys are counted. */
  async check(room: Room, key: string | undefined, address: string): Promise<void> {
    if (!room.isPrivate) return;
    if (key === undefined || key === '') throw refuse('roomKeyRequired');
    const tag = createHmac('sha256', this.#secret).update(`${room.id}|${key}`).digest('base64');
    const guess: Guess = {
      room,
      key,
      tag,
      counter: { endpoint: 'room-key', scope: 'ip', subject: countedAddress(address) },
    };
    while (!this.#isKnown(tag)) {
      // Counted before it is checked, so that a hundred guesses at once, on whichever servers, are a hundred guesses.
      const decision = await this.#port.takeRate(
        guess.counter,
        this.#limits.roomKeyGuessesPerMinuteMax,
        minute,
      );
      if (decision.allowed) {
        if (await this.#track(guess.counter.subject, this.#try(guess))) return;
        throw refuse('roomKeyWrong');
      }
      const checking = this.#checking.get(guess.counter.subject);
      if (checking === undefined) throw refuse('rate', { details: { decision } });
      // A key before it may turn out to be right, and then does not count.
      await Promise.race(checking);
    }
  }

  #isKnown(tag: string): boolean {
    return (this.#checked.get(tag) ?? 0) > this.#port.nowMs();
  }

  /** Whoever waits for it waits for its end, good or bad. */
  async #track(guesser: string, trying: Promise<boolean>): Promise<boolean> {
    const ended = trying.then(
      () => undefined,
      () => undefined,
    );
    const checking = this.#checking.get(guesser) ?? new Set();
    this.#checking.set(guesser, checking.add(ended));
    try {
      return await trying;
    } finally {
      checking.delete(ended);
      if (checking.size === 0) this.#checking.delete(guesser);
    }
  }

  /** Only wrong keys stay counted. */
  async #try({ room, key, tag, counter }: Guess): Promise<boolean> {
    let isWrong = false;
    try {
      isWrong = !(await this.#opens(room, key));
      if (!isWrong) this.#remember(tag);
      return !isWrong;
    } finally {
      if (!isWrong) await this.#port.returnRate(counter, minute);
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
