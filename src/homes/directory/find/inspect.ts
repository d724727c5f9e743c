/** The rows of the search index for `stoa inspect`. The words of a block stay packed; its first word is in its key. */
import { namesOf } from '../datastore/rows.js';
import { decodeStoreEntry } from './store-entries.js';
import { decodeNote } from './store-writes.js';
import { decodeHead, decodeNumbers, vectorFamilies } from './vectors/rows.js';
import {
  decodeSegment,
  findFamilies,
  firstTermOf,
  markedName,
  partitionBytes,
  segmentKeyBytes,
} from './rows.js';

/** Undefined for a family of another domain. */
export function decodeFindEntry(family: string, key: Buffer, value: Buffer): unknown {
  const partition = key.toString('hex', 0, partitionBytes);
  const segment = () => key.readUIntBE(partitionBytes, segmentKeyBytes - partitionBytes);
  switch (family) {
    case findFamilies.marks:
      return { partition, ...markedName(key) };
    case findFamilies.segments:
      return { partition, ...decodeSegment(key, value) };
    case findFamilies.catalogs:
    case findFamilies.dead:
      return { partition, segment: segment(), sizeBytes: value.length };
    case findFamilies.blocks:
      return { partition, segment: segment(), firstTerm: firstTermOf(key), sizeBytes: value.length };
    case findFamilies.entries: {
      const { user, createdAtMs, entry } = decodeStoreEntry(key, value);
      const { name: _name, packed, ...facts } = entry;
      return { user, ...namesOf(key), createdAtMs, ...facts, sizeBytes: packed.length };
    }
    case findFamilies.storeWrites: {
      const { note, seenAtMs } = decodeNote(key, value);
      return { partition, seenAtMs, ...note };
    }
    case vectorFamilies.waiting:
      return { partition, ...namesOf(key) };
    case vectorFamilies.vectors:
      return { partition, ...namesOf(key), ...decodeHead(value), dimensions: decodeNumbers(value).length };
    default:
      return undefined;
  }
}
