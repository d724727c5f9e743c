/** Advisory locks for every door: acquire with or without waiting, release, list. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { type Page, decodeTextCursor, encodeCursor, pageLimit } from '../core/paging.js';
import type { Limits } from '../core/settings/limits.js';
import { limitError } from '../core/settings/exceeds.js';
import { Waits } from '../core/waiting/waits.js';
import { type Writer, writeOne } from '../core/write.js';
import type { Feed } from '../feed/port.js';
import { checkUserId } from '../identity/user-key.js';
import { lockId } from './changes.js';
import type { LocksPort } from './port.js';
import { checkLockName } from './rules.js';
import type { AcquireLockInput, LockAnswer, ReleaseLockAnswer, ReleaseLockInput } from './schemas.js';
import { LocksSteps, lockAnswer } from './steps.js';

export interface LocksServiceOptions {
  writer: Writer;
  port: LocksPort;
  limits: Limits;
  /** Wakes those that wait for a lock, on all servers. */
  feed: Feed;
}

export interface LockListInput {
  prefix?: string | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
}

export class LocksService {
  readonly steps: LocksSteps;
  readonly port: LocksPort;
  readonly #writer: Writer;
  readonly #limits: Limits;
  readonly #feed: Feed;
  readonly #waits = new Waits();

  constructor({ writer, port, limits, feed }: LocksServiceOptions) {
    this.port = port;
    this.steps = new LocksSteps(port, limits);
    this.#writer = writer;
    this.#limits = limits;
    this.#feed = feed;
  }

  /**
   * Takes the lock, or renews it if the caller holds it. A lock of another holder is refused (`conflict`),
   * after `wait` seconds if they are given.
   *
   * @example
   * const { lock } = await stoa.locks.acquire(caller, 'src/app.ts', { ttl: 300, wait: 20 });
   */
  async acquire(
    caller: Caller,
    name: string,
    input: AcquireLockInput = {},
    signal?: AbortSignal,
  ): Promise<{ lock: LockAnswer; acquired: boolean }> {
    const { wait = 0 } = input;
    const limits = this.#limits;
    if (wait > limits.lockWaitSecondsMax)
      throw limitError('invalid_request', {
        subject: 'wait',
        unit: 'seconds',
        limit: 'lockWaitSecondsMax',
        limits,
        received: wait,
        advice: 'Wait for a shorter time, and ask again',
        details: { field: 'wait' },
      });
    const step = this.steps.acquire(caller, name, input);
    const attempt = (): Promise<{ lock: LockAnswer; acquired: boolean }> =>
      writeOne(this.#writer, { caller }, step);
    if (wait === 0) return attempt();
    if (this.#waits.size >= limits.locksWaitingMax)
      throw limitError('overloaded', {
        subject: 'The server',
        unit: 'requests waiting for locks',
        limit: 'locksWaitingMax',
        limits,
        received: this.#waits.size + 1,
        advice: 'Ask without "wait" after a moment',
      });
    return this.#waits.run({ signal, timeMs: wait * 1_000 }, (ended) =>
      this.#acquireInTime(caller, name, attempt, ended),
    );
  }

  /** Tries again whenever the lock changes, until the time is over. The last refusal is the answer. */
  async #acquireInTime<Acquired>(
    caller: Caller,
    name: string,
    attempt: () => Promise<Acquired>,
    signal: AbortSignal,
  ): Promise<Acquired> {
    // Read before the attempt: the end of the lock after it is in the pages that follow.
    let since = await this.#feed.newest();
    for (;;) {
      try {
        return await attempt();
      } catch (error) {
        if (!isHeld(error) || signal.aborted) throw error;
        since = await this.#untilChanged(checkUserId(caller.user, this.#limits), name, since, signal);
      }
    }
  }

  /** Ends every wait at once, with the refusal that it waited to avoid. */
  stopWaiting(): void {
    this.#waits.stop();
  }

  async release(caller: Caller, name: string, input: ReleaseLockInput = {}): Promise<ReleaseLockAnswer> {
    return writeOne(this.#writer, { caller }, this.steps.release(caller, name, input));
  }

  /** Locks that are held, in the order of their names. */
  async list(caller: Caller, { prefix = '', limit, cursor }: LockListInput = {}): Promise<Page<LockAnswer>> {
    if (prefix !== '') checkLockName(prefix, this.#limits);
    const user = checkUserId(caller.user, this.#limits);
    const list = JSON.stringify(['locks', user, prefix]);
    const after = decodeTextCursor(list, cursor, this.#limits.lockNameBytesMax);
    const { items, next } = await this.port.listLocks(user, {
      prefix,
      after,
      limit: pageLimit(limit, this.#limits),
    });
    return {
      items: items.map(lockAnswer),
      next_cursor: next === null ? null : encodeCursor(list, Buffer.from(next)),
    };
  }

  /** Waits for the next change of the lock, or until the time is over. Returns where to continue. */
  async #untilChanged(user: string, name: string, since: string, signal: AbortSignal): Promise<string> {
    const id = lockId(name);
    const pages = this.#feed.follow({
      since,
      interest: { id },
      accept: (change) => change.domain === 'locks' && change.id === id && change.user === user,
      signal,
      idleMs: lookAgainMs,
    });
    for await (const page of pages) return page.position;
    return since;
  }
}

/** A lock can end without a change in the feed, if the server that sweeps is late. */
const lookAgainMs = 2_000;

function isHeld(error: unknown): boolean {
  return error instanceof StoaError && error.code === 'conflict';
}
