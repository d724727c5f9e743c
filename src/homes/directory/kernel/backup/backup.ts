/** Backups during writes: a full copy of a snapshot, or the part of the redo log since the last backup. */
import { createHash } from 'node:crypto';
import { access, constants, realpath } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { StoaError, fileReasonOf, messageOf } from '../../../../core/errors.js';
import { listBackups } from './chain.js';
import {
  type BackupDescription,
  type ShardBackup,
  backupKeyFile,
  backupNameAt,
  descriptionFile,
  shardFile,
} from './description.js';
import { type FileFacts, FrameWriter } from './file.js';
import { removeUnfinished } from './leftovers.js';
import { wasMadeHere } from './marks.js';
import { encodeEntries } from './entries.js';
import { kernelFamilies } from '../families.js';
import { refuseForeign } from './directory.js';
import { fileFailure, makePrivateDirectory, writeDurably } from '../../../../core/files.js';
import type { Kernel } from '../kernel.js';
import { decodeRedo, positionKey, positionOf } from '../feed/log.js';
import { shardDirectory } from '../directory/manifest.js';
import { beginPartial } from '../directory/partial-directory.js';
import type { Store } from '../store.js';
import type { BackupKind, OnProgress } from '../../../../operations/model.js';

export interface BackupOptions {
  /** The directory of the backups. Each backup becomes a directory in it. */
  directory: string;
  kind: BackupKind;
  onProgress?: OnProgress | undefined;
  signal?: AbortSignal;
  /**
   * Reads the key ring for secrets, to add it to the backup. Without it the secrets in the backup cannot be
   * read.
   */
  readKey?: (() => Promise<Buffer>) | undefined;
}

/** Entries read and framed before other work gets a turn. */
const entriesPerFrame = 500;

/** Writes a backup and its description. The backup gets its name only when it is complete and on disk. */
export async function backup(kernel: Kernel, options: BackupOptions): Promise<BackupDescription> {
  try {
    await makeTarget(kernel, options.directory);
    await refuseForeign(options.directory, kernel.manifest.id);
    await removeUnfinished(options.directory).catch((error: unknown) =>
      kernel.reportFault(error, `removing unfinished backups in ${options.directory}`),
    );
    return await writeBackup(kernel, options);
  } catch (error) {
    throw failureOf(error, options.directory);
  }
}

async function writeBackup(kernel: Kernel, options: BackupOptions): Promise<BackupDescription> {
  const parent = options.kind === 'full' ? null : await parentOf(kernel, options.directory);
  const takenAt = new Date();
  const name = backupNameAt(takenAt, options.kind);
  const partial = await beginPartial(join(options.directory, name));
  try {
    const shards =
      options.kind === 'full'
        ? await copyShards(kernel, partial.path, options)
        : await copyRedo(kernel, partial.path, parent as BackupDescription, options);
    const { format, engine, id: store } = kernel.manifest;
    // Read after the data: the ring then has every key that the data uses, because keys are never removed.
    const key =
      options.readKey === undefined ? undefined : await writeKey(partial.path, await options.readKey());
    const description: BackupDescription = {
      format,
      name,
      kind: options.kind,
      store,
      parent: parent?.name ?? null,
      taken_at: takenAt.toISOString(),
      engine,
      shards,
      ...(key && { key }),
    };
    await writeDurably(join(partial.path, descriptionFile), `${JSON.stringify(description, null, 2)}\n`);
    await partial.finish();
    await kernel.rememberBackup(description, options.directory);
    return description;
  } catch (error) {
    // The next backup removes what cannot be removed now. The caller gets the first failure.
    await partial
      .discard()
      .catch((left: unknown) => kernel.reportFault(left, `removing the unfinished backup ${partial.path}`));
    throw error;
  }
}

/** Wraps an error of the file system in a StoaError. Other errors stay unchanged. */
function failureOf(thrown: unknown, directory: string): unknown {
  const error = fileFailure(directory, thrown);
  if (error instanceof StoaError || !(error instanceof Error && 'code' in error)) return error;
  return new StoaError(
    'engine',
    `The backup to ${directory} failed and left no files: ${messageOf(error)}.`,
    { cause: error, fix: 'Fix the cause, or name another directory.' },
  );
}

async function makeTarget(kernel: Kernel, directory: string): Promise<void> {
  try {
    await makePrivateDirectory(directory);
    await access(directory, constants.W_OK);
  } catch (error) {
    const failure = fileFailure(directory, error);
    if (failure instanceof StoaError && failure.code !== 'invalid_config') throw failure;
    throw new StoaError(
      'invalid_request',
      `Backups cannot be written to ${directory}: ${fileReasonOf(error)}.`,
      { cause: error, fix: "Name a directory that the server's user can write to." },
    );
  }
  await refuseDatabases(kernel, directory);
}

/** Compares real paths, because a link elsewhere can lead into a database. */
async function refuseDatabases(kernel: Kernel, directory: string): Promise<void> {
  if (kernel.lock === undefined) return;
  const within = relative(await realpath(kernel.dataDir), await realpath(directory));
  if (kernel.stores.some((_, shard) => within.split(sep)[0] === shardDirectory('', shard).split(sep)[0])) {
    throw new StoaError('invalid_request', `${directory} is inside the database files of the engine.`, {
      fix: `Name another directory, like ${join(kernel.dataDir, 'backups')}.`,
    });
  }
}

async function writeKey(partial: string, content: Buffer): Promise<FileFacts> {
  await writeDurably(join(partial, backupKeyFile), content);
  return {
    name: backupKeyFile,
    sizeBytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
  };
}

/** The newest backup of this store in the directory: what an increment builds on. */
async function parentOf(kernel: Kernel, directory: string): Promise<BackupDescription> {
  const own = (await listBackups(directory)).filter(({ store }) => store === kernel.manifest.id);
  const parent = own.findLast(
    ({ name, shards }) =>
      wasMadeHere(kernel.root, name) &&
      kernel.stores.every((store, shard) => (shards[shard]?.lsn ?? Infinity) <= store.lsn),
  );
  if (parent !== undefined) return parent;
  const newest = own.at(-1)?.name;
  const reason =
    newest === undefined
      ? `${directory} has no full backup of this store to build on.`
      : `The backup ${newest} does not match this store: one of them is a copy or was set back to an earlier state, or the store could not record the backup.`;
  throw new StoaError('conflict', reason, { fix: 'Make a full backup first: stoa backup --full DIR.' });
}

/** All snapshots are taken at one moment: a write over two shards is in both of them or in neither. */
async function copyShards(kernel: Kernel, partial: string, options: BackupOptions): Promise<ShardBackup[]> {
  const total = kernel.stores.reduce((sum, store) => sum + entriesOf(store), 0);
  const shards: ShardBackup[] = [];
  let done = 0;
  // Before the snapshots: an increment needs everything after them.
  kernel.keepRedo();
  const views = await kernel.betweenPairs(() => Promise.all(kernel.stores.map((store) => store.snapshot())));
  try {
    for (const [shard, store] of kernel.stores.entries()) {
      // Every store has a snapshot.
      const view = views[shard] as StoreView;
      shards[shard] = await copyShard(store, view, partial, shardFile(shard, 'full'), options, (entries) => {
        done += entries;
        options.onProgress?.({ done, total: Math.max(total, done) });
      });
    }
  } finally {
    // Closed even if no file could be created: an open snapshot keeps all rows that are deleted later.
    for (const { snapshot } of views) await snapshot.close();
  }
  return shards;
}

type StoreView = Awaited<ReturnType<Store['snapshot']>>;

async function copyShard(
  store: Store,
  { snapshot, lsn, seq, atMs }: StoreView,
  partial: string,
  name: string,
  { signal }: BackupOptions,
  onEntries: (count: number) => void,
): Promise<ShardBackup> {
  const writer = await FrameWriter.create(join(partial, name));
  let entries = 0;
  try {
    for (const family of store.families) {
      // A restored store begins a new redo log.
      if (family === kernelFamilies.redo) continue;
      for (
        let page = snapshot.next(family, entriesPerFrame);
        page.length > 0;
        page = snapshot.next(family, entriesPerFrame)
      ) {
        signal?.throwIfAborted();
        await writer.write(encodeEntries(family, page));
        entries += page.length;
        onEntries(page.length);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const file = await writer.finish(name);
    return { file, fromLsn: 0, lsn, seq, atMs, entries };
  } catch (error) {
    await writer.abandon();
    throw error;
  }
}

async function copyRedo(
  kernel: Kernel,
  partial: string,
  parent: BackupDescription,
  options: BackupOptions,
): Promise<ShardBackup[]> {
  const shards: ShardBackup[] = [];
  const starts = parent.shards;
  const total = kernel.stores.reduce(
    (sum, store, shard) => sum + store.lsn - (starts[shard] as ShardBackup).lsn,
    0,
  );
  let done = 0;
  const ends = await kernel.betweenPairs(async () => kernel.stores.map(({ lsn }) => lsn));
  for (const [shard, store] of kernel.stores.entries()) {
    shards[shard] = await copyRedoOf(
      store,
      ends[shard] as number,
      starts[shard] as ShardBackup,
      partial,
      shardFile(shard, 'incremental'),
      options,
      (transactions) => {
        done += transactions;
        options.onProgress?.({ done, total: Math.max(total, done) });
      },
    );
  }
  return shards;
}

async function copyRedoOf(
  store: Store,
  toLsn: number,
  from: ShardBackup,
  partial: string,
  name: string,
  { signal }: BackupOptions,
  onTransactions: (count: number) => void,
): Promise<ShardBackup> {
  const atMs = store.nowMs();
  const writer = await FrameWriter.create(join(partial, name));
  const fromLsn = from.lsn;
  let at = fromLsn;
  let { seq } = from;
  let entries = 0;
  try {
    while (at < toLsn) {
      signal?.throwIfAborted();
      const record = recordAfter(store, at);
      const { items } = decodeRedo(record.value);
      const first = items[0];
      if (first === undefined || first.lsn > at + 1) throw redoTooShort(at);
      await writer.write(record.value);
      const transactions = items.filter(({ lsn }) => lsn > at);
      seq = transactions.findLast(({ commit }) => commit !== null)?.commit?.seq ?? seq;
      at = positionOf(record.key);
      entries += transactions.length;
      onTransactions(transactions.length);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const file = await writer.finish(name);
    return { file, fromLsn, lsn: at, seq, atMs, entries };
  } catch (error) {
    await writer.abandon();
    throw error;
  }
}

function recordAfter(store: Store, lsn: number): { key: Buffer; value: Buffer } {
  for (const record of store.range(kernelFamilies.redo, { gte: positionKey(lsn + 1), limit: 1 }))
    return record;
  throw redoTooShort(lsn);
}

function redoTooShort(wanted: number): StoaError {
  return new StoaError(
    'conflict',
    `The last backup ends with transaction ${wanted}, and the redo log does not have the next one.`,
    { fix: 'Make a full backup: stoa backup --full DIR. A larger redoBytesMax keeps the log longer.' },
  );
}

function entriesOf(store: Store): number {
  return Object.values(store.engine.stats().families).reduce((sum, { entries }) => sum + entries, 0);
}
