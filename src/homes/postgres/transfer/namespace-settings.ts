/** Settings of namespaces in PostgreSQL, as a move takes them. */
import { isDefault } from '../../../datastore/namespace-settings.js';
import type { NamespaceSettingsLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import {
  type SettingsRow,
  putSettings,
  readSettings,
  settingsColumns,
  settingsOf,
} from '../datastore/settings.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type TableAccess, TableRecords } from './records.js';

interface Reads {
  readonly sql: Queryable;
}

export function settingsRecordStore(
  sql: PostgresSql,
  transact: PostgresWriter['transact'],
): [type: string, store: RecordStore] {
  const access: TableAccess<Reads, Work> = { reader: { sql }, transact };
  return [
    'data.settings',
    new TableRecords<NamespaceSettingsLine, Reads, Work>(access, {
      page: async (_scope, after, limit) => {
        const [owner = '', collection = ''] = after?.split('\0') ?? [];
        const rows = await query<SettingsRow>(
          sql,
          `SELECT ${settingsColumns} FROM find.namespace_settings
              WHERE (owner, collection) > ($1, $2) ORDER BY owner, collection LIMIT $3`,
          [owner, collection, limit],
        );
        const last = rows.length < limit ? undefined : rows.at(-1);
        return {
          records: rows.map((row) => lineOf(row.owner, row.collection, settingsOf(row))),
          after: last === undefined ? null : `${last.owner}\0${last.collection}`,
        };
      },
      stored: async ({ sql: on }, { user, namespace }) => {
        const settings = await readSettings(on, { user, namespace });
        return isDefault(settings) ? undefined : lineOf(user, namespace, settings);
      },
      put: async (work, { user, namespace, settings }) => putSettings(work, { user, namespace }, settings),
    }),
  ];
}

function lineOf(
  user: string,
  namespace: string,
  settings: NamespaceSettingsLine['settings'],
): NamespaceSettingsLine {
  return { type: 'data.settings', user, namespace, settings };
}
