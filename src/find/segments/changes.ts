/**
 * Changes of things whose words stay the same: a claimed task, a document that is set to the value it has. Only
 * the facts in the catalog change; the lists of words stay as they are.
 */
import type { EntryFacts } from '../model.js';
import { CatalogWriter, type Catalog } from './catalog.js';
import type { DeadPlaces } from './segment.js';

/** The facts that change with a write of the same words. */
export type ChangedFacts = Pick<EntryFacts, 'name' | 'version' | 'author' | 'timeMs'>;

/** By their places in one segment. */
export type ChangedPlaces = ReadonlyMap<number, ChangedFacts>;

/** Looks up changed things in the segments of a partition. */
export class PlacedChanges {
  /** For each segment. */
  readonly bySegment: readonly Map<number, ChangedFacts>[];
  readonly #segments: readonly Segment[];

  constructor(segments: readonly Segment[]) {
    this.#segments = segments;
    this.bySegment = segments.map(() => new Map<number, ChangedFacts>());
  }

  /** False if no segment has the thing: its words must be read. */
  add(change: ChangedFacts): boolean {
    for (const [index, { catalog, dead }] of this.#segments.entries()) {
      const place = catalog.placeOf(change.name);
      if (place < 0 || dead.has(place)) continue;
      this.bySegment[index]?.set(place, change);
      return true;
    }
    return false;
  }
}

interface Segment {
  readonly catalog: Catalog;
  readonly dead: DeadPlaces;
}

/**
 * Writing a catalog again costs about 0.3 µs for each of its entries, and filing the words of a thing again 100 µs
 * and more. With fewer changes than this, it is cheaper to file the words again.
 */
const entriesPerChangeMax = 256;

/** Entries of a catalog that are written between two looks at the clock: about 20 µs. */
const entriesPerStep = 64;

/** Whether the catalog is to be written again for so many changes. */
export function isWorthRewriting(catalog: Catalog, changes: number): boolean {
  return catalog.count <= changes * entriesPerChangeMax;
}

/** The catalog with the changed facts. The places of its entries stay. It lets other work run between steps. */
export function* changedCatalog(catalog: Catalog, changes: ChangedPlaces): Generator<void, Buffer> {
  const { times } = catalog;
  let earliestMs = Infinity;
  for (let place = 0; place < times.length; place += 1)
    earliestMs = Math.min(earliestMs, changes.get(place)?.timeMs ?? (times[place] as number));
  const writer = new CatalogWriter(Number.isFinite(earliestMs) ? earliestMs : 0);
  const cursor = catalog.cursor();
  while (cursor.next()) {
    const change = changes.get(cursor.place);
    if (change !== undefined)
      ({ version: cursor.version, author: cursor.author, timeMs: cursor.timeMs } = change);
    writer.add(cursor);
    if (cursor.place % entriesPerStep === 0) yield;
  }
  return writer.take();
}
