/**
 * The messages in the index, for searches that want the newest first. Which messages wait is kept in memory: every
 * search reads all of them.
 */
import type { EntryName } from '../../../find/model.js';
import { packedTerms } from '../../../find/segments/packed-terms.js';
import type { WriteOperation } from '../kernel/engine.js';
import type { Store } from '../kernel/store.js';
import type { MarkedEntries } from './filing/marked-entries.js';
import { type Mark, readMarks } from './filing/marks.js';
import { type SegmentRow, findFamilies, markKey, markedName, messagesPartition } from './rows.js';
import { type SegmentReader, readSegments } from './segments.js';

/** A message that is not in a segment yet, with its terms. */
export interface WaitingMessage {
  readonly name: EntryName;
  readonly timeMs: number;
  readonly terms: ReadonlySet<string>;
}

export interface MessageIndexOptions {
  readonly store: Store;
  readonly entries: MarkedEntries;
  readonly segments: SegmentReader;
}

export class MessageIndex {
  readonly store: Store;
  readonly segments: SegmentReader;
  readonly #entries: MarkedEntries;
  /** By key. Dropped when the mark is removed, which is when its message is filed. */
  readonly #marks = new Map<string, Mark>();
  /** Marks whose words were not read yet: the next search reads them. */
  readonly #unread = new Map<string, Mark>();
  /** Oldest first. A search keeps the list that it got, so a change makes another one. */
  #waiting: readonly WaitingMessage[] = [];
  #generation = 0;

  constructor({ store, entries, segments }: MessageIndexOptions) {
    this.store = store;
    this.segments = segments;
    this.#entries = entries;
    for (const mark of readMarks(store, messagesPartition)) this.#add(mark);
    store.onWritten((writes) => this.#follow(writes));
  }

  /** Another number after messages were filed, removed or joined. */
  get generation(): number {
    return this.#generation;
  }

  /** Messages that were written since they were filed. */
  marks(): Iterable<Mark> {
    return this.#marks.values();
  }

  /** Whether what segments have of this message is out of date. */
  isMarked(name: EntryName): boolean {
    return this.#marks.size > 0 && this.#marks.has(markKey(messagesPartition, name).toString('latin1'));
  }

  /** Messages that are in no segment, oldest first. */
  waiting(): readonly WaitingMessage[] {
    if (this.#unread.size === 0) return this.#waiting;
    const waiting = [...this.#waiting];
    for (const mark of this.#unread.values()) {
      const entry = this.#entries.of(this.store, messagesPartition, mark);
      if (entry === undefined) continue;
      const { name, timeMs, packed } = entry;
      const terms = new Set(Array.from(packedTerms(packed), ([term]) => term));
      place(waiting, { name, timeMs, terms });
    }
    this.#unread.clear();
    this.#waiting = waiting;
    return waiting;
  }

  /** The segments by the times of their newest messages, newest first. */
  whole(): readonly SegmentRow[] {
    return readSegments(this.store, messagesPartition)
      .filter(({ state }) => state === 'whole')
      .toSorted((a, b) => b.newestMs - a.newestMs);
  }

  #follow(writes: readonly WriteOperation[]): void {
    const gone = new Set<string>();
    let isChanged = false;
    for (const { family, key, value } of writes) {
      if (family !== findFamilies.marks && family !== findFamilies.segments) continue;
      if (messagesPartition.compare(key, 0, messagesPartition.length) !== 0) continue;
      if (family === findFamilies.segments) {
        isChanged = true;
        continue;
      }
      const text = key.toString('latin1');
      if (this.#marks.delete(text) && !this.#unread.delete(text)) gone.add(text);
      const name = value === undefined ? undefined : markedName(key);
      if (name !== undefined && value !== undefined) this.#add({ key, name, stamp: value });
    }
    if (gone.size > 0)
      this.#waiting = this.#waiting.filter(
        ({ name }) => !gone.has(markKey(messagesPartition, name).toString('latin1')),
      );
    if (isChanged || gone.size > 0) this.#generation += 1;
  }

  #add({ key, name, stamp }: Mark): void {
    // The bytes of a row may be reused after the listener returns.
    const mark = { key: Buffer.from(key), name, stamp: Buffer.from(stamp) };
    const text = key.toString('latin1');
    this.#marks.set(text, mark);
    this.#unread.set(text, mark);
  }
}

/** Inserts in order; nearly always at the end. */
function place(waiting: WaitingMessage[], message: WaitingMessage): void {
  let at = waiting.length;
  while (at > 0 && isNewer(waiting[at - 1] as WaitingMessage, message)) at -= 1;
  if (at === waiting.length) waiting.push(message);
  else waiting.splice(at, 0, message);
}

function isNewer(a: WaitingMessage, b: WaitingMessage): boolean {
  return a.timeMs > b.timeMs || (a.timeMs === b.timeMs && a.name.id > b.name.id);
}
