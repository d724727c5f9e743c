/** Changes of things whose words stay the same, looked up in the segments that have those words. */
import type { EntryName } from '../model.js';
import type { Catalog } from './catalog.js';
import type { ChangedPlaces, ChangingFacts } from './facts.js';
import type { DeadPlaces } from './segment.js';

export interface ChangedFacts extends ChangingFacts {
  readonly name: EntryName;
}

interface Segment {
  readonly catalog: Catalog;
  readonly dead: DeadPlaces;
}

export class PlacedChanges {
  readonly #bySegment: readonly Map<number, ChangingFacts>[];
  readonly #segments: readonly Segment[];
  /** The segment that had the thing before: things that change together were often made together. */
  #last = 0;

  constructor(segments: readonly Segment[]) {
    this.#segments = segments;
    this.#bySegment = segments.map(() => new Map<number, ChangingFacts>());
  }

  /** For each segment. */
  get bySegment(): readonly ChangedPlaces[] {
    return this.#bySegment;
  }

  /** False if no segment has the thing: its words must be read. */
  add({ name, ...facts }: ChangedFacts): boolean {
    for (let step = 0; step < this.#segments.length; step += 1) {
      const index = (this.#last + step) % this.#segments.length;
      const { catalog, dead } = this.#segments[index] as Segment;
      const place = catalog.placeOf(name);
      if (place < 0 || dead.has(place)) continue;
      this.#bySegment[index]?.set(place, facts);
      this.#last = index;
      return true;
    }
    return false;
  }
}
