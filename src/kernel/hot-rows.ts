/** Durable rows that nearly every transaction reads and few change, kept in memory for transactions. */
import type { Overlay } from './overlay.js';

/** When it is full it starts anew, which costs each row one more read. */
const rowsMax = 5_000;
/** A longer row is read from the engine each time. */
const rowBytesMax = 4_096;

/**
 * Only what the engine has is kept here: a transaction looks among the pending writes first, and a
 * group that became durable takes its rows out before anybody who waited for it goes on.
 *
 * What comes out is shared by all who ask: nobody may change its bytes.
 */
export class HotRows {
  /** By the number of the family. */
  readonly #isHot: boolean[] = [];
  readonly #rows = new Map<string, Buffer>();

  constructor(familyNumbers: ReadonlyMap<string, number>, hotFamilies: readonly string[]) {
    const hot = new Set(hotFamilies);
    for (const [family, number] of familyNumbers) this.#isHot[number] = hot.has(family);
  }

  holds(familyNumber: number): boolean {
    return this.#isHot[familyNumber] === true;
  }

  /** The row of a hot family, read with `read` where it is not known. `name` is its key in an overlay. */
  get(name: string, read: () => Buffer | undefined): Buffer | undefined {
    const known = this.#rows.get(name);
    if (known !== undefined) return known;
    const row = read();
    if (row === undefined || row.length > rowBytesMax) return row;
    if (this.#rows.size >= rowsMax) this.#rows.clear();
    this.#rows.set(name, row);
    return row;
  }

  forget(written: Overlay): void {
    if (this.#rows.size === 0) return;
    for (const name of written.keys()) if (this.holds(name.charCodeAt(0))) this.#rows.delete(name);
  }
}
