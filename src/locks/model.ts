/**
 * An advisory lock: a lease on a name, such as the path of a file. It stops only agents that ask for the same
 * lock.
 */

export interface Lock {
  /** The readable id of the owner. */
  user: string;
  name: string;
  /** The agent that holds the lock, by name, or the user if no agent was named. */
  holder: string;
  /** Grows with every acquisition of any lock of the user, so a later holder always has a higher number. */
  fence: number;
  /** Why it is held, for other agents; empty without a reason. */
  note: string;
  acquiredAtMs: number;
  renewedAtMs: number;
  expiresAtMs: number;
}

/** When a lock really ends. A home that records outages adds them. */
export type LockEnd = (lock: Lock) => number;
