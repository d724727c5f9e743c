/**
 * The first ready tasks of each project, as far as this process knows. Claims take from it one after the
 * other. Without it each claim would search for the front again, over the entries that earlier claims
 * deleted. It only proposes: a claim checks that the entry still exists.
 */

import { LRUCache } from 'lru-cache';

/** An entry of the ready index: its key, and the task that it names. */
export interface ReadyEntry {
  key: string;
  taskId: string;
}

/** Where to read more entries: after a key, or from the beginning. */
export interface ReadyStart {
  after: string | undefined;
}

interface Front {
  /** In the order of the index; those before `at` are taken. */
  entries: ReadyEntry[];
  at: number;
  /** Up to this key the front contains every entry that is not taken. */
  until: string;
  sinceMs: number;
}

/** After this time a claim searches from the beginning again. */
const trustedMs = 1_000;
const projectsMax = 10_000;
/** Entries read at a time, and about as many as one front holds. */
export const frontEntriesMax = 256;

export class ReadyLines {
  /**
   * A front is used for `trustedMs`, or until a transaction that took from it is undone. It saves 340 µs of a
   * claim with 20 busy projects, two thirds of it.
   */
  readonly #fronts = new LRUCache<string, Front>({ max: projectsMax });

  /** Takes the first entry, or returns undefined. Then `start` says where to read more. */
  take(projectId: string, nowMs: number): ReadyEntry | undefined {
    const front = this.#trusted(projectId, nowMs);
    if (front === undefined || front.at === front.entries.length) return undefined;
    front.at += 1;
    return front.entries[front.at - 1];
  }

  start(projectId: string, nowMs: number): ReadyStart {
    return { after: this.#trusted(projectId, nowMs)?.until };
  }

  /** The entries that were read from `start`. */
  found(projectId: string, { after }: ReadyStart, entries: ReadyEntry[], nowMs: number): void {
    const last = entries.at(-1);
    if (last === undefined) return;
    const sinceMs = after === undefined ? nowMs : (this.#fronts.get(projectId)?.sinceMs ?? nowMs);
    this.#fronts.set(projectId, { entries, at: 0, until: last.key, sinceMs });
  }

  /** A task became ready, or its position changed. A task after the front is found later. */
  added(projectId: string, entry: ReadyEntry): void {
    const front = this.#fronts.get(projectId);
    if (front === undefined || entry.key > front.until) return;
    // A front is short, and most returned tasks belong near its beginning.
    let place = front.at;
    while (place < front.entries.length && (front.entries[place] as ReadyEntry).key < entry.key) place += 1;
    if (front.entries[place]?.key === entry.key) return;
    front.entries.splice(place, 0, entry);
    if (front.entries.length - front.at > 2 * frontEntriesMax) this.#fronts.delete(projectId);
  }

  /** A transaction was undone: its entries are back. */
  forget(projectId: string): void {
    this.#fronts.delete(projectId);
  }

  #trusted(projectId: string, nowMs: number): Front | undefined {
    const front = this.#fronts.get(projectId);
    return front === undefined || nowMs - front.sinceMs > trustedMs || nowMs < front.sinceMs
      ? undefined
      : front;
  }
}
