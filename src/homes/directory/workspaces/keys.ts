/** The seed's buckets and keys of workspaces, and further indexes by its convention. */
import { createHash } from 'node:crypto';
import type { Entity, Task } from '../../../workspaces/model.js';

/** Each is a bucket of the seed, except the leases, which the seed does not have. */
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

/** A longer part would make the key too long for the engines, so its hash is used instead. */
const indexedPartBytesMax = 600;
const priorityOffset = 1_000_000;

export function recordKey(entity: Entity, id: string): Buffer {
  return Buffer.from(`${entity}:${id}`);
}

export function idOfKey(key: Buffer): string {
  return key.toString('utf8', key.indexOf(':') + 1);
}

const entityOfPrefix: Readonly<Record<string, Entity>> = {
  ws: 'workspace',
  proj: 'project',
  sess: 'session',
  task: 'task',
};

/** The kind of the record with this id, or undefined if the id has no known kind. */
export function entityOf(id: string): Entity | undefined {
  return entityOfPrefix[id.slice(0, id.indexOf('_'))];
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

/** The beginning of every key of such an index. */
export function indexPrefix(entity: Entity, type: string, ...parts: string[]): Buffer {
  return Buffer.from(`${indexKey(entity, type, ...parts)}:`);
}

/**
 * Without this, owner `u` would list the rows of owner `u:1`. Ids without `:` and `%` look as in the seed.
 */
function escapePart(part: string): string {
  return part.includes(':') || part.includes('%') ? part.replaceAll('%', '%25').replaceAll(':', '%3A') : part;
}

export function unescapePart(part: string): string {
  return part.replaceAll('%3A', ':').replaceAll('%25', '%');
}

/** A text as part of an index key: itself, or its hash if it is too long. */
export function indexedText(text: string): string {
  if (Buffer.byteLength(escapePart(text)) <= indexedPartBytesMax) return text;
  return `#${createHash('sha256').update(text).digest('hex')}`;
}

/**
 * The order in which ready tasks are claimed: the highest priority first, then the oldest. The id comes after
 * it.
 */
function readyRank(task: Task): string {
  const urgency = (priorityOffset - task.priority).toString(16).padStart(6, '0');
  return `${urgency}-${Date.parse(task.created_at).toString(16).padStart(12, '0')}`;
}

/** The queue of all ready tasks of a project. Each label has a separate queue beside it. */
export const wholeLine = '';

/** The labels are in the key, so that a claim can skip a task without reading it. They contain no comma. */
export function readyKey(task: Task, projectId: string, line: string): string {
  return indexKey('task', 'ready', projectId, line, readyRank(task), task.id, task.labels.join(','));
}

export function labelsOfReadyKey(key: string): string[] {
  const labels = key.slice(key.lastIndexOf(':') + 1);
  return labels === '' ? [] : labels.split(',');
}

/** The only place of the active session's id: it is the value, not in the key. */
export function activeSlot(projectId: string): string {
  return indexKey('session', 'active', projectId);
}
