/** The rows of the search index for `stoa inspect`. The words of a block stay packed; its first word is in its key. */
import { namesOf } from '../datastore/rows.js';
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
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

export const findRows: RowDecoders = {
  [findFamilies.marks]: (key) => ({ ...partOf(key), ...markedName(key) }),
  [findFamilies.segments]: (key, value) => ({ ...partOf(key), ...decodeSegment(key, value) }),
  [findFamilies.catalogs]: (key, value) => ({ ...segmentOf(key), sizeBytes: value.length }),
  [findFamilies.facts]: (key, value) => ({ ...segmentOf(key), sizeBytes: value.length }),
  [findFamilies.dead]: (key, value) => ({ ...segmentOf(key), sizeBytes: value.length }),
  [findFamilies.blocks]: (key, value) => ({
    ...segmentOf(key),
    firstTerm: firstTermOf(key),
    sizeBytes: value.length,
  }),
  [findFamilies.entries]: (key, value) => {
    const { user, createdAtMs, entry } = decodeStoreEntry(key, value);
    const { name: _name, packed, ...facts } = entry;
    return { user, ...namesOf(key), createdAtMs, ...facts, sizeBytes: packed.length };
  },
  [findFamilies.storeWrites]: (key, value) => {
    const { note, seenAtMs } = decodeNote(key, value);
    return { ...partOf(key), seenAtMs, ...note };
  },
  [vectorFamilies.waiting]: (key) => ({ ...partOf(key), ...namesOf(key) }),
  [vectorFamilies.vectors]: (key, value) => ({
    ...partOf(key),
    ...namesOf(key),
    ...decodeHead(value),
    dimensions: decodeNumbers(value).length,
  }),
};

function partOf(key: Buffer): { partition: string } {
  return { partition: key.toString('hex', 0, partitionBytes) };
}

function segmentOf(key: Buffer): { partition: string; segment: number } {
  return { ...partOf(key), segment: key.readUIntBE(partitionBytes, segmentKeyBytes - partitionBytes) };
}
