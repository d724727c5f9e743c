/** The settings of namespaces in PostgreSQL. */
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
import type { Limits } from '../../../core/settings/limits.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { reindexAgain } from '../find/reindex/jobs.js';
import type { KnownUsers } from '../known-users.js';
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';

export interface SettingsRow {
  readonly owner: string;
  readonly collection: string;
  readonly indexed: boolean;
  readonly embed: boolean;
  readonly embed_fields: string | null;
}

export class PostgresNamespaceSettings implements NamespaceSettingsPort {
  readonly #sql: PostgresSql;
  readonly #users: KnownUsers;
  readonly #limits: Limits;

  constructor(sql: PostgresSql, users: KnownUsers, limits: Limits) {
    this.#sql = sql;
    this.#users = users;
    this.#limits = limits;
  }

  readonly read: NamespaceSettingsPort['read'] = (scope) => readSettings(this.#sql, scope);

  readonly change: NamespaceSettingsPort['change'] = (scope, change) =>
    new PostgresStep([], async (work) => {
      await work.rows(lockKeySql('findVectors'), [scope.user]);
      const after = changedSettings(await readSettings(work.sql, scope), change);
      await this.#users.ensure(work, scope.user);
      await putSettings(work, scope, after);
      const [row] = await work.rows<{ count: string }>(
        'SELECT count(*) AS count FROM find.namespace_settings WHERE owner = $1',
        [scope.user],
      );
      checkSettingsCount(Number(row?.count), this.#limits);
      return after;
    });
}

export const settingsColumns = 'owner, collection, indexed, embed, embed_fields';

export async function readSettings(sql: Queryable, { user, namespace }: Scope): Promise<NamespaceSettings> {
  const [row] = await query<SettingsRow>(
    sql,
    `SELECT ${settingsColumns} FROM find.namespace_settings WHERE owner = $1 AND collection = $2`,
    [user, namespace],
  );
  return row === undefined ? settingsDefault : settingsOf(row);
}

export function settingsOf({ indexed, embed, embed_fields: fields }: SettingsRow): NamespaceSettings {
  return { index: indexed, embed, embed_fields: fields === null ? null : (JSON.parse(fields) as string[]) };
}

/** Also notes that the words or the vectors of the namespace follow from other settings now. */
export async function putSettings(work: Work, scope: Scope, settings: NamespaceSettings): Promise<void> {
  const { user, namespace } = scope;
  const before = await readSettings(work.sql, scope);
  if (isDefault(settings))
    await work.rows('DELETE FROM find.namespace_settings WHERE owner = $1 AND collection = $2', [
      user,
      namespace,
    ]);
  else
    await work.rows(
      `INSERT INTO find.namespace_settings (${settingsColumns}) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (owner, collection) DO UPDATE SET indexed = excluded.indexed, embed = excluded.embed, embed_fields = excluded.embed_fields`,
      [
        user,
        namespace,
        settings.index,
        settings.embed,
        settings.embed_fields === null ? null : JSON.stringify(settings.embed_fields),
      ],
    );
  if (before.index !== settings.index) await reindexAgain(work, scope);
  if (changesVectors(before, settings))
    await work.rows(`INSERT INTO find.waiting (owner, collection, id) VALUES ($1, $2, '')`, [
      user,
      namespace,
    ]);
}
