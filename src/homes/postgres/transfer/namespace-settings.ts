/** Settings of namespaces in PostgreSQL, as a move takes them. */
import { isDefault } from '../../../datastore/namespaces/namespace-settings.js';
import type { NamespaceSettingsLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import type { PostgresSql } from '../database/connection.js';
import {
  type SettingsRow,
  putSettings,
  readSettings,
  settingsColumns,
  settingsOf,
} from '../datastore/settings.js';
import type { PostgresWriter } from '../write/writer.js';
import { TableRecords, pageOfRows, writerAccess } from './records.js';

const rows = {
  columns: settingsColumns,
  from: 'find.namespace_settings',
  key: ['owner', 'collection'],
};

export function settingsRecordStore(
  sql: PostgresSql,
  transact: PostgresWriter['transact'],
): [type: string, store: RecordStore] {
  return [
    'data.settings',
    new TableRecords(writerAccess(sql, transact), {
      page: (_scope, after, limit) =>
        pageOfRows(
          sql,
          rows,
          (row: SettingsRow) => lineOf(row.owner, row.collection, settingsOf(row)),
          after,
          limit,
        ),
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
