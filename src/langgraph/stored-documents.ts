/** The documents of the checkpoints' namespace: their types, checks of what was read, and batches of writes. */
import { StoaError } from '../core/errors.js';
import type { Line } from './checkpoint-keys.js';
import { type Packed, furtherKeys } from './packing.js';

export interface StoredCheckpoint extends Line {
  id: string;
  parent: string | null;
  checkpoint: Packed;
  metadata: Packed;
  /** By channel: the id of the checkpoint in which its value was new. Long values have no place. */
  places: Record<string, string>;
}

/** The short values that are new in a checkpoint, by channel. */
interface StoredValues {
  values: Record<string, Packed>;
}

export type StoredWrite = Packed & { channel: string; place: number };

interface StoredWrites {
  task: string;
  writes: StoredWrite[];
}

/**
 * The documents of the namespace. A text is a further piece of a value that was too long for one document.
 */
export type Stored = StoredCheckpoint | StoredValues | StoredWrites | Packed | string;

export const batchKeysMax = 1_000;
/** Half of the server's limit; more is sent in several requests. */
const batchBytesMax = 8 * 1024 * 1024;

export function* batchesOf(documents: Readonly<Record<string, Stored>>): Generator<Record<string, Stored>> {
  let batch: [string, Stored][] = [];
  let bytes = 0;
  for (const [key, stored] of Object.entries(documents)) {
    const added = new TextEncoder().encode(JSON.stringify(stored)).length;
    if (batch.length > 0 && (batch.length >= batchKeysMax || bytes + added > batchBytesMax)) {
      yield Object.fromEntries(batch);
      [batch, bytes] = [[], 0];
    }
    batch.push([key, stored]);
    bytes += added;
  }
  yield Object.fromEntries(batch);
}

/** The characters of its long parts. */
export function charactersOf(stored: Stored): number {
  if (typeof stored === 'string') return stored.length;
  if ('checkpoint' in stored) return stored.checkpoint.data.length + stored.metadata.data.length;
  const packed =
    'values' in stored ? Object.values(stored.values) : 'writes' in stored ? stored.writes : [stored];
  return packed.reduce((sum, { data }) => sum + data.length, 0);
}

export function furtherPieces(
  key: string,
  packed: Packed,
  pieces: Readonly<Record<string, Stored>>,
): string[] {
  return furtherKeys(key, packed).map((further) => {
    const piece = pieces[further];
    if (typeof piece !== 'string') throw damaged(further);
    return piece;
  });
}

export function checkpointIn(stored: Stored): StoredCheckpoint {
  if (typeof stored === 'string' || !('checkpoint' in stored)) throw damaged('a checkpoint');
  return stored;
}

export function packedIn(stored: Stored): Packed {
  if (typeof stored === 'string' || !('data' in stored)) throw damaged('a channel value');
  return stored;
}

export function newValuesIn(stored: Stored): Record<string, Packed> {
  if (typeof stored === 'string' || !('values' in stored)) throw damaged('the values of a checkpoint');
  return stored.values;
}

export function writesIn(stored: Stored): StoredWrites {
  if (typeof stored === 'string' || !('writes' in stored)) throw damaged('the writes of a task');
  return stored;
}

function damaged(what: string): StoaError {
  return new StoaError(
    'invalid_data',
    `The namespace of the checkpoints contains a document that is not ${what}.`,
    { fix: 'Use a separate namespace for the checkpointer.' },
  );
}
