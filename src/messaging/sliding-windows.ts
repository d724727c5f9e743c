/** Sliding windows in memory: how often something happened lately, to the millisecond. */

export interface RateDecision {
  allowed: boolean;
  limit: number;
  remaining: number;
  /** When the oldest request that counts leaves the window. */
  resetAtMs: number;
}

/** A window as it is kept while the server is down. */
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

/** Windows that nothing was added to are looked for this often. */
const forgetEveryMs = 30_000;

export class SlidingWindows {
  readonly #windows = new Map<string, Window>();
  #forgottenAtMs = 0;

  /** Counts the request unless the window is full: a refused request uses up nothing. */
  take(key: string, limit: number, windowMs: number, nowMs: number): RateDecision {
    this.#forget(nowMs);
    const window = this.#windows.get(key) ?? { times: [], windowMs };
    const { times } = window;
    let gone = 0;
    while (gone < times.length && (times[gone] as number) <= nowMs - windowMs) gone += 1;
    if (gone > 0) times.splice(0, gone);
    const allowed = times.length < limit;
    if (allowed) {
      times.push(nowMs);
      this.#windows.set(key, window);
    }
    return { allowed, limit, remaining: Math.max(0, limit - times.length), resetAtMs: (times[0] ?? nowMs) + windowMs };
  }

  /** How often it happened within the window, without counting. */
  count(key: string, windowMs: number, nowMs: number): number {
    return this.#windows.get(key)?.times.filter((time) => time > nowMs - windowMs).length ?? 0;
  }

  /** Every window that still counts something, as `restore` takes it. */
  *entries(nowMs: number): Generator<KeptWindow> {
    for (const [key, { times, windowMs }] of this.#windows) {
      const counting = times.filter((time) => time > nowMs - windowMs);
      if (counting.length > 0) yield { key, windowMs, times: counting };
    }
  }

  restore({ key, windowMs, times }: KeptWindow): void {
    this.#windows.set(key, { times: [...times], windowMs });
  }

  drop(key: string): void {
    this.#windows.delete(key);
  }

  #forget(nowMs: number): void {
    if (nowMs - this.#forgottenAtMs < forgetEveryMs) return;
    this.#forgottenAtMs = nowMs;
    for (const [key, { times, windowMs }] of this.#windows) {
      if ((times.at(-1) ?? 0) <= nowMs - windowMs) this.#windows.delete(key);
    }
  }
}
