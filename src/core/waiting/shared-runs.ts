/**
 * Runs that see everything from before the call: calls during a run share the next run, which begins when the
 * current one has ended. Runs with different names are independent.
 */
export class SharedRuns<Result> {
  readonly #run: (name: string) => Promise<Result>;
  readonly #places = new Map<string, Place<Result>>();

  constructor(run: (name: string) => Promise<Result>) {
    this.#run = run;
  }

  run(name: string): Promise<Result> {
    const place = this.#places.get(name) ?? { current: Promise.resolve(), next: undefined };
    this.#places.set(name, place);
    // Not begun at once: calls in the same turn share it.
    place.next ??= place.current.then(() => this.#begin(name, place));
    return place.next;
  }

  /** Waits until the runs that were asked for have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#places.values()].map(({ current, next }) => next ?? current));
  }

  #begin(name: string, place: Place<Result>): Promise<Result> {
    const run = this.#run(name);
    const ended = (): void => {
      if (place.next === undefined) this.#places.delete(name);
    };
    place.next = undefined;
    place.current = run.then(ended, ended);
    return run;
  }
}

interface Place<Result> {
  /** The end of the run that is under way. */
  current: Promise<void>;
  /** The run that begins afterwards, if a caller waits for it. */
  next: Promise<Result> | undefined;
}
