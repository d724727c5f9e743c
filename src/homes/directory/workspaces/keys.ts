/** The seed's buckets and keys of workspaces, and further indexes by its convention. */
import { createHash } from 'node:crypto';
import type { Entity, Project, Task, WorkSession, Workspace } from '../../../workspaces/model.js';
import { holdsSlot } from '../../../workspaces/model.js';

/** Each is a bucket of the seed, but for the leases, which it does not have. */
export const buckets = {
  workspaces: 'workspaces/workspaces',
  projects: 'workspaces/projects',
  sessions: 'workspaces/sessions',
  tasks: 'workspaces/tasks',
  indexes: 'workspaces/indexes',
  metadata: 'workspaces/metadata',
  leases: 'workspaces/leases',
} as const;

export const workspacesFamilies: readonly string[] = Object.values(buckets);

export const bucketOf = {
  workspace: buckets.workspaces,
  project: buckets.projects,
  session: buckets.sessions,
  task: buckets.tasks,
} as const satisfies Record<Entity, string>;

/** A longer part would make a key longer than the engines take; its hash stands for it. */
const indexedPartBytesMax = 600;
const priorityOffset = 1_000_000;

export function recordKey(entity: Entity, id: string): Buffer {
  return Buffer.from(`${entity}:${id}`);
}

export function leaseKey(taskId: string): Buffer {
  return Buffer.from(`lease:${taskId}`);
}

export function metaKey(...parts: string[]): Buffer {
  return Buffer.from(`meta:${parts.map(escapePart).join(':')}`);
}

/** `idx:{entity}:{type}:{value}:{id}`; a value of several parts has several. */
export function indexKey(entity: Entity, type: string, ...parts: string[]): string {
  let key = `idx:${entity}:${type}`;
  for (const part of parts) key += `:${escapePart(part)}`;
  return key;
}

/** What every key of such an index begins with. */
export function indexPrefix(entity: Entity, type: string, ...parts: string[]): Buffer {
  return Buffer.from(`${indexKey(entity, type, ...parts)}:`);
}

/** Without this, owner `u` would list the rows of owner `u:1`. Ids without `:` and `%` look as in the seed. */
export function escapePart(part: string): string {
  return part.includes(':') || part.includes('%') ? part.replaceAll('%', '%25').replaceAll(':', '%3A') : part;
}

export function unescapePart(part: string): string {
  return part.replaceAll('%3A', ':').replaceAll('%25', '%');
}

/** A text as part of an index key: itself, or its hash where it is too long. */
export function indexedText(text: string): string {
  if (Buffer.byteLength(escapePart(text)) <= indexedPartBytesMax) return text;
  return `#${createHash('sha256').update(text).digest('hex')}`;
}

/** Sorts as `readyOrder` does: the highest priority first, then the oldest. The id comes after it. */
export function readyRank(task: Task): string {
  const urgency = (priorityOffset - task.priority).toString(16).padStart(6, '0');
  return `${urgency}-${Date.parse(task.created_at).toString(16).padStart(12, '0')}`;
}

export function readyKey(task: Task, projectId: string): string {
  return indexKey('task', 'ready', projectId, readyRank(task), task.id);
}

export function readyEntry(task: Task, projectId: string): { key: string; taskId: string } {
  return { key: readyKey(task, projectId), taskId: task.id };
}

// The index entries that a record has, as things stand: what is written, and what the doctor expects.

export function workspaceIndexes(workspace: Workspace): string[] {
  return deletableIndexes('workspace', 'owner', workspace.owner_id, workspace, workspace.project_path);
}

export function projectIndexes(project: Project): string[] {
  return deletableIndexes('project', 'workspace', project.workspace_id, project, project.path);
}

function deletableIndexes(
  entity: Entity,
  parentType: string,
  parent: string,
  record: Workspace | Project,
  path: string,
): string[] {
  const { id, name, status } = record;
  if (record.deleted_at !== null) return [indexKey(entity, 'deleted', parent, id)];
  const keys = [
    indexKey(entity, parentType, parent, id),
    indexKey(entity, 'status', parent, status, id),
    indexKey(entity, 'name', parent, name, id),
  ];
  if (path !== '') keys.push(indexKey(entity, 'path', parent, indexedText(path), id));
  return keys;
}

export function sessionIndexes(session: WorkSession): string[] {
  const { id, project_id: project, status } = session;
  const keys = [
    indexKey('session', 'project', project, id),
    indexKey('session', 'status', project, status, id),
  ];
  if (holdsSlot(status)) keys.push(activeSlot(project));
  return keys;
}

/** The only place of the active session's id: it is the value, not in the key. */
export function activeSlot(projectId: string): string {
  return indexKey('session', 'active', projectId);
}

/** Where a task stands: what its index entries depend on beside the task itself. */
export interface TaskPlace {
  projectId: string;
  ownerId: string;
  /** Pending, and nothing that it depends on is unfinished. */
  ready: boolean;
}

export function taskIndexes(task: Task, place: TaskPlace): string[] {
  return [indexKey('task', 'session', task.session_id, task.id), ...movingTaskIndexes(task, place)];
}

/** Those that change with what becomes of the task. */
export function movingTaskIndexes(task: Task, { projectId, ownerId, ready }: TaskPlace): string[] {
  const { id, session_id: session, status } = task;
  const keys = [indexKey('task', 'status', session, status, id)];
  if (ready) keys.push(readyKey(task, projectId));
  if (status === 'running' && task.claimed_by !== null)
    keys.push(indexKey('task', 'claimed', ownerId, indexedText(task.claimed_by), id));
  return keys;
}
