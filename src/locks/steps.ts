/** The writes of locks as steps: checked, allowed, and with the answer that their caller sees. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { validate } from '../core/validation/validate.js';
import type { Step } from '../core/write.js';
import { isoTime } from '../core/text/iso-time.js';
import { checkUserId } from '../identity/user-key.js';
import type { Lock } from './model.js';
import type { LocksPort } from './port.js';
import { checkLockName, checkLockNote, lockTtlMs } from './rules.js';
import {
  type AcquireLockInput,
  type LockAnswer,
  type ReleaseLockAnswer,
  type ReleaseLockInput,
  acquireLockSchema,
} from './schemas.js';

export class LocksSteps {
  readonly #port: LocksPort;
  readonly #limits: Limits;

  constructor(port: LocksPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** `wait` is ignored: a step is tried once. */
  acquire(
    caller: Caller,
    name: string,
    input: AcquireLockInput = {},
  ): Step<{ lock: LockAnswer; acquired: boolean }> {
    requireWriteScope(caller);
    checkLockName(name, this.#limits);
    const { ttl, note, if_fence: fence, if_free: ifFree = false } = validate(acquireLockSchema, input);
    if (note !== undefined) checkLockNote(note, this.#limits);
    const user = checkUserId(caller.user, this.#limits);
    const ttlMs = lockTtlMs(ttl, this.#limits);
    return this.#port
      .acquireLock({ user, name, holder: holderOf(caller), ttlMs, note, fence, ifFree })
      .map(({ lock, acquired }) => ({ lock: lockAnswer(lock), acquired }));
  }

  release(
    caller: Caller,
    name: string,
    { if_fence: fence, force = false }: ReleaseLockInput = {},
  ): Step<ReleaseLockAnswer> {
    requireWriteScope(caller);
    checkLockName(name, this.#limits);
    if (force && caller.kind === 'agent')
      throw new StoaError(
        'forbidden',
        'The request is signed by an agent. An agent can only release its own locks.',
        { fix: 'Ask the holder to release it, or use a token of the user.' },
      );
    const user = checkUserId(caller.user, this.#limits);
    return this.#port
      .releaseLock({ user, name, holder: holderOf(caller), fence, force })
      .map((released) => ({ released }));
  }

  require(caller: Caller, name: string, fence: number): Step<void> {
    checkLockName(name, this.#limits);
    return this.#port.requireLock(checkUserId(caller.user, this.#limits), name, fence);
  }
}

/** The agent in whose name the caller acts, or the user if the request names no agent. */
function holderOf({ agent, agentId, user }: Caller): string {
  return agent ?? agentId ?? user;
}

export function lockAnswer({ name, holder, fence, note, ...times }: Lock): LockAnswer {
  return {
    name,
    holder,
    fence,
    note,
    acquired_at: isoTime(times.acquiredAtMs),
    renewed_at: isoTime(times.renewedAtMs),
    expires_at: isoTime(times.expiresAtMs),
  };
}
