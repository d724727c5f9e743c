/** What a row of any family says, where its domain knows better than its bytes. */
import { decodeDataEntry } from './datastore-inspect.js';
import { decodeRegistryEntry } from './registry-inspect.js';
import { decodeWorkspacesEntry } from './workspaces-inspect.js';

/** Undefined for a family that no domain decodes. Throws for a row that cannot be read. */
export function decodeEmbeddedEntry(family: string, key: Buffer, value: Buffer): unknown {
  return decodeDataEntry(family, key, value) ?? decodeRegistryEntry(family, key, value) ?? decodeWorkspacesEntry(family, key, value);
}
