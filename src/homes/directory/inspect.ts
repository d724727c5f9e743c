/** The content of a row of any family, decoded by its domain. */
import { decodeKernelEntry } from './kernel/inspect/kernel-rows.js';
import { decodeDataEntry } from './datastore/inspect.js';
import { decodeFindEntry } from './find/inspect.js';
import { decodeLocksEntry } from './locks/inspect.js';
import { decodeIdentityEntry } from './identity/inspect.js';
import { hidesMessagingValues, decodeMessagingEntry } from './messaging/inspect.js';
import { decodeRegistryEntry } from './registry/inspect.js';
import { decodeWorkspacesEntry } from './workspaces/inspect.js';

const decoders = [
  decodeKernelEntry,
  decodeIdentityEntry,
  decodeDataEntry,
  decodeRegistryEntry,
  decodeWorkspacesEntry,
  decodeFindEntry,
  decodeLocksEntry,
  decodeMessagingEntry,
];

/** Families whose values are never shown, not even to the operator. */
export function hidesValues(family: string): boolean {
  return hidesMessagingValues(family);
}

/** Undefined for a family that no domain decodes. Throws for a row that cannot be read. */
export function decodeEntry(family: string, key: Buffer, value: Buffer): unknown {
  for (const decode of decoders) {
    const decoded = decode(family, key, value);
    if (decoded !== undefined) return decoded;
  }
  return undefined;
}
