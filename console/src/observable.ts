/** A value that components follow. A component renders again when the value was replaced. */
import { useEffect, useState } from 'preact/hooks';

export class Observable<Value> {
  #value: Value;
  readonly #listeners = new Set<() => void>();

  constructor(value: Value) {
    this.#value = value;
  }

  get value(): Value {
    return this.#value;
  }

  set(value: Value): void {
    if (value === this.#value) return;
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }

  /** Calls back after each change. Returns the way to stop it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export function useObservable<Value>(observable: Observable<Value>): Value {
  const [, render] = useState(0);
  useEffect(() => {
    const seen = observable.value;
    const stop = observable.subscribe(() => render((count) => count + 1));
    // It may have changed between the first render and this effect.
    if (observable.value !== seen) render((count) => count + 1);
    return stop;
  }, [observable]);
  return observable.value;
}
