/** Long work that runs once at a time under a name: a second call joins the first and gets the same report. */
import type { OnReindexed } from './port.js';

interface Running<Report> {
  readonly listeners: Set<OnReindexed>;
  readonly report: Promise<Report>;
}

export class JoinedWork<Report> {
  readonly #running = new Map<string, Running<Report>>();

  async run(
    name: string,
    onProgress: OnReindexed,
    work: (onProgress: OnReindexed) => Promise<Report>,
  ): Promise<Report> {
    let running = this.#running.get(name);
    if (running === undefined) {
      const listeners = new Set<OnReindexed>();
      const report = work((progress) => {
        for (const listener of listeners) listener(progress);
      }).finally(() => this.#running.delete(name));
      running = { listeners, report };
      this.#running.set(name, running);
    }
    running.listeners.add(onProgress);
    try {
      return await running.report;
    } finally {
      running.listeners.delete(onProgress);
    }
  }

  /** Resolves when nothing runs. */
  async ended(): Promise<void> {
    await Promise.allSettled([...this.#running.values()].map(({ report }) => report));
  }
}
