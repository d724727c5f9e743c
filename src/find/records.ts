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
export async function readRecords(
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
