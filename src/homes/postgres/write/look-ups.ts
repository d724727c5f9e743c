/** Look-ups that the writes of a group make at the same moment: one statement for all of them. */
import type { Queryable } from '../database/connection.js';

/**
 * Reads what was asked for, in the order of the keys. A constant: look-ups with the same function share a
 * statement.
 */
export type LoadAll<Key, Found> = (sql: Queryable, keys: readonly Key[]) => Promise<readonly Found[]>;

/** The look-ups of one transaction. */
export class LookUps {
  readonly #sql: Queryable;
  /** Keys that were asked for in this moment, by the function that reads them. */
  readonly #asked = new Map<unknown, { keys: unknown[]; found: Promise<readonly unknown[]> }>();

  constructor(sql: Queryable) {
    this.#sql = sql;
  }

  async find<Key, Found>(load: LoadAll<Key, Found>, key: Key): Promise<Found> {
    const asked = this.#asked.get(load) ?? this.#begin(load);
    const index = asked.keys.push(key) - 1;
    // The keys and the answers are of the function under which they are stored.
    return (await asked.found)[index] as Found;
  }

  #begin<Key, Found>(
    load: LoadAll<Key, Found>,
  ): {
    keys: unknown[];
    found: Promise<readonly unknown[]>;
  } {
    const keys: Key[] = [];
    // The writes of a group ask one after the other, before this is called.
    const found = Promise.resolve().then(() => {
      this.#asked.delete(load);
      return load(this.#sql, keys);
    });
    const asked = { keys, found };
    this.#asked.set(load, asked);
    return asked;
  }
}
