/** Reads the records behind results: only what still exists, with its text. */
import { StoaError } from '../core/errors.js';
import type { DocumentRecord } from '../datastore/model.js';
import type { DocumentReads } from '../datastore/port.js';
import type { MessagingPort } from '../messaging/port.js';
import type { WorkspacesPort } from '../workspaces/port.js';
import type { EntryName, EntryText } from './model.js';
import { documentText } from './text/document-text.js';
import { messageText, taskText } from './text/task-text.js';

/** The record of a result. */
export interface FoundRecord {
  readonly text: EntryText;
  /** The document, if the result is one. */
  readonly document: DocumentRecord | null;
  readonly version: number;
  readonly timeMs: number;
  readonly author: string | null;
  /** The name of the room, if the result is a message. */
  readonly room: string | null;
}

export interface RecordPorts {
  readonly data: Pick<DocumentReads, 'getMany'>;
  readonly workspaces: Pick<WorkspacesPort, 'getTask'>;
  readonly messaging: Pick<MessagingPort, 'room' | 'message'>;
}

/** In the order of the names; undefined for a record that was removed since the search. */
async function readRecords(
  { data, workspaces, messaging }: RecordPorts,
  user: string,
  names: readonly EntryName[],
): Promise<(FoundRecord | undefined)[]> {
  const documents = new Map<EntryName, DocumentRecord>();
  const ofData = names.filter(({ kind }) => kind === 'data');
  for (const namespace of new Set(ofData.map(({ collection }) => collection))) {
    const wanted = ofData.filter(({ collection }) => collection === namespace);
    const found = await data.getMany(
      { user, namespace },
      wanted.map(({ id }) => id),
    );
    for (const [index, record] of found.entries())
      if (record !== undefined) documents.set(wanted[index] as EntryName, record);
  }
  return Promise.all(
    names.map(async (name) => {
      switch (name.kind) {
        case 'data': {
          const document = documents.get(name);
          return document === undefined ? undefined : foundDocument(document);
        }
        case 'tasks':
          return foundTask(workspaces, user, name.id);
        default:
          return foundMessage(messaging, name);
      }
    }),
  );
}

/** The first step reads at most this many values of the largest size. */
const stepMin = 16;
const stepMax = 100;

/** Reads the records of results in steps, so that large values are not in memory all at once. */
export class RecordSteps {
  readonly #ports: RecordPorts;
  readonly #bytesMax: number;
  #step = stepMin;
  #largest = 1;

  /** `bytesMax` bounds the values of one step, after the first one. */
  constructor(ports: RecordPorts, bytesMax: number) {
    this.#ports = ports;
    this.#bytesMax = bytesMax;
  }

  /** In the order of the results; undefined for a record that was removed since the search. */
  async *of<Result extends { readonly name: EntryName }>(
    user: string,
    results: readonly Result[],
  ): AsyncGenerator<readonly [Result, FoundRecord | undefined]> {
    for (let at = 0; at < results.length;) {
      const part = results.slice(at, at + this.#step);
      const names = part.map(({ name }) => name);
      for (const [index, record] of (await readRecords(this.#ports, user, names)).entries()) {
        this.#largest = Math.max(this.#largest, valueBytes(record));
        yield [part[index] as Result, record];
      }
      at += part.length;
      this.#step = Math.min(stepMax, Math.max(stepMin, Math.floor(this.#bytesMax / this.#largest)));
    }
  }
}

export function valueBytes(record: FoundRecord | undefined): number {
  return record?.document?.valueJson.length ?? 0;
}

export function foundDocument(document: DocumentRecord): FoundRecord {
  return {
    text: documentText(document),
    document,
    version: document.version,
    timeMs: Date.parse(document.updatedAt),
    author: document.updatedByAgent,
    room: null,
  };
}

async function foundTask(
  workspaces: RecordPorts['workspaces'],
  user: string,
  id: string,
): Promise<FoundRecord | undefined> {
  try {
    const task = await workspaces.getTask(user, id);
    return {
      text: taskText(task),
      document: null,
      version: task.version,
      timeMs: Date.parse(task.updated_at),
      author: task.claimed_by,
      room: null,
    };
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

async function foundMessage(
  messaging: RecordPorts['messaging'],
  { collection, id }: EntryName,
): Promise<FoundRecord | undefined> {
  const room = await messaging.room(collection);
  const message = room === undefined || room.isPrivate ? undefined : await messaging.message(room, id);
  if (message === undefined) return undefined;
  return {
    text: messageText(message.body),
    document: null,
    version: 1,
    timeMs: message.tsMs,
    author: message.from,
    room: room?.name ?? null,
  };
}
