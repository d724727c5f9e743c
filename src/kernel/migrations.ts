/**
 * Brings a data directory of an older format to this program's. Row by row, in small transactions that
 * each note how far they came: a process that is killed on the way goes on where it was.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, messageOf } from '../errors.js';
import { backup } from './backup.js';
import type { Entry, RangeOptions, WriteOperation } from './engine.js';
import { kernelFamilies } from './families.js';
import type { Kernel } from './kernel.js';
import { type Manifest, dataFormat } from './manifest.js';
import type { Store } from './store.js';
import type { Reader, Transaction } from './transaction.js';

/** A way through one family. */
export interface MigrationPass {
  family: string;
  /** Whether the row is laid out as before; one that is new already is left alone. */
  isOld(entry: Entry, reader: Reader): boolean;
  /** Writes what becomes of old rows and deletes them, all in this transaction. */
  migrate(tx: Transaction, entries: readonly Entry[], kernel: Kernel): void;
}

/** From one format to the next. */
export interface Migration {
  /** What the data has afterwards. */
  format: number;
  /** Families that nothing else uses any more. */
  retiredFamilies: readonly string[];
  /** One after the other, in this order. */
  passes: readonly MigrationPass[];
}

export interface MigrationProgress {
  /** First everything is backed up, then it is changed. */
  stage: 'backup' | 'change';
  from: number;
  to: number;
  done: number;
  total: number;
  /** Where the backup is. */
  directory: string;
}

export interface MigrateOptions {
  migrations: readonly Migration[];
  onProgress?: ((progress: MigrationProgress) => void) | undefined;
}

const formatKey = Buffer.from('format');
const progressKey = Buffer.from('migrating');

/** The mark by which a database shows how its rows are laid out. It is in backups too; a database without one has format 1. */
export function formatMark(format: number): WriteOperation & { value: Buffer } {
  return { family: kernelFamilies.meta, key: formatKey, value: Buffer.from(String(format)) };
}

export function isOlder({ format, migrating }: Manifest): boolean {
  return format < dataFormat || migrating !== undefined;
}

/** The families that must be open besides the program's own to bring such a directory up to date. */
export function retiredFamilies(manifest: Manifest, migrations: readonly Migration[]): string[] {
  return isOlder(manifest) ? migrations.flatMap((migration) => migration.retiredFamilies) : [];
}

/**
 * Before the first row changes, everything is in a backup that the program of before can restore, and
 * the manifest says the new format, so that the program of before refuses what is half done.
 */
export async function migrate(kernel: Kernel, { migrations, onProgress }: MigrateOptions): Promise<void> {
  const { manifest } = kernel;
  const from = manifest.migrating ?? manifest.format;
  const wanted = migrations.filter(({ format }) => format > from);
  if (wanted.at(-1)?.format !== dataFormat) throw notUpToDate(kernel.dataDir);
  const directory = join(kernel.dataDir, `before-format-${dataFormat}`);
  const report = (stage: MigrationProgress['stage']) => (step: { done: number; total: number }) =>
    onProgress?.({ stage, from, to: dataFormat, directory, ...step });
  if (manifest.migrating === undefined && kernel.stores.some((store) => isNeeded(store, wanted)))
    await keepBackup(kernel, directory, report('backup'));
  await kernel.rewriteManifest({ ...manifest, format: dataFormat, migrating: from });
  const progress = { done: 0, total: kernel.stores.reduce((sum, store) => sum + rowsOf(store, wanted), 0) };
  for (const store of kernel.stores) {
    for (const migration of wanted) {
      if (migration.format <= formatOf(store)) continue;
      await migrateStore(kernel, store, migration, (rows) => {
        progress.done += rows;
        report('change')({ done: progress.done, total: Math.max(progress.done, progress.total) });
      });
    }
  }
  const { migrating: _done, ...current } = kernel.manifest;
  await kernel.rewriteManifest(current);
}

/** For whoever may not change the directory. */
export function notUpToDate(dataDir: string): StoaError {
  return new StoaError('conflict', `${dataDir} has an older format than this program writes.`, {
    fix: 'Start it once with "stoa up", which brings it up to date, and stop it again.',
  });
}

/** What lies there from an attempt that was cut off is older than the data by now. */
async function keepBackup(
  kernel: Kernel,
  directory: string,
  onProgress: (step: { done: number; total: number }) => void,
): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  try {
    await backup(kernel, { directory, kind: 'full', onProgress });
  } catch (error) {
    throw new StoaError(
      error instanceof StoaError ? error.code : 'engine',
      `The data has format ${kernel.manifest.format}. Before it becomes ${dataFormat} it is backed up to ${directory}, which failed: ${messageOf(error)}`,
      {
        cause: error,
        fix: 'Make room for a copy of the data beside it. Nothing has been changed; the program of before can still use it.',
      },
    );
  }
}

async function migrateStore(
  kernel: Kernel,
  store: Store,
  migration: Migration,
  onRows: (count: number) => void,
): Promise<void> {
  for (let isDone = false; !isDone;) {
    let rows = 0;
    isDone = await store.transact((tx) => {
      const at = placeOf(tx);
      const pass = migration.passes[at.pass];
      if (pass === undefined) {
        const { family, key, value } = formatMark(migration.format);
        tx.put(family, key, value);
        tx.delete(kernelFamilies.meta, progressKey);
        return true;
      }
      const entries = Array.from(
        tx.range(pass.family, boundsAfter(at.key, kernel.limits.migrationStepRowsMax)),
      );
      const old = entries.filter((entry) => pass.isOld(entry, tx));
      if (old.length > 0) pass.migrate(tx, old, kernel);
      rows = entries.length;
      const last = rows < kernel.limits.migrationStepRowsMax ? undefined : entries.at(-1)?.key;
      const next: Place =
        last === undefined ? { pass: at.pass + 1, key: null } : { pass: at.pass, key: last };
      tx.put(
        kernelFamilies.meta,
        progressKey,
        Buffer.from(JSON.stringify({ pass: next.pass, key: next.key?.toString('hex') ?? null })),
      );
      return false;
    });
    onRows(rows);
  }
}

/** Which pass is under way, and after which key it goes on. */
interface Place {
  pass: number;
  key: Buffer | null;
}

function placeOf(reader: Reader): Place {
  const stored = reader.get(kernelFamilies.meta, progressKey);
  if (stored === undefined) return { pass: 0, key: null };
  const { pass, key } = JSON.parse(stored.toString()) as { pass: number; key: string | null };
  return { pass, key: key === null ? null : Buffer.from(key, 'hex') };
}

function boundsAfter(key: Buffer | null, limit: number): RangeOptions {
  return key === null ? { limit } : { gt: key, limit };
}

function formatOf(reader: Reader): number {
  return Number(reader.get(kernelFamilies.meta, formatKey) ?? 1);
}

/** Whether any row would change: a directory in which none does needs no backup of all of it. */
function isNeeded(store: Store, migrations: readonly Migration[]): boolean {
  for (const { family, isOld } of migrations.flatMap(({ passes }) => passes)) {
    for (const entry of store.range(family, {})) if (isOld(entry, store)) return true;
  }
  return false;
}

function rowsOf(store: Store, migrations: readonly Migration[]): number {
  const { families } = store.engine.stats();
  return migrations
    .flatMap(({ passes }) => passes)
    .reduce((sum, { family }) => sum + (families[family]?.entries ?? 0), 0);
}
