/** The records of workspaces: the seed's fields, snake_case in storage and in answers. */

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

/** What every record has. Times are ISO 8601 in UTC with `Z`. */
interface Versioned {
  id: string;
  created_at: string;
  updated_at: string;
  version: number;
}

/** Deleted softly: hidden, and kept until it is restored or purged. */
interface Deletable extends Versioned {
  deleted_at: string | null;
}

export interface Workspace extends Deletable {
  name: string;
  project_path: string;
  status: WorkspaceStatus;
  owner_id: string;
  /** Sealed where it is stored, a mask where it is answered. */
  claude_key: string | null;
  /** Tasks of the live projects that have not ended; derived, never set. */
  active_tasks: number;
}

export interface Project extends Deletable {
  workspace_id: string;
  name: string;
  path: string;
  description: string;
  git_url: string;
  git_branch: string;
  language: string;
  status: WorkspaceStatus;
  /** Secrets in it are sealed where it is stored, masks where it is answered. */
  config: JsonObject;
  git_info: JsonObject;
}

export interface WorkSession extends Versioned {
  project_id: string;
  agent_id: string | null;
  process_id: number | null;
  status: SessionStatus;
  started_at: string | null;
  ended_at: string | null;
  last_active: string;
  metadata: JsonObject;
  command_count: number;
  bytes_in: number;
  bytes_out: number;
  error_count: number;
  /** Seconds; 0 means no limit. */
  max_idle_time: number;
  /** Seconds; 0 means no limit. */
  max_lifetime: number;
}

/** How long a task waits after a failed attempt: the base, doubled with each attempt, up to the maximum. */
export interface TaskRetry {
  base_seconds: number;
  max_seconds: number;
}

export interface Task extends Versioned {
  session_id: string;
  command: string;
  status: TaskStatus;
  output: string | null;
  error: string | null;
  started_at: string | null;
  completed_at: string | null;
  bytes_in: number;
  bytes_out: number;
  /** Seconds from start to end. */
  duration: number | null;
  depends_on: string[];
  /** Higher ones are claimed first. */
  priority: number;
  claimed_by: string | null;
  /** Attempts that ended without a result. */
  attempts: number;
  max_attempts: number;
  /** Why it came back, or why it ended. */
  reason: string | null;
  /** What the task needs or belongs to; in the order of code points, each once. */
  labels: string[];
  /** The task is not ready before this time. Null as soon as the time is reached. */
  run_at: string | null;
  retry: TaskRetry | null;
  /** The last question of a holder to a person. It stays with its answer. */
  question: string | null;
  asked_at: string | null;
  /** If there is no answer by then, the task fails. */
  question_expires_at: string | null;
  answer: string | null;
  answered_at: string | null;
  answered_by: string | null;
}

/** A task in a list over several projects. */
export interface ListedTask extends Task {
  project_id: string;
  /** Null when no agent holds the task. */
  lease_expires_at: string | null;
}

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

/** A lease as callers see it. */
export interface ClaimLease {
  fence: number;
  expires_at: string;
}

export interface Claim {
  task: Task;
  lease: ClaimLease;
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
