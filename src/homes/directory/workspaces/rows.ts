/** Records of workspaces in the embedded store: read whole, written together with their index entries. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Entity, Project, Task, TaskLease, WorkSession, Workspace } from '../../../workspaces/model.js';
import {
  type TaskPlace,
  bucketOf,
  buckets,
  leaseKey,
  metaKey,
  movingTaskIndexes,
  projectIndexes,
  recordKey,
  sessionIndexes,
  taskIndexes,
  workspaceIndexes,
} from './keys.js';

export interface Records {
  workspace: Workspace;
  project: Project;
  session: WorkSession;
  task: Task;
}

/** A lease with the timer that will look after it. A heartbeat leaves the timer where it is. */
export interface StoredLease extends TaskLease {
  timerAtMs: number;
}

export function readRecord<Kind extends Entity>(
  reader: Reader,
  entity: Kind,
  id: string,
): Records[Kind] | undefined {
  const value = reader.get(bucketOf[entity], recordKey(entity, id));
  return value === undefined ? undefined : decodeRecord(entity, value);
}

export function decodeRecord<Kind extends Entity>(_entity: Kind, value: Buffer): Records[Kind] {
  // The bucket holds nothing but what writeRecord put there.
  return JSON.parse(value.toString()) as Records[Kind];
}

export function encodeJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

export function writeWorkspace(tx: Transaction, before: Workspace | undefined, after: Workspace): Workspace {
  tx.put(buckets.workspaces, recordKey('workspace', after.id), encodeJson(after));
  writeIndexes(tx, after.id, before === undefined ? [] : workspaceIndexes(before), workspaceIndexes(after));
  return after;
}

export function writeProject(tx: Transaction, before: Project | undefined, after: Project): Project {
  tx.put(buckets.projects, recordKey('project', after.id), encodeJson(after));
  writeIndexes(tx, after.id, before === undefined ? [] : projectIndexes(before), projectIndexes(after));
  return after;
}

export function writeSession(
  tx: Transaction,
  before: WorkSession | undefined,
  after: WorkSession,
): WorkSession {
  tx.put(buckets.sessions, recordKey('session', after.id), encodeJson(after));
  writeIndexes(tx, after.id, before === undefined ? [] : sessionIndexes(before), sessionIndexes(after));
  return after;
}

/** Counters and times that no index holds. */
export function rewriteSession(tx: Transaction, session: WorkSession): void {
  tx.put(buckets.sessions, recordKey('session', session.id), encodeJson(session));
}

export function writeTask(
  tx: Transaction,
  before: { task: Task; place: TaskPlace } | undefined,
  task: Task,
  place: TaskPlace,
): void {
  tx.put(buckets.tasks, recordKey('task', task.id), encodeJson(task));
  if (before === undefined) writeIndexes(tx, task.id, [], taskIndexes(task, place));
  else
    writeIndexes(tx, task.id, movingTaskIndexes(before.task, before.place), movingTaskIndexes(task, place));
}

export function removeRecord(tx: Transaction, entity: Entity, id: string, indexes: readonly string[]): void {
  tx.delete(bucketOf[entity], recordKey(entity, id));
  for (const key of indexes) tx.delete(buckets.indexes, Buffer.from(key));
}

/** The id is always the value: a reader of the seed finds it there. */
export function putIndex(tx: Transaction, key: string, id: string): void {
  tx.put(buckets.indexes, Buffer.from(key), Buffer.from(id));
}

export function dropIndex(tx: Transaction, key: string): void {
  tx.delete(buckets.indexes, Buffer.from(key));
}

export function readLease(reader: Reader, taskId: string): StoredLease | undefined {
  const value = reader.get(buckets.leases, leaseKey(taskId));
  // The family holds nothing but what writeLease put there.
  return value === undefined ? undefined : (JSON.parse(value.toString()) as StoredLease);
}

export function writeLease(tx: Transaction, taskId: string, lease: StoredLease): void {
  tx.put(buckets.leases, leaseKey(taskId), encodeJson(lease));
}

export function removeLease(tx: Transaction, taskId: string): void {
  tx.delete(buckets.leases, leaseKey(taskId));
}

/** How many open tasks a project or session has: kept, not counted. */
export function openTasks(reader: Reader, entity: 'project' | 'session', id: string): number {
  return Number(reader.get(buckets.metadata, openTasksKey(entity, id)) ?? 0);
}

export function addOpenTasks(
  tx: Transaction,
  entity: 'project' | 'session',
  id: string,
  difference: number,
): void {
  tx.put(
    buckets.metadata,
    openTasksKey(entity, id),
    Buffer.from(String(openTasks(tx, entity, id) + difference)),
  );
}

export function forgetOpenTasks(tx: Transaction, entity: 'project' | 'session', id: string): void {
  tx.delete(buckets.metadata, openTasksKey(entity, id));
}

export function openTasksKey(entity: 'project' | 'session', id: string): Buffer {
  return metaKey('open_tasks', entity, id);
}

function writeIndexes(
  tx: Transaction,
  id: string,
  before: readonly string[],
  after: readonly string[],
): void {
  const value = Buffer.from(id);
  for (const key of before) if (!after.includes(key)) dropIndex(tx, key);
  for (const key of after) if (!before.includes(key)) tx.put(buckets.indexes, Buffer.from(key), value);
}
