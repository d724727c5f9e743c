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
import { decodeSettings } from './settings.js';

/** Undefined for a family of another domain. */
export function decodeDataEntry(family: string, key: Buffer, value: Buffer): unknown {
  const user = key.toString('hex', 0, 32);
  switch (family) {
    case dataFamilies.documents:
      return documentOf(key, value);
    case dataFamilies.values:
      return { user, ...namesOf(key), sizeBytes: value.length };
    case dataFamilies.access:
      return { user, ...namesOf(key), ...decodeAccess(value) };
    case dataFamilies.namespaces:
      return { user, namespace: key.toString('utf8', 32), ...decodeNamespace(value) };
    case dataFamilies.agents:
      return { user, namespace: namesOf(key).namespace, agent: namesOf(key).key };
    case dataFamilies.settings:
      return decodeSettings(value);
    case dataFamilies.usage:
      return { user, ...decodeUsage(value) };
    default:
      return undefined;
  }
}

/** Without the value if it has its own row. */
function documentOf(key: Buffer, row: Buffer): object {
  if (!isApart(row)) return toDocument(decodeDocument(key, row, inlineValue(row)));
  const { value: _, ...document } = toDocument(decodeDocument(key, row, 'null'));
  return document;
}
