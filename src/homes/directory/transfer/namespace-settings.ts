/** Settings of namespaces in a data directory, as a move takes them. */
import { isDefault } from '../../../datastore/namespaces/namespace-settings.js';
import type { NamespaceSettingsLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { dataFamilies, namespaceKey } from '../datastore/rows.js';
import { type SettingsRow, decodeSettings, putSettings, readSettings } from '../datastore/settings.js';
import type { Kernel } from '../kernel/kernel.js';
import { FamilyRecords } from './records.js';

export function settingsRecordStore(kernel: Kernel): [type: string, store: RecordStore] {
  return [
    'data.settings',
    new FamilyRecords<NamespaceSettingsLine>(kernel, {
      family: dataFamilies.settings,
      read: (_reader, { value }) => lineOf(decodeSettings(value)),
      userOf: ({ user }) => user,
      stored: (reader, { user, namespace }) => {
        const settings = readSettings(reader, namespaceKey({ user, namespace }));
        return isDefault(settings) ? undefined : lineOf({ user, namespace, settings });
      },
      put: (tx, { user, namespace, settings }) => putSettings(tx, { user, namespace, settings }),
    }),
  ];
}

function lineOf({ user, namespace, settings }: SettingsRow): NamespaceSettingsLine {
  return { type: 'data.settings', user, namespace, settings };
}
