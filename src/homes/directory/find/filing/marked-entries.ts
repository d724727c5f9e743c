/** The entries of marked things, read from their records once: for searches, and for the filing after them. */
import { LRUCache } from 'lru-cache';
import type { WaitingEntry } from '../../../../find/segments/segment.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Mark } from './marks.js';
import type { EntrySources } from '../sources.js';

/** A reader that knows the time. */
type TimedReader = Reader & { nowMs(): number };

export class MarkedEntries {
  readonly #sources: EntrySources;
  /** By mark and stamp, so an entry never changes. Without it every search would read all words again. */
  readonly #known: LRUCache<string, { entry: WaitingEntry | undefined }>;

  constructor(sources: EntrySources, cacheBytesMax: number) {
    this.#sources = sources;
    this.#known = new LRUCache({
      maxSize: Math.max(1, cacheBytesMax),
      sizeCalculation: ({ entry }) => 200 + 3 * (entry?.packed.length ?? 0),
    });
  }

  /** For a search: the next one asks again. Undefined if the thing is gone, or is not to be found. */
  of(reader: TimedReader, partition: Buffer, mark: Mark): WaitingEntry | undefined {
    const cacheKey = cacheKeyOf(mark);
    let known = this.#known.get(cacheKey);
    if (known === undefined) {
      known = { entry: this.#read(reader, partition, mark) };
      this.#known.set(cacheKey, known);
    }
    return known.entry;
  }

  /** As `of`, for filing: nothing asks for the entry after it. */
  ofFiled(reader: TimedReader, partition: Buffer, mark: Mark): WaitingEntry | undefined {
    const known = this.#known.get(cacheKeyOf(mark));
    return known === undefined ? this.#read(reader, partition, mark) : known.entry;
  }

  /** These marks are filed. */
  forget(marks: readonly Mark[]): void {
    for (const mark of marks) this.#known.delete(cacheKeyOf(mark));
  }

  #read(reader: TimedReader, partition: Buffer, { name }: Mark): WaitingEntry | undefined {
    return this.#sources[name.kind](reader, partition, name, reader.nowMs());
  }
}

function cacheKeyOf({ key, stamp }: Mark): string {
  return `${key.toString('latin1')}${stamp.toString('latin1')}`;
}
