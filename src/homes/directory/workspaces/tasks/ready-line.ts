/**
 * The first ready tasks of each line, as far as this process knows. Claims take from it one after the other.
 * Without it each claim would search for the front again, over the entries that earlier claims deleted. It
 * only proposes: a claim checks that the entry still exists.
 */

import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../../../core/entries-at-most.js';
import type { Task } from '../../../../workspaces/model.js';
import { type ClaimFilter, accepts } from '../../../../workspaces/tasks/claim-filter.js';
import { readyKey, wholeLine } from '../keys.js';

/** An entry of the ready index: its key, and the task that it names. */
export interface ReadyEntry {
  key: string;
  taskId: string;
}

/** The tasks that a claim considers: those of one line of a project that its filter accepts. */
export interface ReadyLine {
  readonly projectId: string;
  /** A label that the claim requires, or the whole line. */
  readonly line: string;
  readonly filter: ClaimFilter;
  /** Names the filter: no label contains a space, a comma or `*`. */
  readonly name: string;
}

export function readyLine(projectId: string, filter: ClaimFilter): ReadyLine {
  const line = filter.labels[0] ?? wholeLine;
  const { labels, without, skills } = filter;
  return { projectId, line, filter, name: [labels, without, skills ?? '*'].join(' ') };
}

/** What was read of a line. */
export interface ReadyPart {
  /** The entries that the filter accepts. */
  entries: ReadyEntry[];
  /** The last key that was read; undefined at the end of the line. */
  until: string | undefined;
}

interface Front {
  readonly line: ReadyLine;
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
/** Filters of one project whose fronts are kept. */
const filtersMax = 64;
/** Entries of all fronts together: those of 2,048 full fronts. */
const entriesOfAllMax = 524_288;
/** Entries read at a time, and about as many as one front holds. */
export const frontEntriesMax = 256;

export class ReadyLines {
  /**
   * Fronts by project and filter. A front is used for `trustedMs`, or until a transaction that took from it
   * is undone. It saves 340 µs of a claim with 20 busy projects, two thirds of it.
   */
  readonly #fronts: LRUCache<string, LRUCache<string, Front>>;

  constructor(entriesMax = entriesOfAllMax) {
    this.#fronts = new LRUCache({ max: projectsMax, maxSize: entriesMax });
  }

  /** Takes the first entry, or returns undefined. Then `after` says where to read more. */
  take(line: ReadyLine, nowMs: number): ReadyEntry | undefined {
    const front = this.#trusted(line, nowMs);
    if (front === undefined || front.at === front.entries.length) return undefined;
    front.at += 1;
    return front.entries[front.at - 1];
  }

  /** The key after which to read more; undefined is the beginning. */
  after(line: ReadyLine, nowMs: number): string | undefined {
    return this.#trusted(line, nowMs)?.until;
  }

  /** What was read after `after`. */
  found(line: ReadyLine, after: string | undefined, { entries, until }: ReadyPart, nowMs: number): void {
    const last = until ?? entries.at(-1)?.key;
    if (last === undefined) return;
    const fronts = this.#fronts.get(line.projectId) ?? new LRUCache<string, Front>(entriesAtMost(filtersMax));
    const sinceMs = after === undefined ? nowMs : (fronts.get(line.name)?.sinceMs ?? nowMs);
    fronts.set(line.name, { line, entries, at: 0, until: last, sinceMs });
    // Deleted first: the cache counts the size of a value only when the value is new.
    this.#fronts.delete(line.projectId);
    this.#fronts.set(line.projectId, fronts, { size: entriesIn(fronts) });
  }

  /** A task became ready, or its position changed. A task after a front is found later. */
  added(projectId: string, task: Task): void {
    const fronts = this.#fronts.get(projectId);
    if (fronts === undefined) return;
    const tooLong: string[] = [];
    for (const front of fronts.values()) {
      if (accepts(front.line.filter, task.labels)) insert(front, task);
      if (front.entries.length - front.at > 2 * frontEntriesMax) tooLong.push(front.line.name);
    }
    for (const name of tooLong) fronts.delete(name);
  }

  /** A transaction was undone: its entries are back. */
  forget(projectId: string): void {
    this.#fronts.delete(projectId);
  }

  #trusted(line: ReadyLine, nowMs: number): Front | undefined {
    const front = this.#fronts.get(line.projectId)?.get(line.name);
    return front === undefined || nowMs - front.sinceMs > trustedMs || nowMs < front.sinceMs
      ? undefined
      : front;
  }
}

/** At least 1, as the cache requires. */
function entriesIn(fronts: LRUCache<string, Front>): number {
  let entries = 1;
  for (const front of fronts.values()) entries += front.entries.length;
  return entries;
}

function insert(front: Front, task: Task): void {
  const entry = { key: readyKey(task, front.line.projectId, front.line.line), taskId: task.id };
  if (entry.key > front.until) return;
  // A front is short, and most returned tasks belong near its beginning.
  let place = front.at;
  while (place < front.entries.length && (front.entries[place] as ReadyEntry).key < entry.key) place += 1;
  if (front.entries[place]?.key !== entry.key) front.entries.splice(place, 0, entry);
}
