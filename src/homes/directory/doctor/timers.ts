/** Checks shared by several domains: whether the timer of a row is set. */
import { type Damage, missingRow } from '../kernel/inspect/doctor.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Store } from '../kernel/store.js';
import { timerKey, timerOf } from '../kernel/timers/timers.js';
import type { Reader, Timer } from '../kernel/transaction.js';

/** A timer that must be set for an exact time. */
export function* inspectTimer(reader: Reader, timer: Timer, problem: string): Generator<Damage> {
  const key = timerKey(timer);
  if (reader.get(kernelFamilies.timers, key) === undefined)
    yield missingRow(kernelFamilies.timers, key, problem, (tx) => tx.schedule(timer));
}

/** The latest time of each timer, as of a number of the redo log. */
interface LatestTimes {
  readonly lsn: number;
  readonly times: ReadonlyMap<string, number>;
}

/**
 * Timers that may be set for several times: records share a timer, or the time of a record has changed. The
 * exact timer is looked up first. Only if it is missing, all timers are read, and again if one is missing there
 * that may have been set since.
 */
export class SharedTimers {
  readonly #kinds: ReadonlySet<string>;
  readonly #latest = new WeakMap<Store, LatestTimes>();

  constructor(kinds: Iterable<string>) {
    this.#kinds = new Set(kinds);
  }

  /**
   * Damage if no timer of this kind is set for the record, at that time or later. With `orAny`, any time is
   * accepted.
   */
  *inspect(
    reader: Reader,
    store: Store,
    timer: Timer,
    problem: string,
    { orAny }: { orAny: boolean },
  ): Generator<Damage> {
    if (reader.get(kernelFamilies.timers, timerKey(timer)) !== undefined) return;
    const isSet = ({ times }: LatestTimes): boolean => {
      const latestMs = times.get(nameOf(timer));
      return latestMs !== undefined && (orAny || latestMs >= timer.atMs);
    };
    const known = this.#latest.get(store);
    if (known !== undefined && isSet(known)) return;
    if (known?.lsn !== store.newestLsn && isSet(this.#read(reader, store))) return;
    yield missingRow(kernelFamilies.timers, timerKey(timer), problem, (tx) => tx.schedule(timer));
  }

  #read(reader: Reader, store: Store): LatestTimes {
    const times = new Map<string, number>();
    for (const { key } of reader.range(kernelFamilies.timers, {})) {
      if (!isTimerKey(key)) continue;
      const timer = timerOf(key);
      if (this.#kinds.has(timer.kind)) times.set(nameOf(timer), timer.atMs);
    }
    // Plain reads see only durable rows.
    const latest = { lsn: reader === store ? store.lsn : store.newestLsn, times };
    this.#latest.set(store, latest);
    return latest;
  }
}

/** A valid key: time, kind, a zero byte. Any other key would stop the sweeper. */
export function isTimerKey(key: Buffer): boolean {
  return key.indexOf(0, 8) > 8;
}

function nameOf({ kind, reference }: Timer): string {
  return `${kind} ${reference.toString('latin1')}`;
}
