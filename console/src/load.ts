/** Reads something for a component. A read has an end: after a limit the component can say so and offer another try. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type Failure, failureOf } from './stoa.js';

export interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly failure: Failure | undefined;
  readonly isLoading: boolean;
  reload(): void;
}

/** A read that takes longer has failed for the person who waits. */
const loadMsMax = 20_000;

/**
 * Reads when an input changes, and again when `again` changes. With other inputs the value is another one and goes; with
 * another `again` it stays until the next one is there, so that nothing jumps.
 */
export function useLoaded<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  inputs: readonly unknown[],
  again?: number,
): Loaded<Value> {
  const [state, setState] = useState<{ key: string; value?: Value; failure?: Failure }>({ key: '' });
  const [round, setRound] = useState(0);
  const key = JSON.stringify(inputs);
  useEffect(() => {
    const stop = new AbortController();
    const limit = setTimeout(
      () => stop.abort(new Error('There was no answer within 20 seconds.')),
      loadMsMax,
    );
    read(stop.signal)
      .then((value) => stop.signal.aborted || setState({ key, value }))
      .catch((error: unknown) => {
        const reason: unknown = stop.signal.aborted ? stop.signal.reason : error;
        if (reason !== left)
          setState((before) => ({ ...(before.key === key && before), key, failure: failureOf(reason) }));
      })
      .finally(() => clearTimeout(limit));
    return () => {
      clearTimeout(limit);
      stop.abort(left);
    };
  }, [key, round, again]);
  const isCurrent = state.key === key;
  return {
    value: isCurrent ? state.value : undefined,
    failure: isCurrent ? state.failure : undefined,
    isLoading: !isCurrent,
    reload: useCallback(() => setRound((count) => count + 1), []),
  };
}

const left = new Error('The view was left.');
