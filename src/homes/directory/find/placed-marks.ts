/**
 * Where changed things stand in the segments of a partition. A search looks up most of them in slices, before the turn
 * in which it reads everything: thousands can wait while segments are joined.
 */
import type { Slices } from '../../../core/waiting/yielding.js';
import type { Catalog } from '../../../find/segments/catalog.js';
import { PlacedChanges } from '../../../find/segments/changes.js';
import type { ChangedPlaces } from '../../../find/segments/facts.js';
import type { DeadPlaces } from '../../../find/segments/segment.js';
import { type Mark, changeOf, isChange } from './filing/marks.js';
import type { SegmentRow } from './rows.js';

export class PlacedMarks {
  readonly #segments: string;
  readonly #placing: PlacedChanges;
  /** By the stamped keys: whether a segment has the thing. */
  readonly #found = new Map<string, boolean>();

  constructor(
    rows: readonly SegmentRow[],
    segments: readonly { readonly catalog: Catalog; readonly dead: DeadPlaces }[],
  ) {
    this.#segments = stateOf(rows);
    this.#placing = new PlacedChanges(segments);
  }

  /** Filing a thing changes its segment, and then everything is looked up again. */
  isOf(rows: readonly SegmentRow[]): boolean {
    return this.#segments === stateOf(rows);
  }

  get changes(): readonly ChangedPlaces[] {
    return this.#placing.bySegment;
  }

  isUnknown(mark: Mark): boolean {
    return isChange(mark) && !this.#found.has(stampedKey(mark));
  }

  async placeAll(marks: readonly Mark[], slices: Slices): Promise<void> {
    for (const mark of marks) {
      this.place(mark);
      await slices.pause();
    }
  }

  /** False if the words of the thing must be read. */
  place(mark: Mark): boolean {
    const key = stampedKey(mark);
    const known = this.#found.get(key);
    if (known !== undefined) return known;
    const change = changeOf(mark);
    const found = change !== null && this.#placing.add(change);
    this.#found.set(key, found);
    return found;
  }
}

function stateOf(rows: readonly SegmentRow[]): string {
  return rows.map(({ segment, revision, dead }) => `${segment}.${revision}.${dead}`).join(' ');
}

/** Another one for each write of the thing. */
export function stampedKey({ key, stamp }: Mark): string {
  return `${key.toString('latin1')}${stamp.toString('latin1')}`;
}
