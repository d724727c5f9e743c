/**
 * The keys of private rooms: hashed with bcrypt, checked outside of the main thread, cached for a short time.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import type { Caller } from '../../core/caller.js';
import type { Limits } from '../../core/settings/limits.js';
import { countedAddress } from '../gate/addresses.js';
import type { Room } from '../model.js';
import type { MessagingPort, RateKey } from '../port.js';
import { refuse } from '../refusals.js';
import type { RateDecision } from '../gate/sliding-windows.js';

const cost = 10;
const minute = 60;
const rememberedMax = 10_000;

/** The sender of a key. Wrong keys count for its address, and for the caller if it is authenticated. */
export interface KeyGiver {
  caller: Caller | null;
  address: string | undefined;
}

interface Guess {
  room: Room;
  key: string;
  /** The hash of the room's key, if it was read before. */
  keyHash: string | null | undefined;
  /** The tag of room and key in the cache. */
  tag: string;
  counters: readonly RateKey[];
}

export class RoomKeys {
  readonly #port: MessagingPort;
  readonly #limits: Limits;
  /**
   * The secret of the tags below. With it, memory never contains a room key in a form that another process
   * could use.
   */
  readonly #secret = randomBytes(32);
  /**
   * By the tag of a room and a correct key: the hash that the key matches, and when to check it again. It
   * saves a bcrypt for each request.
   */
  readonly #checked = new LRUCache<string, { untilMs: number; keyHash: string }>(
    entriesAtMost(rememberedMax),
  );
  /** The checks that run now, by the counter of wrong keys that each may raise. */
  readonly #checking = new Map<string, Set<Promise<void>>>();

  constructor(port: MessagingPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  async hash(key: string): Promise<string> {
    const bytes = Buffer.byteLength(key);
    if (bytes < this.#limits.roomKeyBytesMin) throw refuse('roomKeyShort');
    if (bytes > this.#limits.roomKeyBytesMax) throw refuse('roomKeyLong');
    const { hash } = await bcrypt();
    return hash(key, cost);
  }

  /**
   * Returns if the key opens the room, and throws otherwise. A public room needs no key. With `keyHash`, the
   * key must match that hash.
   */
  async check(room: Room, key: string | undefined, giver: KeyGiver, keyHash?: string | null): Promise<void> {
    if (!room.isPrivate) return;
    if (key === undefined || key === '') throw refuse('roomKeyRequired');
    const tag = createHmac('sha256', this.#secret).update(`${room.id}|${key}`).digest('base64');
    const guess: Guess = { room, key, keyHash, tag, counters: countersOf(giver) };
    while (!this.#isKnown(guess)) {
      // Counted before the check, so that a hundred parallel guesses on any servers count as a hundred.
      const full = await this.#count(guess.counters);
      if (full === undefined) {
        if (await this.#track(guess.counters, this.#try(guess))) return;
        throw refuse('roomKeyWrong');
      }
      const checking = this.#checking.get(nameOf(full.counter));
      if (checking === undefined) throw refuse('rate', { details: { decision: full.decision } });
      // An earlier key may be correct, and then does not count.
      await Promise.race(checking);
    }
  }

  /** Counts a guess in all counters. If one is full, counts it in none and returns that counter. */
  async #count(
    counters: readonly RateKey[],
  ): Promise<{ counter: RateKey; decision: RateDecision } | undefined> {
    for (const [at, counter] of counters.entries()) {
      const decision = await this.#port.takeRate(counter, this.#limits.roomKeyGuessesPerMinuteMax, minute);
      if (decision.allowed) continue;
      await this.#giveBack(counters.slice(0, at));
      return { counter, decision };
    }
    return undefined;
  }

  async #giveBack(counters: readonly RateKey[]): Promise<void> {
    for (const counter of counters) await this.#port.returnRate(counter, minute);
  }

  #isKnown({ tag, keyHash }: Guess): boolean {
    const known = this.#checked.get(tag);
    if (known === undefined || known.untilMs <= this.#port.nowMs()) return false;
    return keyHash === undefined || known.keyHash === keyHash;
  }

  /** Callers wait for its end, whether it succeeds or fails. */
  async #track(counters: readonly RateKey[], trying: Promise<boolean>): Promise<boolean> {
    const ended = trying.then(
      () => undefined,
      () => undefined,
    );
    const names = counters.map(nameOf);
    for (const name of names) {
      const checking = this.#checking.get(name) ?? new Set();
      this.#checking.set(name, checking.add(ended));
    }
    try {
      return await trying;
    } finally {
      for (const name of names) {
        const checking = this.#checking.get(name);
        checking?.delete(ended);
        if (checking?.size === 0) this.#checking.delete(name);
      }
    }
  }

  /** Only wrong keys stay counted. */
  async #try({ room, key, keyHash, tag, counters }: Guess): Promise<boolean> {
    let isWrong = false;
    try {
      const stored = keyHash === undefined ? await this.#port.roomKeyHash(room.id) : keyHash;
      const { verify } = await bcrypt();
      isWrong =
        stored === null ||
        Buffer.byteLength(key) > this.#limits.roomKeyBytesMax ||
        !(await verify(key, stored));
      if (stored !== null && !isWrong) this.#remember(tag, stored);
      return !isWrong;
    } finally {
      if (!isWrong) await this.#giveBack(counters);
    }
  }

  #remember(tag: string, keyHash: string): void {
    const untilMs = this.#port.nowMs() + this.#limits.roomKeyCacheSeconds * 1000;
    this.#checked.set(tag, { untilMs, keyHash });
  }
}

/** Loaded for the first key of a room: it takes 3 ms of a start. */
function bcrypt(): Promise<typeof import('./bcrypt.js')> {
  return import('./bcrypt.js');
}

function countersOf({ caller, address }: KeyGiver): RateKey[] {
  const endpoint = 'room-key';
  const counters: RateKey[] = [];
  if (address !== undefined) counters.push({ endpoint, scope: 'ip', subject: countedAddress(address) });
  if (caller !== null)
    counters.push(
      caller.identity === null
        ? { endpoint, scope: 'user', subject: caller.user }
        : { endpoint, scope: 'agent', subject: caller.identity },
    );
  return counters;
}

function nameOf({ scope, subject }: RateKey): string {
  return `${scope} ${subject}`;
}
