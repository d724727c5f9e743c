/** The settings of namespaces in the data directory, in the shard of their user. */
import type { Scope } from '../../../datastore/model.js';
import {
  type NamespaceSettings,
  type NamespaceSettingsPort,
  changedSettings,
  changesVectors,
  checkSettingsCount,
  isDefault,
  settingsDefault,
} from '../../../datastore/namespaces/namespace-settings.js';
import { userKey } from '../../../identity/user-key.js';
import { reindexAgain } from '../find/reindex/rows.js';
import { waitForVector } from '../find/vectors/rows.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { step } from '../step.js';
import { dataFamilies as families, documentKey, namespaceKey } from './rows.js';

/** The names are in the row too: its key has only a hash of the user. */
export interface SettingsRow extends Scope {
  readonly settings: NamespaceSettings;
}

export interface DirectoryNamespaceSettingsOptions {
  readonly kernel: Kernel;
  /** A user exists from its first write. */
  readonly ensureUser: (tx: Transaction, user: string) => void;
}

export class DirectoryNamespaceSettings implements NamespaceSettingsPort {
  readonly #options: DirectoryNamespaceSettingsOptions;

  constructor(options: DirectoryNamespaceSettingsOptions) {
    this.#options = options;
  }

  readonly read: NamespaceSettingsPort['read'] = (scope) =>
    readSettings(this.#options.kernel.storeOf(userKey(scope.user)), namespaceKey(scope));

  readonly change: NamespaceSettingsPort['change'] = (scope, change) => {
    const { kernel, ensureUser } = this.#options;
    return step(kernel.storeOf(userKey(scope.user)), (tx) => {
      const before = readSettings(tx, namespaceKey(scope));
      const after = changedSettings(before, change);
      ensureUser(tx, scope.user);
      putSettings(tx, { ...scope, settings: after });
      checkSettingsCount(countOf(tx, scope.user, kernel.limits.namespaceSettingsMax + 1), kernel.limits);
      return after;
    });
  };
}

export function readSettings(reader: Reader, key: Buffer): NamespaceSettings {
  const row = reader.get(families.settings, key);
  return row === undefined ? settingsDefault : decodeSettings(row).settings;
}

export function decodeSettings(row: Buffer): SettingsRow {
  const { settings, ...scope } = JSON.parse(row.toString()) as SettingsRow;
  return { ...scope, settings: { ...settingsDefault, ...settings } };
}

/** Also notes that the words or the vectors of the namespace follow from other settings now. */
export function putSettings(tx: Transaction, row: SettingsRow): void {
  const { user, namespace, settings } = row;
  const key = namespaceKey(row);
  const before = readSettings(tx, key);
  if (isDefault(settings)) tx.delete(families.settings, key);
  else tx.put(families.settings, key, Buffer.from(JSON.stringify({ user, namespace, settings })));
  if (before.index !== settings.index) reindexAgain(tx, { user, namespace });
  if (changesVectors(before, settings)) waitForVector(tx, documentKey(row, ''));
}

function countOf(reader: Reader, user: string, limit: number): number {
  return [...reader.range(families.settings, { ...prefixRange(userKey(user)), limit })].length;
}
