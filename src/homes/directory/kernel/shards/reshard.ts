/**
 * Copies a closed data directory into a new one with another number of shards, and checks that nothing was
 * lost.
 */
import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { blake3 } from '../../../../core/ids/blake3.js';
import { type EngineName, storeConfigDefaults } from '../../../../core/settings/store-config.js';
import { type Engine, type Entry, type WriteOperation } from '../engine.js';
import { openEngine } from '../engines/index.js';
import { kernelFamilies } from '../families.js';
import { refuseLosses } from '../directory/durable-note.js';
import { isMissing, writeDurably } from '../../../../core/files.js';
import { readNewest } from '../feed/newest-transaction.js';
import { acquireLock } from '../directory/lock.js';
import { keepRedoAfterBackup } from '../backup/marks.js';
import {
  newManifest,
  readManifest,
  shardDirectory,
  shardOf,
  storeMark,
  writeManifest,
} from '../directory/manifest.js';
import { outageNotes } from '../outages.js';
import { beginPartial } from '../directory/partial-directory.js';
import { finishIntents } from './pairs.js';
import { Store } from '../store.js';
import type { Reader } from '../transaction.js';

/**
 * Where an entry of a family belongs: with the user of this key, in shard 00, or in every shard (timers and
 * stored answers, which have no effect in a shard without their record).
 */
export type Placement = (entry: Entry, source: Reader) => Buffer | 'root' | 'every';

export interface ReshardOptions {
  from: string;
  to: string;
  shards: number;
  engine?: EngineName | undefined;
  families: readonly string[];
  limits: Limits;
  placements: Readonly<Record<string, Placement>>;
  /** Files beside the databases that are copied if they exist: keys and tokens. */
  files?: readonly string[];
  /**
   * The ids of one entry that are looked up without a user; called when the new directory has several shards.
   */
  directoryOf: (family: string, entry: Entry) => readonly string[];
  onProgress?: (progress: { done: number; total: number }) => void;
}

export interface ReshardReport {
  shards: number;
  /** Entries that belong to one place, as counted and hashed on both sides. */
  entries: number;
  hash: string;
}

/** The logs and the notes belong to the old shards: positions in them mean nothing in the new ones. */
const leftBehind: ReadonlySet<string> = new Set([
  kernelFamilies.meta,
  kernelFamilies.changes,
  kernelFamilies.redo,
  kernelFamilies.directory,
  kernelFamilies.intents,
]);
const stepEntries = 1_000;

export async function reshard(options: ReshardOptions): Promise<ReshardReport> {
  const manifest = await readManifest(options.from);
  if (manifest === undefined)
    throw new StoaError('not_found', `${options.from} is not a data directory: stoa.json is missing.`, {
      fix: 'Check the path of the directory to copy.',
    });
  await refuseExisting(options.to);
  const lock = await acquireLock(options.from, {});
  const partial = await beginPartial(options.to).catch(async (error: unknown) => {
    await lock.release();
    throw error;
  });
  const opened: Engine[] = [];
  const families = [...Object.values(kernelFamilies), ...options.families];
  const open = async (engine: EngineName, directory: string, count: number) => {
    const engines: Engine[] = [];
    for (let shard = 0; shard < count; shard += 1) {
      const config = { ...storeConfigDefaults, data_dir: shardDirectory(directory, shard) };
      engines.push(await openEngine(engine, config, families));
      opened.push(engines[shard] as Engine);
    }
    return engines;
  };
  try {
    const engine = options.engine ?? manifest.engine;
    const sources = await open(manifest.engine, options.from, manifest.shards);
    await refuseLosses(
      options.from,
      manifest,
      sources.map((source) => readNewest(source).lsn),
    );
    const stores = sources.map((source) => new Store({ engine: source, families, limits: options.limits }));
    keepRedoAfterBackup(stores);
    await finishIntents(stores);
    const targets = await open(engine, partial.path, options.shards);
    const copied = await copy(sources, targets, options);
    const report = verify(copied, targets, options);
    const made = newManifest(engine, options.shards);
    for (const target of targets) await target.commit([storeMark(made)]);
    await (targets[0] as Engine).commit(notesOf(sources[0] as Engine));
    await closeAll(opened);
    for (const name of options.files ?? []) await copyFileOf(name, options.from, partial.path);
    await writeManifest(partial.path, made);
    await partial.finish();
    return report;
  } catch (error) {
    await closeAll(opened);
    await partial.discard();
    throw error;
  } finally {
    await lock.release();
  }
}

async function copy(
  sources: readonly Engine[],
  targets: readonly Engine[],
  options: ReshardOptions,
): Promise<Tally> {
  const tally = new Tally();
  const total = sources.reduce(
    (sum, source) =>
      sum + Object.values(source.stats().families).reduce((entries, family) => entries + family.entries, 0),
    0,
  );
  for (const source of sources) {
    for (const family of [...Object.values(kernelFamilies), ...options.families]) {
      if (leftBehind.has(family)) continue;
      for (const page of pages(source, family)) {
        const writes = targets.map((): WriteOperation[] => []);
        for (const entry of page) place(family, entry, source, writes, tally, options);
        await Promise.all(targets.map((target, shard) => target.commit(writes[shard] as WriteOperation[])));
        options.onProgress?.({ done: tally.seen, total: Math.max(total, tally.seen) });
      }
    }
  }
  return tally;
}

function place(
  family: string,
  entry: Entry,
  source: Engine,
  writes: WriteOperation[][],
  tally: Tally,
  options: ReshardOptions,
): void {
  const where = placementOf(family, options)(entry, source);
  tally.seen += 1;
  const write: WriteOperation = { family, ...entry };
  if (where === 'every') {
    for (const shard of writes) shard.push(write);
    return;
  }
  const shard = where === 'root' ? 0 : shardOf(where, writes.length);
  (writes[shard] as WriteOperation[]).push(write);
  tally.add(family, entry);
  if (writes.length === 1 || where === 'root') return;
  for (const id of options.directoryOf(family, entry)) {
    (writes[0] as WriteOperation[]).push({
      family: kernelFamilies.directory,
      key: Buffer.from(id),
      value: where,
    });
  }
}

const unverified = 'Keep using the old directory, which is unchanged. Check both disks, then run it again.';

/** Reads the new directory: it must have the same entries, each in the shard where it is looked up. */
function verify(copied: Tally, targets: readonly Engine[], options: ReshardOptions): ReshardReport {
  const found = new Tally();
  for (const [shard, target] of targets.entries()) {
    for (const family of [...Object.values(kernelFamilies), ...options.families]) {
      if (leftBehind.has(family)) continue;
      for (const entry of target.range(family, {})) {
        const where = placementOf(family, options)(entry, target);
        if (where === 'every') continue;
        const expected = where === 'root' ? 0 : shardOf(where, targets.length);
        if (expected !== shard)
          throw new StoaError(
            'damaged_data',
            `An entry of ${family} was written to shard ${shard} instead of ${expected}.`,
            { fix: unverified },
          );
        found.add(family, entry);
      }
    }
  }
  if (found.count !== copied.count || found.hash !== copied.hash) {
    throw new StoaError(
      'damaged_data',
      `The copy differs: the new directory has ${found.count} entries with hash ${found.hash}, the old one ${copied.count} with ${copied.hash}.`,
      { fix: unverified },
    );
  }
  return { shards: targets.length, entries: found.count, hash: found.hash };
}

/**
 * Counts entries and sums their hashes: the sum does not depend on the order, which differs between shards.
 */
class Tally {
  seen = 0;
  count = 0;
  #sum = 0n;

  get hash(): string {
    return this.#sum.toString(16).padStart(64, '0');
  }

  add(family: string, { key, value }: Entry): void {
    const lengths = Buffer.from(`${family.length}:${key.length}:${value.length}:`);
    const hash = blake3(lengths, Buffer.from(family), key, value);
    this.#sum = BigInt.asUintN(256, this.#sum + BigInt(`0x${hash.toString('hex')}`));
    this.count += 1;
  }
}

function* pages(source: Engine, family: string): Generator<Entry[]> {
  let last: Buffer | undefined;
  for (;;) {
    const page = [
      ...source.range(family, last === undefined ? { limit: stepEntries } : { gt: last, limit: stepEntries }),
    ];
    if (page.length === 0) return;
    yield page;
    last = (page.at(-1) as Entry).key;
  }
}

function placementOf(family: string, { placements }: ReshardOptions): Placement {
  const placement = placements[family];
  if (placement === undefined)
    throw new StoaError('internal', `The shard of entries of ${family} is not defined.`);
  return placement;
}

function notesOf(source: Engine): WriteOperation[] {
  return outageNotes.map((key) => ({
    family: kernelFamilies.meta,
    key,
    value: source.get(kernelFamilies.meta, key),
  }));
}

/** The families of the kernel that are copied. */
export const kernelPlacements: Readonly<Record<string, Placement>> = {
  [kernelFamilies.timers]: () => 'every',
  [kernelFamilies.idempotency]: () => 'every',
  [kernelFamilies.idempotencyBytes]: ({ key }) => key,
};

/** These files contain secrets, so only their owner may read the copies. */
async function copyFileOf(name: string, from: string, to: string): Promise<void> {
  let content: Buffer;
  try {
    content = await readFile(join(from, name));
  } catch (error) {
    if (isMissing(error)) return;
    throw new StoaError('invalid_config', `${join(from, name)} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the file.',
    });
  }
  await writeDurably(join(to, name), content);
}

async function refuseExisting(path: string): Promise<void> {
  try {
    await access(path);
  } catch {
    return;
  }
  throw new StoaError('already_exists', `${path} exists already. Re-sharding needs a new directory.`, {
    fix: 'Name a directory that does not exist yet.',
  });
}

async function closeAll(engines: Engine[]): Promise<void> {
  for (const engine of engines.splice(0)) await engine.close();
}
