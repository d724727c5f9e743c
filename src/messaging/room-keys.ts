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
    if ((this.#checked.get(tag) ?? 0) > this.#port.nowMs()) return;
    const { roomKeyGuessesPerMinuteMax, roomKeyBytesMax } = this.#limits;
    if (this.#wrong.count(guesser, minuteMs, this.#port.nowMs()) >= roomKeyGuessesPerMinuteMax) throw refuse('rate');
    const stored = await this.#port.roomKeyHash(room.id);
    if (stored === null || Buffer.byteLength(key) > roomKeyBytesMax || !(await verify(key, stored))) {
      this.#wrong.take(guesser, roomKeyGuessesPerMinuteMax, minuteMs, this.#port.nowMs());
      throw refuse('roomKeyWrong');
    }
    this.#remember(tag);
  }

  #remember(tag: string): void {
    this.#checked.set(tag, this.#port.nowMs() + this.#limits.roomKeyCacheSeconds * 1000);
    if (this.#checked.size <= rememberedMax) return;
    const [oldest] = this.#checked.keys();
    if (oldest !== undefined) this.#checked.delete(oldest);
  }
}
