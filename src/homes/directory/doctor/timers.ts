/** Checks shared by several domains: whether the timer of a row is set. */
import { type Damage, type Examination, type Pass, missingRow } from '../kernel/inspect/damage.js';
import { type Found, eachRow } from '../kernel/inspect/doctor.js';
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
 * exact timer is looked up first. Only if it is missing, all timers are read, and again if one is missing
 * there that may have been set since: at most once for a page, because a page is examined again if writes
 * disturb it.
 */
export class SharedTimers {
  readonly #kinds: ReadonlySet<string>;
  readonly #latest = new WeakMap<Store, LatestTimes>();
  /** The pages for which the timers were read. */
  readonly #read = new WeakSet<Pass>();

  constructor(kinds: Iterable<string>) {
    this.#kinds = new Set(kinds);
  }

  /**
   * Damage if no timer of this kind is set for the record, at that time or later. With `orAny`, any time is
   * accepted.
   */
  *inspect(
    { reader, store, pass }: Examination,
    timer: Timer,
    problem: string,
    { orAny }: { orAny: boolean },
  ): Generator<Found> {
    if (reader.get(kernelFamilies.timers, timerKey(timer)) !== undefined) return;
    if (this.#isSet(store, timer, orAny)) return;
    if (!this.#read.has(pass) && this.#latest.get(store)?.lsn !== store.newestLsn) {
      yield* this.#readAll(reader, store);
      this.#read.add(pass);
      if (this.#isSet(store, timer, orAny)) return;
    }
    yield missingRow(kernelFamilies.timers, timerKey(timer), problem, (tx) => tx.schedule(timer));
  }

  #isSet(store: Store, timer: Timer, orAny: boolean): boolean {
    const latestMs = this.#latest.get(store)?.times.get(nameOf(timer));
    return latestMs !== undefined && (orAny || latestMs >= timer.atMs);
  }

  *#readAll(reader: Reader, store: Store): Generator<Found> {
    const times = new Map<string, number>();
    // Plain reads see only durable rows.
    const lsn = reader === store ? store.lsn : store.newestLsn;
    yield* eachRow(reader, kernelFamilies.timers, {}, ({ key }) => {
      if (!isTimerKey(key)) return;
      const timer = timerOf(key);
      if (this.#kinds.has(timer.kind)) times.set(nameOf(timer), timer.atMs);
    });
    this.#latest.set(store, { lsn, times });
  }
}

/** A valid key: time, kind, a zero byte. Any other key would stop the sweeper. */
export function isTimerKey(key: Buffer): boolean {
  return key.indexOf(0, 8) > 8;
}

function nameOf({ kind, reference }: Timer): string {
  return `${kind} ${reference.toString('latin1')}`;
}
