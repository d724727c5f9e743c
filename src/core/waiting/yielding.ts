/** Work of any length in slices: between two of them every other request has its turn. */

/**
 * How long a piece of work goes on before others have a turn. One turn of the event loop without work costs 2 to 4 µs here,
 * so slices of 2 ms cost 0.2 % of the work that they cut up.
 */
const sliceMs = 2;

const waiting: (() => void)[] = [];

/** One piece of work goes on in each turn of the event loop, however many wait: a hundred long lists at once delay a request as little as one. */
function release(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(release);
}

/** Resolves in a later turn of the event loop, after all work that asked before. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(release);
  });
}

/** The slices of one piece of work. A loop calls `pause` after each small step; nothing may be open across it. */
export class Slices {
  #untilMs = performance.now() + sliceMs;

  /** Undefined while the slice lasts: then the loop goes on without waiting. */
  pause(): Promise<void> | undefined {
    return performance.now() < this.#untilMs ? undefined : this.#begin();
  }

  async #begin(): Promise<void> {
    await nextTurn();
    this.#untilMs = performance.now() + sliceMs;
  }
}
