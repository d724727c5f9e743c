/** Sliding windows in memory: how often something happened in the last seconds, exact to the millisecond. */

export interface RateDecision {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** When the oldest request that counts leaves the window. */
  resetAtMs: number;
}

/** A window as it is stored while the server is down. */
export interface KeptWindow {
  key: string;
  windowMs: number;
  times: readonly number[];
}

interface Window {
  /** Times of the requests that count, oldest first. */
  times: number[];
  windowMs: number;
}

/** Unused windows are removed this often. */
const forgetEveryMs = 30_000;

export class SlidingWindows {
  readonly #windows = new Map<string, Window>();
  /** Keys of windows that changed or were dropped, if they are stored. */
  readonly #changed: Set<string> | undefined;
  #forgottenAtMs = 0;

  /** `isKept`: changed windows are collected from time to time and stored. */
  constructor({ isKept = false } = {}) {
    this.#changed = isKept ? new Set() : undefined;
  }

  /** Counts the request unless the window is full. A refused request is not counted. */
  take(key: string, limit: number, windowMs: number, nowMs: number): RateDecision {
    this.#forget(nowMs);
    const window = this.#windows.get(key) ?? { times: [], windowMs };
    const { times } = window;
    // The clock was set back. Requests with a time in the future count as requests of now.
    for (let at = times.length - 1; at >= 0 && (times[at] as number) > nowMs; at -= 1) times[at] = nowMs;
    let gone = 0;
    while (gone < times.length && (times[gone] as number) <= nowMs - windowMs) gone += 1;
    if (gone > 0) times.splice(0, gone);
    const allowed = times.length < limit;
    if (allowed) {
      times.push(nowMs);
      this.#windows.set(key, window);
      this.#changed?.add(key);
    }
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - times.length),
      resetAtMs: (times[0] ?? nowMs) + windowMs,
    };
  }

  /** Removes the newest request. */
  giveBack(key: string): void {
    if (this.#windows.get(key)?.times.pop() !== undefined) this.#changed?.add(key);
  }

  /** The number of requests within the window. Does not count one. */
  count(key: string, windowMs: number, nowMs: number): number {
    return this.#windows.get(key)?.times.filter((time) => time > nowMs - windowMs).length ?? 0;
  }

  /**
   * The windows that changed since the last call, in the format of `restore`. A window without requests has
   * no times.
   */
  takeChanged(nowMs: number): KeptWindow[] {
    const changed = Array.from(this.#changed ?? [], (key): KeptWindow => {
      const { times, windowMs } = this.#windows.get(key) ?? { times: [], windowMs: 0 };
      return { key, windowMs, times: times.filter((time) => time > nowMs - windowMs) };
    });
    this.#changed?.clear();
    return changed;
  }

  /** Marks windows as changed again, because they could not be stored. */
  putBack(keys: readonly string[]): void {
    for (const key of keys) this.#changed?.add(key);
  }

  restore({ key, windowMs, times }: KeptWindow): void {
    this.#windows.set(key, { times: [...times], windowMs });
  }

  drop(key: string): void {
    this.#windows.delete(key);
    this.#changed?.add(key);
  }

  #forget(nowMs: number): void {
    if (Math.abs(nowMs - this.#forgottenAtMs) < forgetEveryMs) return;
    this.#forgottenAtMs = nowMs;
    for (const [key, { times, windowMs }] of this.#windows) {
      if ((times.at(-1) ?? 0) <= nowMs - windowMs) this.#windows.delete(key);
    }
  }
}
