/** Advisory locks through a server: acquired, renewed while they are held, released. No Node built-ins. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { locks } from '../api/locks/operations.js';
import { StoaError } from '../core/errors.js';
import { type Methods, methodsOf } from './methods.js';
import { Renewal, heldSince } from './renewal.js';
import type { Transport } from './transport/transport.js';

export type Lock = AnswerOf<'locks.acquire'>;

export interface LockSettings extends CallSettings {
  /** Seconds that the lock outlives this program; the default is the server's. */
  ttl?: number | undefined;
  /** Seconds to wait for a lock that another agent holds. */
  wait?: number | undefined;
  /** Why it is held; other agents see it. */
  note?: string | undefined;
  /** Refuse also if the same agent holds the lock already. */
  ifFree?: boolean | undefined;
}

/** The longest wait of one request; a longer wait is several requests. */
const waitSecondsEach = 20;

export interface LocksClient extends Omit<Methods<'locks'>, 'acquire'> {
  /**
   * Acquires a lock and renews it until it is released or lost. Rejects with `conflict` if another agent
   * holds it; the details name the holder and when the lock ends.
   *
   * @example
   * const lock = await stoa.locks.acquire('src/app.ts', { ttl: 300, wait: 60 });
   * try {
   *   await edit('src/app.ts', { signal: lock.signal });
   * } finally {
   *   await lock.release();
   * }
   */
  acquire(name: string, settings?: LockSettings): Promise<HeldLock>;
}

export function locksClient(transport: Transport): LocksClient {
  const calls = methodsOf(transport, 'locks', locks);
  return {
    ...calls,
    acquire: async (name, { ttl, wait = 0, note, ifFree, signal } = {}) => {
      const untilMs = performance.now() + wait * 1_000;
      for (;;) {
        const leftSeconds = Math.max(0, untilMs - performance.now()) / 1_000;
        const body = { ttl, note, if_free: ifFree, wait: Math.min(waitSecondsEach, leftSeconds) };
        const sentMs = performance.now();
        try {
          const lock = await calls.acquire(name, body, { signal });
          const lifeMs = lifeMsOf(lock);
          const takenMs = await heldSince({ sentMs, lifeMs }, () =>
            calls.acquire(name, { ttl, if_fence: lock.fence }, { signal }),
          );
          if (takenMs !== undefined) return new HeldLock(calls, lock, { ttl, takenMs });
          if (performance.now() >= untilMs) throw tooShort(name, lifeMs);
        } catch (error) {
          if (!(error instanceof StoaError && error.code === 'conflict') || performance.now() >= untilMs)
            throw error;
        }
      }
    },
  };
}

function tooShort(name: string, lifeMs: number): StoaError {
  return new StoaError(
    'fenced',
    `The lock "${name}" lives ${lifeMs} ms, and ended before it could be renewed.`,
    {
      fix: 'Use a longer ttl.',
    },
  );
}

/** Both times are the server's, so the clock of this machine does not matter. */
function lifeMsOf(lock: Lock): number {
  return Date.parse(lock.expires_at) - Date.parse(lock.renewed_at);
}

/** A lock that this caller holds. When it loses the lock, it dispatches `lost` and aborts its signal. */
export class HeldLock extends Renewal {
  readonly name: string;
  readonly holder: string;
  /** As it was when it was acquired. */
  readonly lock: Lock;
  /** Store it with the data that the lock guards: a later holder has a higher number. */
  readonly fence: number;
  readonly #calls: Methods<'locks'>;

  constructor(
    calls: Methods<'locks'>,
    lock: Lock,
    { ttl, takenMs }: { ttl: number | undefined; takenMs: number },
  ) {
    const { name, holder, fence } = lock;
    super({ lifeMs: lifeMsOf(lock), takenMs }, async (signal) => ({
      lifeMs: lifeMsOf(await calls.acquire(name, { ttl, if_fence: fence }, { signal })),
    }));
    this.#calls = calls;
    this.lock = lock;
    this.name = name;
    this.holder = holder;
    this.fence = fence;
  }

  /** Stops the renewals and releases the lock. False if it was lost before. */
  async release({ signal }: CallSettings = {}): Promise<boolean> {
    this.stopRenewing();
    try {
      return (await this.#calls.release(this.name, { if_fence: this.fence, signal })).released;
    } catch (error) {
      // Another holder has it: there is nothing to release.
      if (error instanceof StoaError && (error.code === 'conflict' || error.code === 'fenced')) return false;
      throw error;
    }
  }

  /** Stops the renewals; the lock ends at its time. */
  abandon(): void {
    this.stopRenewing();
  }
}
