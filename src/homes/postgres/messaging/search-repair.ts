/**
 * On a cluster a message and its words lie on different nodes. What a server left out of the search that
 * ended in between, or found a node away, is brought into it: when a server starts, and from time to time.
 */
import type { Limits } from '../../../core/settings/limits.js';
import type { RedisGuards } from './guards.js';
import type { RedisMessages } from './messages.js';
import { type RedisConnection, searchRepairKey, unindexedPart, withRedis } from './redis.js';

export interface SearchRepairOptions {
  redis: RedisConnection;
  limits: Limits;
  messages: RedisMessages;
  guards: RedisGuards;
  onError: (error: unknown, about: string) => void;
}

const roomOfKey = new RegExp(`^room:\\{(.+)\\}:${unindexedPart}$`);

export class SearchRepair {
  readonly #options: SearchRepairOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(options: SearchRepairOptions) {
    this.#options = options;
  }

  start(): void {
    const periodMs = this.#options.limits.searchRepairSeconds * 1_000;
    this.#run(() => this.#repair());
    this.#timer = setInterval(() => this.#run(() => this.#repairInTurn(periodMs)), periodMs);
    this.#timer.unref();
  }

  /** Waits for the step that runs. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  #run(work: () => Promise<void>): void {
    this.#running ??= work()
      .catch((error: unknown) => this.#tell(error))
      .finally(() => {
        this.#running = undefined;
      });
  }

  /** Of all servers one looks in a period. */
  async #repairInTurn(periodMs: number): Promise<void> {
    const { commands } = this.#options.redis;
    if (
      (await withRedis(() => commands.set(searchRepairKey, '1', 'PX', Math.ceil(periodMs * 0.9), 'NX'))) ===
      'OK'
    )
      await this.#repair();
  }

  async #repair(): Promise<void> {
    const { guards } = this.#options;
    // One room after the other; what is wrong with one is not the others'.
    for (const key of await guards.scan(`room:*:${unindexedPart}`)) {
      const roomId = roomOfKey.exec(key)?.[1];
      if (this.#closed || roomId === undefined) continue;
      await this.#repairRoom(roomId).catch((error: unknown) => this.#tell(error));
    }
  }

  /** Only what is there now: a message stands in the list for a moment with every post, so that a busy room's is never empty. */
  async #repairRoom(roomId: string): Promise<void> {
    const { messages } = this.#options;
    const newest = await messages.newestMissing(roomId);
    if (newest === undefined) return;
    while (!this.#closed && (await messages.indexMissing(roomId, newest)));
  }

  #tell(error: unknown): void {
    this.#options.onError(error, 'bringing messages into the search; it is tried again');
  }
}
