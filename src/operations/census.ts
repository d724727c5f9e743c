/** How many documents, agents, tasks and leases a home has, over all users, for `/metrics`. */
import type { AgentState } from '../registry/model.js';
import type { TaskStatus } from '../workspaces/model.js';

export interface Census {
  readonly documents: number;
  readonly agents: Readonly<Partial<Record<AgentState, number>>>;
  readonly tasks: Readonly<Partial<Record<TaskStatus, number>>>;
  /** Leases of agents and tasks that have not lapsed. */
  readonly leases: number;
}

/** A count is used for at least this time. */
const restMsMin = 5_000;
/** A count is used for this many times the time that it took, so counting takes at most 2 % of the time. */
const restFactor = 50;

/** Counts when somebody asks, and not more often than the work is worth. */
export class PacedCensus {
  readonly #count: () => Promise<Census>;
  #last: Census | undefined;
  #restsUntilMs = 0;
  #counting: Promise<Census> | undefined;

  constructor(count: () => Promise<Census>) {
    this.#count = count;
  }

  async read(): Promise<Census> {
    if (this.#last !== undefined && performance.now() < this.#restsUntilMs) return this.#last;
    return (this.#counting ??= this.#begin().finally(() => (this.#counting = undefined)));
  }

  async #begin(): Promise<Census> {
    const startedMs = performance.now();
    this.#last = await this.#count();
    const endedMs = performance.now();
    this.#restsUntilMs = endedMs + Math.max(restMsMin, restFactor * (endedMs - startedMs));
    return this.#last;
  }
}
