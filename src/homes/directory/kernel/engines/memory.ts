/** The engine that keeps everything in memory: for tests and for data that may vanish. */
import { type StoreConfig } from '../../../../core/settings/store-config.js';
import { type Engine, type EngineStats, type Entry, type RangeOptions, pageBytesMax } from '../engine.js';
import { CheckedEngine } from './checked.js';
import type { DriverOperation, DriverSnapshot, EngineDriver } from './checked.js';
import { SortedEntries } from './sorted-entries.js';

export async function openMemory(_config: StoreConfig, families: readonly string[]): Promise<Engine> {
  return new CheckedEngine(new MemoryDriver(families));
}

class MemoryDriver implements EngineDriver<SortedEntries> {
  readonly name = 'memory';
  readonly families: ReadonlyMap<string, SortedEntries>;

  constructor(families: readonly string[]) {
    this.families = new Map(families.map((name) => [name, new SortedEntries()]));
  }

  get(family: SortedEntries, key: Buffer): Buffer | undefined {
    const value = family.get(key);
    return value === undefined ? undefined : Buffer.from(value);
  }

  getMany(family: SortedEntries, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return keys.map((key) => this.get(family, key));
  }

  *range(family: SortedEntries, options: RangeOptions): Generator<Entry, void> {
    let left = options.limit ?? Infinity;
    for (const entry of family.scan(options)) {
      yield copyOf(entry);
      left -= 1;
      if (left <= 0) return;
    }
  }

  hasRoom(): boolean {
    return true;
  }

  /** Applied in a later turn, so that no caller relies on a commit being visible at once. */
  async write(operations: readonly DriverOperation<SortedEntries>[]): Promise<void> {
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        for (const { family, key, value } of operations) {
          if (value === undefined) family.delete(key);
          else family.put({ key: Buffer.from(key), value: Buffer.from(value) });
        }
        resolve();
      });
    });
  }

  snapshot(): DriverSnapshot<SortedEntries> {
    const frozen = new Map([...this.families.values()].map((family) => [family, family.freeze().scan({})]));
    return {
      next: (family, limit) => {
        const entries: Entry[] = [];
        const scan = frozen.get(family);
        if (scan === undefined) return entries;
        for (let sizeBytes = 0; entries.length < limit && sizeBytes < pageBytesMax;) {
          const { done, value } = scan.next();
          if (done === true) break;
          entries.push(copyOf(value));
          sizeBytes += value.key.length + value.value.length;
        }
        return entries;
      },
      close: () => frozen.clear(),
    };
  }

  stats(): EngineStats {
    const families: EngineStats['families'] = {};
    let sizeBytes = 0;
    for (const [name, family] of this.families) {
      families[name] = { entries: family.count, sizeBytes: family.sizeBytes, estimated: false };
      sizeBytes += family.sizeBytes;
    }
    return { sizeBytes, families };
  }

  async close(): Promise<void> {
    for (const family of this.families.values()) family.clear();
  }
}

/** The caller owns the result of a read and may write into it. */
function copyOf(entry: Entry): Entry {
  return { key: Buffer.from(entry.key), value: Buffer.from(entry.value) };
}
