/**
 * All records of one kind, kept current by the change feed. A change says what happened without the record, so what
 * the facts do not tell is read again: single records for a few changes, the whole list for many.
 */
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { Observable } from '../observable.js';
import { type Failure, failureOf } from '../stoa.js';
import type { LiveFeed } from './feed.js';

export interface RecordSource<Item> {
  idOf(item: Item): string;
  list(
    cursor: string | undefined,
    signal: AbortSignal,
  ): Promise<{ items: Item[]; next_cursor: string | null }>;
  /** Undefined if the record does not exist any more. */
  get(id: string, known: Item | undefined, signal: AbortSignal): Promise<Item | undefined>;
  /**
   * What a change does to a record: the record after it, `read` if it must be read, `gone`, or undefined for a change
   * of something else.
   */
  apply(change: ChangeItem, known: Item | undefined): Item | 'read' | 'gone' | undefined;
  idOfChange(change: ChangeItem): string;
}

const singleReadsMax = 30;
const readsAtOnce = 4;
const listEveryMs = 8_000;

export interface RecordsState {
  readonly isComplete: boolean;
  readonly failure: Failure | undefined;
}

export class Records<Item> {
  readonly items = new Map<string, Item>();
  /** Grows with each change of the items. */
  readonly round = new Observable(0);
  readonly state = new Observable<RecordsState>({ isComplete: false, failure: undefined });
  readonly #source: RecordSource<Item>;
  readonly #feed: LiveFeed;
  readonly #stop = new AbortController();
  readonly #unread = new Set<string>();
  #stopListening: (() => void) | undefined;
  #isReading = false;
  #listedAtMs = 0;
  #users = 0;

  constructor(feed: LiveFeed, source: RecordSource<Item>) {
    this.#feed = feed;
    this.#source = source;
  }

  /** Reads the records when the first view needs them; they stay current afterwards. */
  use(): void {
    this.#users += 1;
    if (this.#users > 1) return;
    this.#stopListening = this.#feed.listen(
      (changes) => this.#take(changes),
      () => void this.reload(),
    );
    void this.reload();
  }

  stop(): void {
    this.#stopListening?.();
    this.#stop.abort();
  }

  /** Reads every page. Records that are on no page any more are removed at the end. */
  async reload(): Promise<void> {
    this.#listedAtMs = Date.now();
    const seen = new Set<string>();
    const { signal } = this.#stop;
    try {
      let cursor: string | undefined;
      do {
        const page = await this.#source.list(cursor, signal);
        for (const item of page.items) {
          const id = this.#source.idOf(item);
          seen.add(id);
          this.items.set(id, item);
        }
        cursor = page.next_cursor ?? undefined;
        this.#changed();
      } while (cursor !== undefined);
      for (const id of this.items.keys()) if (!seen.has(id)) this.items.delete(id);
      this.state.set({ isComplete: true, failure: undefined });
      this.#changed();
    } catch (error) {
      if (!signal.aborted) this.state.set({ ...this.state.value, failure: failureOf(error) });
    }
  }

  /** Puts in a record that an action answered, before the feed reports it. */
  put(...items: readonly Item[]): void {
    for (const item of items) this.items.set(this.#source.idOf(item), item);
    this.#changed();
  }

  #take(changes: readonly ChangeItem[]): void {
    let isChanged = false;
    for (const change of changes) {
      const id = this.#source.idOfChange(change);
      const known = this.items.get(id);
      const after = this.#source.apply(change, known);
      if (after === undefined) continue;
      isChanged = true;
      if (after === 'gone') this.items.delete(id);
      else if (after === 'read') this.#unread.add(id);
      else this.items.set(id, after);
    }
    if (isChanged) this.#changed();
    if (this.#unread.size > 0) void this.#read();
  }

  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#unread.size > 0 && !this.#stop.signal.aborted) {
        if (this.#unread.size > singleReadsMax) await this.#readAll();
        else await this.#readFew();
      }
    } finally {
      this.#isReading = false;
    }
  }

  async #readAll(): Promise<void> {
    await pause(Math.max(0, this.#listedAtMs + listEveryMs - Date.now()));
    this.#unread.clear();
    await this.reload();
  }

  async #readFew(): Promise<void> {
    const ids = [...this.#unread].slice(0, readsAtOnce);
    for (const id of ids) this.#unread.delete(id);
    await Promise.all(
      ids.map(async (id) => {
        try {
          const item = await this.#source.get(id, this.items.get(id), this.#stop.signal);
          if (item === undefined) this.items.delete(id);
          else this.items.set(id, item);
        } catch (error) {
          if (!this.#stop.signal.aborted) this.state.set({ ...this.state.value, failure: failureOf(error) });
        }
      }),
    );
    this.#changed();
    await pause(50);
  }

  #changed(): void {
    this.round.set(this.round.value + 1);
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
