/** The entries of the index: what is stored of a document, a task and a message. */
import type { DocumentRecord } from '../datastore/model.js';
import { msOf } from '../datastore/documents/times.js';
import type { Message } from '../messaging/model.js';
import type { Task } from '../workspaces/model.js';
import type { EntryFacts } from './model.js';
import { packMessage, packText } from './segments/packed-terms.js';
import type { WaitingEntry } from './segments/segment.js';
import { documentText } from './text/document-text.js';
import { messageText, taskText } from './text/task-text.js';

/** Null if the document is not to be found by its words. */
export function documentEntry(record: DocumentRecord): WaitingEntry | null {
  return record.indexed === false
    ? null
    : { ...documentFacts(record), packed: packText(documentText(record)) };
}

export function documentFacts(record: DocumentRecord): EntryFacts {
  return {
    name: { kind: 'data', collection: record.namespace, id: record.key },
    version: record.version,
    author: record.updatedByAgent,
    timeMs: msOf(record.updatedAt),
    expiresAtMs: record.expiresAt === null ? null : Math.max(1, msOf(record.expiresAt)),
  };
}

export function taskEntry(projectId: string, task: Task): WaitingEntry {
  return { ...taskFacts(projectId, task), packed: packText(taskText(task)) };
}

/** The agent that holds the task, or held it last, is its author. */
export function taskFacts(projectId: string, task: Task): EntryFacts {
  return {
    name: { kind: 'tasks', collection: projectId, id: task.id },
    version: task.version,
    author: task.claimed_by,
    timeMs: Date.parse(task.updated_at),
    expiresAtMs: null,
  };
}

/** `expiresAtMs` is the end of the time for which rooms keep messages. */
export function messageEntry(message: Message, expiresAtMs: number | null): WaitingEntry {
  return {
    name: { kind: 'messages', collection: message.roomId, id: message.id },
    version: 1,
    author: message.from,
    timeMs: message.tsMs,
    expiresAtMs,
    packed: packMessage(messageText(message.body)),
  };
}
