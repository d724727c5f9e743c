/**
 * Decides whether a history of concurrent calls is linearizable: whether each call can be given one moment
 * between its beginning and its end, so that in the order of these moments a single process would have given
 * the same answers. Wing and Gong's search, with Lowe's memory of what was tried: the calls placed so far and
 * the state they lead to.
 */

/** What one object does, one call after the other. */
export interface Model<State, Input, Output> {
  readonly initial: State;
  /**
   * The state after the call, or `undefined` where this answer is impossible in this state. An `output` of
   * `undefined` is an unknown outcome: the call has the effect that it would have had here.
   */
  step(state: State, input: Input, output: Output | undefined): State | undefined;
}

/** One call. All times come from one monotonic clock. */
export interface Call<Input, Output> {
  readonly input: Input;
  /** Undefined where nobody knows: the call may have happened at any time after it began, or never. */
  readonly output: Output | undefined;
  readonly calledAtMs: number;
  /** Infinity where the output is unknown. */
  readonly returnedAtMs: number;
}

/** The longest beginning that could be ordered, and the calls of which none could come next. */
export interface Violation<Input, Output> {
  readonly ordered: readonly Call<Input, Output>[];
  readonly stuckAt: readonly Call<Input, Output>[];
}

/** A search that would need more steps than this is given up with an error, never with an answer. */
export const searchStepsMax = 5_000_000;

/** Undefined where the history is linearizable. States are compared by their JSON. */
export function findViolation<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Call<Input, Output>[],
): Violation<Input, Output> | undefined {
  const calls = history.toSorted((one, other) => one.calledAtMs - other.calledAtMs);
  const search = new Search(model, calls);
  return search.run() ? undefined : search.longest();
}

interface Placed<State> {
  readonly index: number;
  readonly before: State;
}

class Search<State, Input, Output> {
  readonly #model: Model<State, Input, Output>;
  readonly #calls: readonly Call<Input, Output>[];
  readonly #isPlaced: boolean[];
  /** For each call of unknown outcome the earlier ones with the same input. */
  readonly #twins: readonly (readonly number[])[];
  readonly #tried = new Set<string>();
  #known: number;
  #state: State;
  #placed: Placed<State>[] = [];
  #longest: readonly Placed<State>[] = [];
  #steps = 0;

  constructor(model: Model<State, Input, Output>, calls: readonly Call<Input, Output>[]) {
    this.#model = model;
    this.#calls = calls;
    this.#isPlaced = calls.map(() => false);
    const inputs = calls.map(({ input, output }) =>
      output === undefined ? JSON.stringify(input) : undefined,
    );
    this.#twins = inputs.map((input, index) =>
      input === undefined ? [] : inputs.flatMap((other, at) => (at < index && other === input ? [at] : [])),
    );
    this.#known = calls.filter(({ output }) => output !== undefined).length;
    this.#state = model.initial;
  }

  /** Places calls one after the other, and takes the last one back where none can follow. */
  run(): boolean {
    let from = 0;
    // A call of unknown outcome need not have happened, so the known ones are enough.
    while (this.#known > 0) {
      const next = this.#nextFrom(from);
      if (next !== undefined) {
        from = 0;
        continue;
      }
      if (this.#placed.length > this.#longest.length || this.#longest.length === 0)
        this.#longest = [...this.#placed];
      const last = this.#placed.pop();
      if (last === undefined) return false;
      this.#isPlaced[last.index] = false;
      this.#state = last.before;
      if (this.#calls[last.index]?.output !== undefined) this.#known += 1;
      from = last.index + 1;
    }
    return true;
  }

  longest(): Violation<Input, Output> {
    const ordered = this.#longest.flatMap(({ index }) => this.#calls[index] ?? []);
    const rest = this.#calls.filter((call) => !ordered.includes(call));
    const end = earliestEnd(rest);
    return { ordered, stuckAt: rest.filter((call) => call.calledAtMs <= end && call.output !== undefined) };
  }

  /** Places the first call from this index on that may come next and leads to something new. */
  #nextFrom(from: number): number | undefined {
    const end = earliestEnd(this.#calls.filter((_, index) => this.#isPlaced[index] === false));
    for (let index = from; index < this.#calls.length; index += 1) {
      const call = this.#calls[index];
      if (call === undefined || call.calledAtMs > end) return undefined;
      if (this.#isPlaced[index] === true) continue;
      this.#steps += 1;
      if (this.#steps > searchStepsMax)
        throw new Error(
          `The history of ${this.#calls.length} calls could not be decided in ${searchStepsMax} steps (searchStepsMax). Make it shorter.`,
        );
      const after = this.#model.step(this.#state, call.input, call.output);
      if (after === undefined) continue;
      // An unknown outcome without effect is the same as none at all.
      if (call.output === undefined && sameState(after, this.#state)) continue;
      if (this.#hasTwinBefore(index)) continue;
      if (!this.#isNew(index, after)) continue;
      this.#placed.push({ index, before: this.#state });
      this.#isPlaced[index] = true;
      this.#state = after;
      if (call.output !== undefined) this.#known -= 1;
      return index;
    }
    return undefined;
  }

  /**
   * Of unknown outcomes with the same input the earliest may stand for any of them: without this rule ten of
   * them are a thousand ways.
   */
  #hasTwinBefore(index: number): boolean {
    const twins = this.#twins[index] ?? [];
    return twins.some((twin) => this.#isPlaced[twin] === false);
  }

  #isNew(index: number, after: State): boolean {
    let bits = '';
    for (let at = 0; at < this.#calls.length; at += 1)
      bits += at === index || this.#isPlaced[at] === true ? '1' : '0';
    const tried = `${bits} ${JSON.stringify(after)}`;
    if (this.#tried.has(tried)) return false;
    this.#tried.add(tried);
    return true;
  }
}

/** No call may come before one that had ended when it began. */
function earliestEnd(calls: readonly Call<unknown, unknown>[]): number {
  return calls.reduce((end, { returnedAtMs }) => Math.min(end, returnedAtMs), Infinity);
}

function sameState(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
