/**
 * The writes of tasks. The short writes of a task are one document, or several if they are many. Each long one has its
 * own, and so has each error and interrupt, because these are replaced.
 */
import {
  type CheckpointPendingWrite,
  type PendingWrite,
  type SerializerProtocol,
  WRITES_IDX_MAP,
} from '@langchain/langgraph-checkpoint';
import { type Line, writesPrefix } from './checkpoint-keys.js';
import type { Documents } from './in-process.js';
import { pathPrefix } from './keys.js';
import { isShort, packWhole, sharedCharacters, sharedCharactersMax, split, unpack } from './packing.js';
import type { DocumentWrite, SharedWrites } from './shared-writes.js';
import { type Stored, type StoredWrite, furtherPieces, writesIn } from './stored-documents.js';

export class PendingWrites {
  readonly #data: Documents<Stored>;
  readonly #requests: SharedWrites;
  readonly #serde: SerializerProtocol;

  constructor(data: Documents<Stored>, requests: SharedWrites, serde: SerializerProtocol) {
    this.#data = data;
    this.#requests = requests;
    this.#serde = serde;
  }

  /**
   * The first write of a task is kept, so that running the task again changes nothing; errors and interrupts are
   * replaced.
   */
  async put(line: Line, id: string, task: string, writes: readonly PendingWrite[]): Promise<void> {
    const prefix = `${writesPrefix(line, id)}${pathPrefix([task])}`;
    let packed = await Promise.all(
      writes.map(async ([channel, value], index): Promise<StoredWrite> => {
        const place = Object.hasOwn(WRITES_IDX_MAP, channel) ? (WRITES_IDX_MAP[channel] ?? index) : index;
        return { place, channel, ...packWhole(...(await this.#serde.dumpsTyped(value))) };
      }),
    );
    let isWritten = await this.#requests.soon(documentsOf(prefix, task, packed, true));
    while (!isWritten) {
      const there = new Set((await this.#read(prefix)).map(({ place }) => place));
      const left = packed.filter(({ place }) => !isKept(place) || !there.has(place));
      if (left.length === 0) return;
      // If none was there, the server has no commits, or they do not fit into one.
      isWritten = await this.#requests.now(documentsOf(prefix, task, left, left.length < packed.length));
      packed = left;
    }
  }

  /** Of all tasks of a checkpoint, in the order of each task. */
  async load(line: Line, id: string): Promise<CheckpointPendingWrite[]> {
    const found = await this.#read(writesPrefix(line, id));
    return Promise.all(
      found.map(
        async ({ task, channel, type, bytes }) =>
          [task, channel, await this.#serde.loadsTyped(type, bytes)] as CheckpointPendingWrite,
      ),
    );
  }

  async #read(prefix: string) {
    const documents = await this.#data.getAll({ prefix });
    return Object.entries(documents)
      .flatMap(([key, stored]) => {
        if (typeof stored === 'string') return [];
        const { task, writes } = writesIn(stored);
        return writes.map((write) => ({
          task,
          channel: write.channel,
          place: write.place,
          type: write.type,
          bytes: unpack(write, furtherPieces(key, write, documents)),
          // A document has the place of its first write at the end of its key.
          order: key.slice(0, -placeDigits) + placeText(write.place),
        }));
      })
      .toSorted((a, b) => (a.order < b.order ? -1 : 1));
  }
}

/** `creates`: refused if a write that is kept exists already. */
function documentsOf(
  prefix: string,
  task: string,
  writes: readonly StoredWrite[],
  creates: boolean,
): DocumentWrite {
  const documents: Record<string, Stored> = {};
  let shared: StoredWrite[] = [];
  let characters = 0;
  for (const write of writes) {
    const key = prefix + placeText(write.place);
    if (isKept(write.place) && isShort(write)) {
      characters += sharedCharacters(write.channel, write);
      if (shared.length === 0 || characters > sharedCharactersMax) {
        documents[key] = { task, writes: (shared = []) };
        characters = sharedCharacters(write.channel, write);
      }
      shared.push(write);
      continue;
    }
    const { [key]: first, ...further } = split(key, write);
    // split puts the first piece at the key it was given.
    Object.assign(documents, { [key]: { task, writes: [first] } }, further);
  }
  const kept = writes.filter(({ place }) => isKept(place)).map(({ place }) => prefix + placeText(place));
  return { documents, created: new Set(creates ? kept.filter((key) => Object.hasOwn(documents, key)) : []) };
}

/** Errors and interrupts have special places, below zero. */
function isKept(place: number): boolean {
  return place >= 0;
}

const placeDigits = 8;

/** Texts that sort as the numbers do, from the special places below zero on. */
function placeText(place: number): string {
  return String(place + 100).padStart(placeDigits, '0');
}
