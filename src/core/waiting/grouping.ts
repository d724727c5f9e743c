/** Joins calls into groups: calls that arrive while earlier groups are running are sent together. */

export interface GroupingOptions<Item, Result> {
  /**
   * Runs a group. Results are in the order of the items; an Error is the result of an item that failed alone,
   * a promise the result of an item that continues alone.
   */
  run: (items: readonly Item[]) => Promise<readonly (Result | Error | Promise<Result>)[]>;
  /** Items in a group; an item with several names counts as many. A larger item is a group of its own. */
  itemsMax: number;
  /** Groups that may run at the same time. */
  groupsMax: number;
  /** Items that share a name are never in the same group. */
  namesOf?: (item: Item) => readonly string[];
}

interface Waiting<Item, Result> {
  item: Item;
  resolve: (result: Result) => void;
  reject: (error: unknown) => void;
}

export class Grouping<Item, Result> {
  readonly #options: GroupingOptions<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #running = 0;
  #scheduled = false;

  constructor(options: GroupingOptions<Item, Result>) {
    this.#options = options;
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#startSoon();
    });
  }

  /** Calls in the same turn of the event loop join one group, also those of callers that a group just answered. */
  #startSoon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#waiting.length > 0 && this.#running < this.#options.groupsMax) {
      this.#running += 1;
      void this.#run(this.#take()).finally(() => {
        this.#running -= 1;
        this.#startSoon();
      });
    }
  }

  #take(): Waiting<Item, Result>[] {
    const { itemsMax, namesOf } = this.#options;
    if (namesOf === undefined) return this.#waiting.splice(0, itemsMax);
    // Also of items that are left for a later group: an item never overtakes one that shares a name with it.
    const seen = new Set<string>();
    const group: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    let size = 0;
    for (const waiting of this.#waiting) {
      const names = namesOf(waiting.item);
      const fits = size === 0 || size + names.length <= itemsMax;
      if (fits && !names.some((name) => seen.has(name))) {
        group.push(waiting);
        size += names.length;
      } else left.push(waiting);
      for (const name of names) seen.add(name);
    }
    this.#waiting = left;
    return group;
  }

  async #run(group: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.run(group.map(({ item }) => item));
      for (const [index, { resolve, reject }] of group.entries()) {
        const result = results[index];
        if (result instanceof Error) reject(result);
        else resolve(result as Result); // `run` returns one result for each item.
      }
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
