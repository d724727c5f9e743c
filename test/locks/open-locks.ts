/** A Stoa with a clock that the test turns, for the suite of locks. */
import type { Change } from '../../src/core/change.js';
import type { Limits } from '../../src/core/settings/limits.js';
import { type Stoa, type StoaOptions, openStoa, operatorCaller } from '../../src/index.js';
import type { LocksBench } from '../../src/locks/conformance/index.js';

/** Where the clock stands at first. */
const startMs = Date.UTC(2026, 0, 15, 10, 30);

export interface LocksHome {
  options: Partial<StoaOptions>;
  /** Does what is due. */
  sweep(stoa: Stoa): Promise<unknown>;
}

export async function openLocks({ options, sweep }: LocksHome, limits: Partial<Limits>): Promise<LocksBench> {
  const clock = { nowMs: startMs };
  const stoa = await openStoa({
    ...options,
    limits,
    clock: () => clock.nowMs,
    sweepIntervalMs: 2 ** 30,
    onError: (error) => {
      throw error;
    },
  });
  return {
    locks: stoa.locks,
    registry: stoa.registry,
    commit: stoa.commit,
    changes: async () => {
      const { items } = await stoa.changes.read(operatorCaller(), { topics: ['locks'], limit: 1_000 });
      // An item has the fields of its change.
      return items as unknown as Change[];
    },
    pass: async (seconds) => {
      clock.nowMs += seconds * 1_000;
      await sweep(stoa);
    },
    passUnswept: (seconds) => void (clock.nowMs += seconds * 1_000),
    findings: async () => (await stoa.operations.examine(false)).findings,
    close: () => stoa.close(),
  };
}
