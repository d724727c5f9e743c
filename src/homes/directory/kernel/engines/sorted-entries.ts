/** Entries in key order, kept in short sorted runs: a B-tree of two levels. */
import type { Entry, RangeOptions } from '../engine.js';

/** A run is split when it is longer: inserting then moves few entries, and a million need few runs. */
const runLengthMax = 512;

interface Run {
  entries: Entry[];
  /** True while a frozen copy shares it; it is then copied before it is changed. */
  shared: boolean;
}

/** A place between entries: an index into one run. */
interface Position {
  run: number;
  index: number;
}

export class SortedEntries {
  /** Never an empty run in it. */
  #runs: Run[] = [];
  count = 0;
  sizeBytes = 0;

  get(key: Buffer): Buffer | undefined {
    const { run, index } = this.#seek(key, false);
    const entry = this.#runs[run]?.entries[index];
    return entry !== undefined && entry.key.equals(key) ? entry.value : undefined;
  }

  put(entry: Entry): void {
    if (this.#runs.length === 0) {
      this.#runs.push({ entries: [entry], shared: false });
      this.count = 1;
      this.sizeBytes = sizeOf(entry);
      return;
    }
    const { run, index } = this.#seek(entry.key, false);
    // A key after all others goes to the end of the last run.
    const target = Math.min(run, this.#runs.length - 1);
    const entries = this.#changeable(target);
    const at = target === run ? index : entries.length;
    const present = entries[at];
    const replaces = present !== undefined && present.key.equals(entry.key);
    entries.splice(at, replaces ? 1 : 0, entry);
    this.sizeBytes += sizeOf(entry) - (replaces ? sizeOf(present) : 0);
    if (replaces) return;
    this.count += 1;
    if (entries.length > runLengthMax) {
      this.#runs.splice(target + 1, 0, { entries: entries.splice(entries.length >> 1), shared: false });
    }
  }

  delete(key: Buffer): void {
    const { run, index } = this.#seek(key, false);
    const present = this.#runs[run]?.entries[index];
    if (present === undefined || !present.key.equals(key)) return;
    const entries = this.#changeable(run);
    entries.splice(index, 1);
    if (entries.length === 0) this.#runs.splice(run, 1);
    this.count -= 1;
    this.sizeBytes -= sizeOf(present);
  }

  /** The entries within the bounds, in the direction asked for. The limit is the caller's. */
  *scan(options: RangeOptions): Generator<Entry, void> {
    const { gte, gt, lte, lt } = options;
    const from = gte !== undefined ? this.#seek(gte, false) : gt !== undefined ? this.#seek(gt, true) : start;
    const to =
      lte !== undefined ? this.#seek(lte, true) : lt !== undefined ? this.#seek(lt, false) : this.#end();
    if (options.reverse === true) yield* this.#downwards(from, to);
    else yield* this.#upwards(from, to);
  }

  /** A copy that later changes leave alone. It shares every run until that run is changed. */
  freeze(): SortedEntries {
    for (const run of this.#runs) run.shared = true;
    const copy = new SortedEntries();
    copy.#runs = [...this.#runs];
    copy.count = this.count;
    copy.sizeBytes = this.sizeBytes;
    return copy;
  }

  clear(): void {
    this.#runs = [];
    this.count = 0;
    this.sizeBytes = 0;
  }

  *#upwards(from: Position, to: Position): Generator<Entry, void> {
    for (let run = from.run; run <= to.run; run += 1) {
      const entries = this.#runs[run]?.entries ?? [];
      const end = run === to.run ? to.index : entries.length;
      for (let index = run === from.run ? from.index : 0; index < end; index += 1)
        yield entries[index] as Entry;
    }
  }

  *#downwards(from: Position, to: Position): Generator<Entry, void> {
    for (let run = to.run; run >= from.run; run -= 1) {
      const entries = this.#runs[run]?.entries ?? [];
      const end = run === from.run ? from.index : 0;
      const begin = run === to.run ? to.index : entries.length;
      for (let index = begin - 1; index >= end; index -= 1) yield entries[index] as Entry;
    }
  }

  /** The place before the first entry with a key of at least `key`, or above it with `after`. */
  #seek(key: Buffer, after: boolean): Position {
    let low = 0;
    let high = this.#runs.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { entries } = this.#runs[middle] as Run;
      if (isBefore(entries[entries.length - 1] as Entry, key, after)) low = middle + 1;
      else high = middle;
    }
    const run = low;
    const entries = this.#runs[run]?.entries ?? [];
    low = 0;
    high = entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBefore(entries[middle] as Entry, key, after)) low = middle + 1;
      else high = middle;
    }
    return { run, index: low };
  }

  #end(): Position {
    return { run: this.#runs.length, index: 0 };
  }

  #changeable(index: number): Entry[] {
    const run = this.#runs[index] as Run;
    if (!run.shared) return run.entries;
    const copy = { entries: [...run.entries], shared: false };
    this.#runs[index] = copy;
    return copy.entries;
  }
}

const start: Position = { run: 0, index: 0 };

/** Whether an entry is before the place of this key, which is before or after the key's own entry. */
function isBefore(entry: Entry, key: Buffer, after: boolean): boolean {
  const order = entry.key.compare(key);
  return after ? order <= 0 : order < 0;
}

function sizeOf(entry: Entry): number {
  return entry.key.length + entry.value.length;
}
