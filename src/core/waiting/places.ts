/** Runs at most so many pieces of work at the same time. The others wait in order, and names take turns. */
export class Places {
  readonly count: number;
  #free: number;
  #waitingCount = 0;
  /** Who waits under each name. The name whose turn it is comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(count: number) {
    this.count = count;
    this.#free = count;
  }

  get busy(): number {
    return this.count - this.#free;
  }

  get waiting(): number {
    return this.#waitingCount;
  }

  /** With a `name`, much work under one name does not delay that under others. */
  async run<Result>(work: () => Promise<Result>, name = ''): Promise<Result> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait(name);
    try {
      return await work();
    } finally {
      this.#giveOn();
    }
  }

  #wait(name: string): Promise<void> {
    this.#waitingCount += 1;
    return new Promise<void>((resolve) => {
      const queue = this.#waiting.get(name);
      if (queue === undefined) this.#waiting.set(name, [resolve]);
      else queue.push(resolve);
    });
  }

  #giveOn(): void {
    for (const [name, queue] of this.#waiting) {
      this.#waiting.delete(name);
      const next = queue.shift();
      if (queue.length > 0) this.#waiting.set(name, queue);
      this.#waitingCount -= 1;
      next?.();
      return;
    }
    this.#free += 1;
  }
}
