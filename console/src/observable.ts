/** A value that components follow. A component renders again when the value was replaced. */
import { useEffect, useRef, useState } from 'preact/hooks';

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
  const { value } = observable;
  const rendered = useRef(value);
  rendered.current = value;
  useEffect(() => {
    const look = (): void => {
      if (observable.value !== rendered.current) render((count) => count + 1);
    };
    const stop = observable.subscribe(look);
    // It may have changed between the render and this effect.
    look();
    return stop;
  }, [observable]);
  return value;
}
