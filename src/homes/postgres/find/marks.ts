/** The marks of one place together: each write adds a mark of its own. */
import type { EntryName } from '../../../find/model.js';
import type { ChangedFacts } from '../../../find/segments/changes.js';

/** The columns of a mark. The facts are null if the words changed too. */
export interface MarkedRow {
  readonly kind: EntryName['kind'];
  readonly collection: string;
  readonly id: string;
  readonly version: string | null;
  readonly author: string | null;
  readonly time_ms: string | null;
}

export interface PlaceMark {
  readonly name: EntryName;
  /** The newest facts; null if the words of the place must be read. */
  readonly change: ChangedFacts | null;
}

/** Each place once. The marks are in the order in which they were written. */
export function marksByPlace(marks: readonly MarkedRow[]): PlaceMark[] {
  const places = new Map<string, PlaceMark>();
  for (const mark of marks) {
    const key = nameKey(mark);
    const before = places.get(key);
    const name = before?.name ?? { kind: mark.kind, collection: mark.collection, id: mark.id };
    const isRewritten = before?.change === null || mark.version === null;
    places.set(key, { name, change: isRewritten ? null : changeOf(name, mark) });
  }
  return [...places.values()];
}

/** Each place once. */
export function distinct(places: readonly EntryName[]): EntryName[] {
  return [...new Map(places.map((place) => [nameKey(place), place])).values()];
}

export function nameKey({ kind, collection, id }: EntryName): string {
  return JSON.stringify([kind, collection, id]);
}

function changeOf(name: EntryName, { version, author, time_ms }: MarkedRow): ChangedFacts {
  return { name, version: Number(version), author, timeMs: Number(time_ms) };
}
