/**
 * Records when users and agents called, in the background, so that a request never waits for it. After a failure the
 * next call tries again.
 */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';

/** Users whose last note is remembered. */
const usersMax = 10_000;

export class LastSeen {
  readonly #stoa: Stoa;
  readonly #pauseMs: number;
  /** An entry is valid for `lastSeenSeconds`. It saves a read of the user, 9 µs or 15 % of a GET. */
  readonly #notedAtMs = new LRUCache<string, number>(entriesAtMost(usersMax));

  readonly #agentPauseMs: number;
  readonly #agentsNotedAtMs = new LRUCache<string, number>(entriesAtMost(usersMax));

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#pauseMs = stoa.limits.lastSeenSeconds * 1_000;
    this.#agentPauseMs = stoa.limits.agentPresenceRenewSeconds * 1_000;
  }

  /** A write renews the presence of its agent itself. */
  saw(caller: Caller, writes: boolean): void {
    if (!writes && caller.agent !== null) this.#recordAgentCall(caller, caller.agent);
    // An identity without a link has no user.
    if (caller.kind === 'operator' || caller.user === '') return;
    const nowMs = performance.now();
    const noted = this.#notedAtMs.get(caller.user);
    if (noted !== undefined && nowMs - noted < this.#pauseMs) return;
    this.#notedAtMs.set(caller.user, nowMs);
    this.#stoa.registry.recordUserCall(caller).catch((error: unknown) => {
      this.#notedAtMs.delete(caller.user);
      this.#stoa.onError(error, 'recording that a user called');
    });
  }

  /** At most once in a while for a name, whether an agent has it or not. */
  #recordAgentCall(caller: Caller, agent: string): void {
    const name = `${caller.user}\0${agent}`;
    const nowMs = performance.now();
    const noted = this.#agentsNotedAtMs.get(name);
    if (noted !== undefined && nowMs - noted < this.#agentPauseMs) return;
    this.#agentsNotedAtMs.set(name, nowMs);
    this.#stoa.registry.recordAgentCall(caller).catch((error: unknown) => {
      this.#agentsNotedAtMs.delete(name);
      this.#stoa.onError(error, 'renewing the presence of an agent');
    });
  }
}
