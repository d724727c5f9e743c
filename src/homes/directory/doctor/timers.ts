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

/**
 * Timers that may be set for several times: records share a timer, or the time of a record has changed. The
 * exact timer is looked up first. Only if it is missing, all timers are read, once.
 */
export class SharedTimers {
  readonly #kinds: ReadonlySet<string>;
  readonly #latest = new WeakMap<Store, Map<string, number>>();

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
    const latestMs = this.#latestOf(store).get(nameOf(timer));
    if (latestMs !== undefined && (orAny || latestMs >= timer.atMs)) return;
    yield missingRow(kernelFamilies.timers, timerKey(timer), problem, (tx) => tx.schedule(timer));
  }

  #latestOf(store: Store): Map<string, number> {
    const known = this.#latest.get(store);
    if (known !== undefined) return known;
    const latest = new Map<string, number>();
    for (const { key } of store.range(kernelFamilies.timers, {})) {
      if (!isTimerKey(key)) continue;
      const timer = timerOf(key);
      if (this.#kinds.has(timer.kind)) latest.set(nameOf(timer), timer.atMs);
    }
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
