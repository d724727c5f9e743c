/** The stored records of workspaces, their leases and their counters. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Entity, Project, Task, TaskLease, WorkSession, Workspace } from '../../../workspaces/model.js';
import { bucketOf, buckets, leaseKey, metaKey, recordKey } from './keys.js';

export interface Records {
  workspace: Workspace;
  project: Project;
  session: WorkSession;
  task: Task;
}

/** A lease with its timer. A heartbeat does not change the timer. */
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
  // Only the families of `indexes.ts` write into this bucket.
  return JSON.parse(value.toString()) as Records[Kind];
}

export function encodeJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

export function dropIndex(tx: Transaction, key: string): void {
  tx.delete(buckets.indexes, Buffer.from(key));
}

export function readLease(reader: Reader, taskId: string): StoredLease | undefined {
  const value = reader.get(buckets.leases, leaseKey(taskId));
  // Only writeLease writes into this family.
  return value === undefined ? undefined : (JSON.parse(value.toString()) as StoredLease);
}

export function writeLease(tx: Transaction, taskId: string, lease: StoredLease): void {
  tx.put(buckets.leases, leaseKey(taskId), encodeJson(lease));
}

export function removeLease(tx: Transaction, taskId: string): void {
  tx.delete(buckets.leases, leaseKey(taskId));
}

/** The number of open tasks of a project or session. It is stored, not counted each time. */
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
