/**
 * The hour before now, for a server whose clock the demo owns: agents send heartbeats and keep their claims while the
 * time goes on. Without such a clock everything happens now.
 */
import type { Stoa } from '../../../src/client/index.js';

/** Shorter than a lease, so that nobody is lost on the way. */
const stepMs = 50_000;

export class Past {
  /** How far the clock of the server is behind. */
  #behindMs = 0;
  readonly #present = new Map<string, () => Promise<unknown>>();

  /** A past of this many minutes. */
  static ofMinutes(minutes: number): Past {
    const past = new Past();
    past.#behindMs = minutes * 60_000;
    return past;
  }

  readonly clock = (): number => Date.now() - this.#behindMs;

  /** Sends heartbeats for an agent from now on. */
  async enter(name: string, as: Stoa, agentId: string, holder: string): Promise<void> {
    const beat = (): Promise<unknown> => as.agents.heartbeat(agentId, { holder });
    this.#present.set(name, beat);
    await beat();
  }

  /** An agent or a task gets no more heartbeats, and is lost a little later. */
  leave(name: string): void {
    this.#present.delete(name);
  }

  /** The same for the claim of a task. */
  async hold(as: Stoa, taskId: string, fence: number): Promise<void> {
    const beat = (): Promise<unknown> => as.tasks.heartbeat(taskId, { fence });
    this.#present.set(taskId, beat);
    await beat();
  }

  forward(minutes: number): Promise<void> {
    return this.until(Math.max(0, this.#behindMs / 60_000 - minutes));
  }

  /** Lets the time go on until this many minutes before now. */
  async until(minutesAgo: number): Promise<void> {
    while (this.#behindMs > minutesAgo * 60_000) {
      this.#behindMs = Math.max(minutesAgo * 60_000, this.#behindMs - stepMs);
      await this.keep();
    }
  }

  /** A heartbeat of everybody who is present. */
  async keep(): Promise<void> {
    await Promise.all([...this.#present.values()].map((beat) => beat()));
  }
}
