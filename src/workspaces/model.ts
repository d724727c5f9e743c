/** The records of workspaces, and the words of their states. */
import type { z } from 'zod';
import type * as records from './records.js';

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };
export type JsonObject = { [name: string]: JsonValue };

export const workspaceStatuses = ['active', 'inactive', 'archived'] as const;
export type WorkspaceStatus = (typeof workspaceStatuses)[number];

export const sessionStatuses = ['pending', 'active', 'idle', 'ending', 'ended', 'error'] as const;
export type SessionStatus = (typeof sessionStatuses)[number];

export const taskStatuses = [
  'pending',
  'running',
  'input_required',
  'completed',
  'failed',
  'cancelled',
] as const;
export type TaskStatus = (typeof taskStatuses)[number];

export type Entity = 'workspace' | 'project' | 'session' | 'task';

export type Workspace = z.output<typeof records.workspaceSchema>;
export type Project = z.output<typeof records.projectSchema>;
export type WorkSession = z.output<typeof records.sessionSchema>;
export type Task = z.output<typeof records.taskSchema>;
/** A task in a list over several projects. */
export type ListedTask = z.output<typeof records.listedTaskSchema>;
export type TaskRetry = NonNullable<Task['retry']>;
/** A task and its lease as callers see them. */
export type Claim = z.output<typeof records.claimSchema>;
export type ClaimLease = Claim['lease'];

/** A claim on a task, kept apart from it: a heartbeat changes neither its version nor its times. */
export interface TaskLease {
  /** Null when no agent holds the task. The fence stays, so that the next one is higher. */
  holder: string | null;
  fence: number;
  leaseSeconds: number;
  renewedAtMs: number;
  expiresAtMs: number;
  /** A digest of the write that ended the task, so that the same write can be repeated without an error. */
  resultDigest: string | null;
}

/** The statuses in which an agent holds the task. */
export const heldStatuses: readonly TaskStatus[] = ['running', 'input_required'];

/** Counted in `active_tasks`. */
export function isOpen(status: TaskStatus): boolean {
  return status === 'pending' || status === 'running' || status === 'input_required';
}

/** Holds the project's single active slot. */
export function holdsSlot(status: SessionStatus): boolean {
  return status === 'active' || status === 'idle';
}
