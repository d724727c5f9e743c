/**
 * Versions of the stored layout: ordered, recorded together with the change, refused if the data is newer.
 */
import { StoaError } from '../../../core/errors.js';
import type { Store } from '../kernel/store.js';
import type { Transaction } from '../kernel/transaction.js';
import { buckets, metaKey } from './keys.js';

export interface Migration {
  version: number;
  /** `001_initial` and so on: what `meta:last_migration` holds afterwards. */
  name: string;
  /**
   * One bounded step from the end of the previous one (null at first). Returns where the next step begins, or
   * null when everything is done; the version is recorded in the transaction of that last step.
   */
  step(tx: Transaction, from: string | null): string | null;
}

export const workspaceMigrations: readonly Migration[] = [
  { version: 1, name: '001_initial', step: () => null },
];

const versionKey = metaKey('schema_version');
const nameKey = metaKey('last_migration');
/** How far a migration has come. After a crash it continues from there. */
const progressKey = metaKey('migrating');

export async function migrateWorkspaces(
  store: Store,
  migrations: readonly Migration[] = workspaceMigrations,
): Promise<void> {
  const stored = Number(store.get(buckets.metadata, versionKey) ?? 0);
  const newest = migrations.at(-1)?.version ?? 0;
  if (stored > newest) {
    throw new StoaError(
      'newer_data',
      `The workspaces have version ${stored}. This program reads version ${newest}.`,
      { fix: 'Use the version of Stoa that wrote the data, or a newer version.' },
    );
  }
  for (const migration of migrations) if (migration.version > stored) await runMigration(store, migration);
}

async function runMigration(store: Store, migration: Migration): Promise<void> {
  let done = false;
  while (!done) {
    done = await store.transact((tx) => {
      const next = migration.step(tx, tx.get(buckets.metadata, progressKey)?.toString() ?? null);
      if (next !== null) {
        tx.put(buckets.metadata, progressKey, Buffer.from(next));
        return false;
      }
      tx.delete(buckets.metadata, progressKey);
      tx.put(buckets.metadata, versionKey, Buffer.from(String(migration.version)));
      tx.put(buckets.metadata, nameKey, Buffer.from(migration.name));
      return true;
    });
  }
}
