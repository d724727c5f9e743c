/** Restores a chain of backups into a new data directory, up to a chosen point. */
import { join } from 'node:path';
import { StoaError } from '../../../../core/errors.js';
import { chainBytes } from './chain.js';
import type { BackupDescription, ShardBackup } from './description.js';
import { readFrames } from './file.js';
import { readEntries, readKey, readTransactions } from './read.js';
import { type EngineName, engineNames, storeConfigDefaults } from '../../../../core/settings/store-config.js';
import { type Engine, type Entry, type WriteOperation } from '../engine.js';
import { openEngine } from '../engines/index.js';
import { kernelFamilies } from '../families.js';
import { decodeFeed, encodeFeed, positionKey, positionOf } from '../feed/log.js';
import {
  type Manifest,
  newManifest,
  shardDirectory,
  storeIdKey,
  storeMark,
  writeManifest,
} from '../directory/manifest.js';
import { newestMark } from '../feed/newest-transaction.js';
import { closedMark } from '../outages.js';
import { withoutBackups } from './marks.js';
import type { OnProgress, RestoreReport } from '../../../../operations/model.js';
import { beginPartial, namesIn } from '../directory/partial-directory.js';
import { type ChainChoice, chooseChain, pointOfShards } from './restore-chain.js';
import { restoreEnds } from './restore-ends.js';

export interface RestoreOptions extends ChainChoice {
  /** The data directory to make; it must not exist, or be empty. */
  target: string;
  /** The engine of the new directory; undefined for the engine of the backup. */
  engine?: EngineName | undefined;
  families: readonly string[];
  /**
   * Called with the key ring of the chain and its path in the new directory, before the directory gets its
   * final name.
   */
  writeKey?: ((content: Buffer, directory: string) => Promise<void>) | undefined;
  onProgress?: OnProgress | undefined;
}

const commitBytes = 4 * 1024 * 1024;

/**
 * Restores into a directory beside the target and renames it at the end. An interrupted restore leaves no
 * directory that looks complete.
 */
export async function restore(options: RestoreOptions): Promise<RestoreReport> {
  if (options.engine === 'memory')
    throw new StoaError(
      'invalid_request',
      'The engine of the target is "memory", which stores nothing on disk.',
      { fix: 'Leave out --engine, or choose lmdb or rocksdb.' },
    );
  await checkTarget(options.target);
  const chain = await chooseChain(options);
  const engine = options.engine ?? engineOf(chain[0] as BackupDescription);
  const key = await keyOf(options, chain);
  const partial = await beginPartial(options.target);
  const progress = { done: 0, total: chainBytes(chain) };
  const onBytes = (bytes: number) => {
    progress.done += bytes;
    options.onProgress?.(progress);
  };
  try {
    const report: RestoreReport = {
      chain: chain.map(({ name }) => name),
      engine,
      entries: 0,
      transactions: 0,
      seq: [],
      hasKey: chain.some((backup) => backup.key !== undefined),
    };
    const full = chain[0] as BackupDescription;
    const shards = full.shards.length;
    const points = pointOfShards(options.to, full);
    const ends = await restoreEnds({ directory: options.directory, chain, points });
    const manifest = newManifest(engine, shards);
    for (let shard = 0; shard < shards; shard += 1) {
      const part = await restoreShard({
        options,
        chain,
        shard,
        manifest,
        directory: partial.path,
        end: ends[shard] as number,
        onBytes,
      });
      report.entries += part.entries;
      report.transactions += part.transactions;
      report.seq[shard] = part.seq;
    }
    if (key !== undefined) await options.writeKey?.(key, partial.path);
    await writeManifest(partial.path, manifest);
    await partial.finish();
    return report;
  } catch (error) {
    await partial.discard();
    throw error;
  }
}

/** The newest key ring of the chain: it has every key that an older one had. */
async function keyOf(
  options: RestoreOptions,
  chain: readonly BackupDescription[],
): Promise<Buffer | undefined> {
  if (options.writeKey === undefined) return undefined;
  const holder = chain.findLast((backup) => backup.key !== undefined);
  if (holder !== undefined) return readKey(options.directory, holder);
  throw new StoaError('not_found', 'No backup of this chain contains the key ring.', {
    fix: 'Restore without --with-key, then copy your own copy of secret.keys into the directory.',
  });
}

interface ShardJob {
  options: RestoreOptions;
  chain: readonly BackupDescription[];
  shard: number;
  manifest: Manifest;
  directory: string;
  /** The first transaction that is not restored. */
  end: number;
  onBytes: (bytes: number) => void;
}

async function restoreShard(job: ShardJob): Promise<{ entries: number; transactions: number; seq: number }> {
  const [full, ...increments] = job.chain.map((backup) => ({
    backup,
    part: backup.shards[job.shard] as ShardBackup,
  }));
  if (full === undefined) throw new StoaError('internal', 'A chain of backups is empty.');
  const config = { ...storeConfigDefaults, data_dir: shardDirectory(job.directory, job.shard) };
  const families = [
    ...new Set([
      ...Object.values(kernelFamilies),
      ...job.options.families,
      ...(await familiesIn(job, full.backup, full.part)),
    ]),
  ];
  const engine = await openEngine(job.manifest.engine, config, families);
  let restored: { entries: number; transactions: number; seq: number };
  try {
    const loader = new Loader(engine);
    for await (const { family, entries } of readEntries(
      job.options.directory,
      full.backup,
      full.part,
      job.onBytes,
    )) {
      for (const { key, value } of entries) await loader.add({ family, key, value });
    }
    await loader.flush();
    const { aliveAtMs, lsn, ...replayed } = await replay(job, engine, increments, full.part);
    await engine.commit([
      storeMark(job.manifest),
      closedMark(aliveAtMs),
      // The numbering continues where the chain ended.
      newestMark({ lsn, atMs: aliveAtMs }),
      ...withoutBackups,
    ]);
    restored = { entries: loader.count, ...replayed };
  } finally {
    await engine.close();
  }
  await checkOpens(await openEngine(job.manifest.engine, config, families), job, restored.seq);
  return restored;
}

/**
 * Checks the restored data as the next start will: it belongs to this store, and its feed ends where the
 * backups end.
 */
async function checkOpens(engine: Engine, { manifest, shard }: ShardJob, seq: number): Promise<void> {
  try {
    const id = engine.get(kernelFamilies.meta, storeIdKey)?.toString();
    const last = lastFeedRecord(engine);
    const found = last === undefined ? 0 : positionOf(last.key);
    if (id === manifest.id && found === seq) return;
    throw new StoaError(
      'damaged_backup',
      `The restored shard ${shard} ends with change ${found}, but its backups end with ${seq}.`,
      { fix: 'Use another copy of these backups, or restore to an earlier one.' },
    );
  } finally {
    await engine.close();
  }
}

/** Families that this program does not know are restored too. */
async function familiesIn(job: ShardJob, backup: BackupDescription, part: ShardBackup): Promise<Set<string>> {
  const families = new Set<string>();
  for await (const frame of readFrames(join(job.options.directory, backup.name, part.file.name), part.file)) {
    families.add(frame.toString('utf8', 1, 1 + frame.readUInt8(0)));
  }
  return families;
}

interface Replayed {
  transactions: number;
  seq: number;
  lsn: number;
  /** The last moment that the store has seen. */
  aliveAtMs: number;
}

async function replay(
  job: ShardJob,
  engine: Engine,
  increments: readonly { backup: BackupDescription; part: ShardBackup }[],
  full: ShardBackup,
): Promise<Replayed> {
  let { seq, lsn, atMs: aliveAtMs } = full;
  let transactions = 0;
  let feedBytes = feedBytesOf(engine);
  // Many transactions in one commit: the new directory counts only when it is whole, and each commit waits
  // for the disk.
  const loader = new Loader(engine);
  const end = async (): Promise<Replayed> => {
    await loader.flush();
    return { transactions, seq, lsn, aliveAtMs };
  };
  for (const { backup, part } of increments) {
    for await (const items of readTransactions(job.options.directory, backup, part, job.onBytes)) {
      const wanted = items.filter((item) => item.lsn < job.end);
      for (const { commit, operations } of wanted) {
        for (const operation of operations) await loader.add(operation);
        if (commit === null) continue;
        const value = encodeFeed(feedBytes, [commit]);
        feedBytes += value.length;
        await loader.add({ family: kernelFamilies.changes, key: positionKey(commit.seq), value });
        seq = commit.seq;
      }
      lsn = wanted.at(-1)?.lsn ?? lsn;
      aliveAtMs = wanted.at(-1)?.atMs ?? aliveAtMs;
      transactions += wanted.length;
      if (wanted.length < items.length) return end();
    }
    aliveAtMs = Math.max(aliveAtMs, part.atMs);
  }
  return end();
}

function feedBytesOf(engine: Engine): number {
  const last = lastFeedRecord(engine);
  return last === undefined ? 0 : decodeFeed(last.value).bytesBefore + last.value.length;
}

function lastFeedRecord(engine: Engine): Entry | undefined {
  for (const entry of engine.range(kernelFamilies.changes, { reverse: true, limit: 1 })) return entry;
  return undefined;
}

/** Collects writes into commits of a few megabytes. */
class Loader {
  readonly #engine: Engine;
  #operations: WriteOperation[] = [];
  #bytes = 0;
  count = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async add(operation: WriteOperation): Promise<void> {
    this.#operations.push(operation);
    this.#bytes += operation.key.length + (operation.value?.length ?? 0);
    this.count += 1;
    if (this.#bytes >= commitBytes) await this.flush();
  }

  async flush(): Promise<void> {
    const operations = this.#operations;
    this.#operations = [];
    this.#bytes = 0;
    if (operations.length > 0) await this.#engine.commit(operations);
  }
}

async function checkTarget(target: string): Promise<void> {
  if (((await namesIn(target)) ?? []).length === 0) return;
  throw new StoaError('already_exists', `${target} is not empty. A restore needs a new or empty directory.`, {
    fix: 'Name a new directory, or move the old one aside first.',
  });
}

function engineOf(backup: BackupDescription): EngineName {
  const engine = engineNames.find((name) => name === backup.engine);
  return engine === undefined || engine === 'memory' ? 'lmdb' : engine;
}
