/** Many calls at once become one call: what arrives while others are on their way goes out together. */

export interface GroupingOptions<Item, Result> {
  /** Does the work of a group; results in its order, an Error for one that failed alone. */
  run: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>;
  itemsMax: number;
  /** Groups that may be on their way at a time. */
  groupsMax: number;
  /** Items of one name are never in one group. */
  nameOf?: (item: Item) => string;
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
      if (this.#scheduled) return;
      this.#scheduled = true;
      // Calls of the same turn of the event loop travel together.
      setImmediate(() => {
        this.#scheduled = false;
        this.#start();
      });
    });
  }

  #start(): void {
    while (this.#waiting.length > 0 && this.#running < this.#options.groupsMax) {
      this.#running += 1;
      void this.#run(this.#take()).finally(() => {
        this.#running -= 1;
        this.#start();
      });
    }
  }

  #take(): Waiting<Item, Result>[] {
    const { itemsMax, nameOf } = this.#options;
    if (nameOf === undefined) return this.#waiting.splice(0, itemsMax);
    const names = new Set<string>();
    const group: Waiting<Item, Result>[] = [];
    const left: Waiting<Item, Result>[] = [];
    for (const waiting of this.#waiting) {
      const name = nameOf(waiting.item);
      if (group.length < itemsMax && !names.has(name)) group.push(waiting);
      else left.push(waiting);
      names.add(name);
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
        else resolve(result as Result); // `run` answers one result an item.
      }
    } catch (error) {
      for (const { reject } of group) reject(error);
    }
  }
}
