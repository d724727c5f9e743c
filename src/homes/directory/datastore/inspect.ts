/** The rows of the data store as readable JSON, for `stoa inspect`. */
import { toDocument } from '../../../datastore/documents/seed-document.js';
import {
  dataFamilies,
  decodeAccess,
  decodeDocument,
  decodeNamespace,
  decodeUsage,
  inlineValue,
  isApart,
  namesOf,
} from './rows.js';
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { decodeSettings } from './settings.js';

export const dataRows: RowDecoders = {
  [dataFamilies.documents]: documentOf,
  [dataFamilies.values]: (key, value) => ({ ...namedRow(key), sizeBytes: value.length }),
  [dataFamilies.access]: (key, value) => ({ ...namedRow(key), ...decodeAccess(value) }),
  [dataFamilies.namespaces]: (key, value) => ({
    user: userOf(key),
    namespace: key.toString('utf8', 32),
    ...decodeNamespace(value),
  }),
  [dataFamilies.agents]: (key) => {
    const { user, namespace, key: agent } = namedRow(key);
    return { user, namespace, agent };
  },
  [dataFamilies.settings]: (_key, value) => decodeSettings(value),
  [dataFamilies.usage]: (key, value) => ({ user: userOf(key), ...decodeUsage(value) }),
};

function userOf(key: Buffer): string {
  return key.toString('hex', 0, 32);
}

function namedRow(key: Buffer): { user: string; namespace: string; key: string } {
  return { user: userOf(key), ...namesOf(key) };
}

/** Without the value if it has its own row. */
function documentOf(key: Buffer, row: Buffer): object {
  if (!isApart(row)) return toDocument(decodeDocument(key, row, inlineValue(row)));
  const { value: _, ...document } = toDocument(decodeDocument(key, row, 'null'));
  return document;
}
