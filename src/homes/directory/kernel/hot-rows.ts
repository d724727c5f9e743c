/** Durable rows that nearly every transaction reads and few change, kept in memory for transactions. */
import type { Overlay } from './overlay.js';

/** When it is full it is cleared, which costs one more read per row. */
const rowsMax = 5_000;
/** A longer row is read from the engine each time. */
const rowBytesMax = 4_096;

/**
 * Contains only rows that the engine has. A transaction looks among the pending writes first, and a durable
 * group removes its rows from here before its callers continue. Rows are shared, so nobody may change their
 * bytes.
 */
export class HotRows {
  /** By the number of the family, and then by key; families that are not hot have none. */
  readonly #families: (Map<string, Buffer> | undefined)[] = [];
  #size = 0;

  constructor(familyNumbers: ReadonlyMap<string, number>, hotFamilies: readonly string[]) {
    const hot = new Set(hotFamilies);
    for (const [family, number] of familyNumbers)
      this.#families[number] = hot.has(family) ? new Map() : undefined;
  }

  holds(family: number): boolean {
    return this.#families[family] !== undefined;
  }

  /** The row of a hot family, read with `read` where it is not known. */
  get(family: number, key: string, read: () => Buffer | undefined): Buffer | undefined {
    const rows = this.#families[family];
    if (rows === undefined) return read();
    const known = rows.get(key);
    if (known !== undefined) return known;
    const row = read();
    if (row === undefined || row.length > rowBytesMax) return row;
    if (this.#size >= rowsMax) this.#clear();
    rows.set(key, row);
    this.#size += 1;
    return row;
  }

  forget(written: Overlay): void {
    if (this.#size === 0) return;
    for (const [family, rows] of this.#families.entries()) {
      if (rows === undefined || rows.size === 0) continue;
      for (const key of written.of(family)?.keys() ?? []) if (rows.delete(key)) this.#size -= 1;
    }
  }

  #clear(): void {
    for (const rows of this.#families) rows?.clear();
    this.#size = 0;
  }
}
