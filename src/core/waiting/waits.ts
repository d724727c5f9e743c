/**
 * Work that waits, until a time is over, its client disconnects, or the server stops.
 *
 * Rejected: `AbortSignal.any`. In Node 20 each call leaves an entry in the signals that it joins, also in one
 * that lives as long as the server. And a joined `AbortSignal.timeout` is lost to the garbage collector: the
 * work never ends.
 */
export interface WaitEnd {
  signal?: AbortSignal | undefined;
  timeMs?: number | undefined;
}

export class Waits {
  readonly #ends = new Set<() => void>();
  #isStopped = false;

  /** How many wait now. */
  get size(): number {
    return this.#ends.size;
  }

  /** Runs the work with a signal that is aborted at its end. */
  async run<Result>(
    { signal, timeMs }: WaitEnd,
    work: (ended: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const ending = new AbortController();
    const end = (): void => ending.abort();
    if (this.#isStopped || signal?.aborted === true) end();
    const timer = timeMs === undefined ? undefined : setTimeout(end, timeMs);
    signal?.addEventListener('abort', end);
    this.#ends.add(end);
    try {
      return await work(ending.signal);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      this.#ends.delete(end);
    }
  }

  /** Ends all waits at once. Later ones end immediately. */
  stop(): void {
    this.#isStopped = true;
    for (const end of this.#ends) end();
  }
}
