/** Divides long work into slices, so that other requests run in between. */

/**
 * How long a piece of work runs before other work gets a turn. A turn of the event loop without work costs
 * 2 to 4 µs here, so slices of 2 ms add 0.2 % to the work.
 */
const sliceMs = 2;

/** Background work has at least one turn in so many, however many others wait. */
const turnsPerBackground = 8;

const waiting: (() => void)[] = [];
/** Background work, which takes the turns that are left. */
const waitingBehind: (() => void)[] = [];
let turnsWithoutBackground = 0;

/**
 * Continues one piece of work in each turn of the event loop. So a hundred simultaneous long lists delay a
 * request as little as one list.
 */
function release(): void {
  const isBehind =
    waitingBehind.length > 0 && (waiting.length === 0 || turnsWithoutBackground >= turnsPerBackground - 1);
  turnsWithoutBackground = isBehind ? 0 : turnsWithoutBackground + 1;
  (isBehind ? waitingBehind : waiting).shift()?.();
  if (waiting.length + waitingBehind.length > 0) setImmediate(release);
}

/** Resolves in a later turn of the event loop, after all earlier calls of the same kind. */
export function nextTurn(isBackground = false): Promise<void> {
  return new Promise((resolve) => {
    (isBackground ? waitingBehind : waiting).push(resolve);
    if (waiting.length + waitingBehind.length === 1) setImmediate(release);
  });
}

/**
 * The slices of one piece of work. A loop calls `pause` after each small step. No transaction may be open
 * across a pause.
 */
export class Slices {
  readonly #isBackground: () => boolean;
  #untilMs = performance.now() + sliceMs;

  /** `isBackground` is asked at each pause, because somebody may begin to wait for the work while it runs. */
  constructor({ isBackground = () => false }: { isBackground?: () => boolean } = {}) {
    this.#isBackground = isBackground;
  }

  /** Undefined while the slice lasts, so that the loop continues without waiting. */
  pause(): Promise<void> | undefined {
    return performance.now() < this.#untilMs ? undefined : this.#begin();
  }

  async #begin(): Promise<void> {
    await nextTurn(this.#isBackground());
    this.#untilMs = performance.now() + sliceMs;
  }
}

/** Runs steps to their end, in slices. */
export async function inSlices<Result>(
  steps: Generator<unknown, Result>,
  slices = new Slices(),
): Promise<Result> {
  for (let step = steps.next(); ; step = steps.next()) {
    if (step.done === true) return step.value;
    const pause = slices.pause();
    if (pause !== undefined) await pause;
  }
}
