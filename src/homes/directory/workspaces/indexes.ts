/** The index rows of each record of workspaces. Their value is always the record's id, as in the seed. */
import { type Index, IndexedFamily } from '../indexed-family.js';
import {
  type Entity,
  type Project,
  type Task,
  type WorkSession,
  type Workspace,
  heldStatuses,
  holdsSlot,
} from '../../../workspaces/model.js';
import {
  activeSlot,
  bucketOf,
  buckets,
  indexKey,
  indexedText,
  readyKey,
  recordKey,
  wholeLine,
} from './keys.js';
import { encodeJson } from './rows.js';

export const workspaceRecords = deletableRecords<Workspace>(
  'workspace',
  'owner',
  ({ owner_id }) => owner_id,
  ({ project_path }) => project_path,
);

export const projectRecords = deletableRecords<Project>(
  'project',
  'workspace',
  ({ workspace_id }) => workspace_id,
  ({ path }) => path,
);

export const sessionRecords = new IndexedFamily<WorkSession>({
  family: buckets.sessions,
  keyOf: ({ id }) => recordKey('session', id),
  encode: encodeJson,
  indexes: [
    ({ id, project_id }: WorkSession) => indexKey('session', 'project', project_id, id),
    ({ id, project_id, status }: WorkSession) => indexKey('session', 'status', project_id, status, id),
    ({ project_id, status }: WorkSession) => (holdsSlot(status) ? activeSlot(project_id) : undefined),
  ].map((keysOf) => index(keysOf, ({ id }) => id)),
});

/** The part of a task's place that does not change. */
export interface TaskHome {
  projectId: string;
  ownerId: string;
}

/** A task with the other data that its index rows depend on. */
export interface PlacedTask extends TaskHome {
  task: Task;
  /** The unfinished tasks that a pending task depends on. */
  waitsFor: readonly string[];
}

export const taskRecords = new IndexedFamily<PlacedTask>({
  family: buckets.tasks,
  keyOf: ({ task }) => recordKey('task', task.id),
  encode: ({ task }) => encodeJson(task),
  indexes: [
    {
      ...taskIndex(({ task }) => indexKey('task', 'session', task.session_id, task.id)),
      basisOf: ({ task }) => task.session_id,
    },
    {
      ...taskIndex(({ task }) => indexKey('task', 'status', task.session_id, task.status, task.id)),
      basisOf: ({ task }) => task.status,
    },
    {
      ...taskIndex(({ task, ownerId }) => indexKey('task', 'owner', ownerId, task.status, task.id)),
      basisOf: ({ task }) => task.status,
    },
    {
      ...taskIndex(({ task, projectId }) => indexKey('task', 'project', projectId, task.status, task.id)),
      basisOf: ({ task }) => task.status,
    },
    taskIndex(({ task, ownerId }) =>
      task.labels.map((label) => indexKey('task', 'label', ownerId, label, task.status, task.id)),
    ),
    taskIndex((placed) => (isReady(placed) ? readyKeys(placed) : undefined)),
    taskIndex(({ task, ownerId }) =>
      heldStatuses.includes(task.status) && task.claimed_by !== null
        ? indexKey('task', 'claimed', ownerId, indexedText(task.claimed_by), task.id)
        : undefined,
    ),
    {
      ...taskIndex(({ task, waitsFor }) => waitsFor.map((id) => indexKey('task', 'dependency', id, task.id))),
      basisOf: ({ waitsFor }) => waitsFor,
    },
  ],
});

function taskIndex(keysOf: Index<PlacedTask>['keysOf']): Index<PlacedTask> {
  return index(keysOf, ({ task }) => task.id);
}

function readyKeys({ task, projectId }: PlacedTask): string | readonly string[] {
  const whole = readyKey(task, projectId, wholeLine);
  return task.labels.length === 0
    ? whole
    : [whole, ...task.labels.map((label) => readyKey(task, projectId, label))];
}

/** Pending, its start time is reached, and no task that it depends on is unfinished. */
export function isReady({ task, waitsFor }: PlacedTask): boolean {
  return task.status === 'pending' && task.run_at === null && waitsFor.length === 0;
}

function deletableRecords<Kind extends Workspace | Project>(
  entity: Entity,
  parentType: string,
  parentOf: (record: Kind) => string,
  pathOf: (record: Kind) => string,
): IndexedFamily<Kind> {
  const key = (record: Kind, type: string, ...parts: string[]): string =>
    indexKey(entity, type, parentOf(record), ...parts, record.id);
  const live =
    (keyOf: (record: Kind) => string | undefined) =>
    (record: Kind): string | undefined =>
      record.deleted_at === null ? keyOf(record) : undefined;
  return new IndexedFamily<Kind>({
    family: bucketOf[entity],
    keyOf: ({ id }) => recordKey(entity, id),
    encode: encodeJson,
    indexes: [
      live((record) => key(record, parentType)),
      live((record) => key(record, 'status', record.status)),
      live((record) => key(record, 'name', record.name)),
      live((record) =>
        pathOf(record) === '' ? undefined : key(record, 'path', indexedText(pathOf(record))),
      ),
      (record: Kind) => (record.deleted_at === null ? undefined : key(record, 'deleted')),
    ].map((keysOf) => index(keysOf, ({ id }) => id)),
  });
}

function index<Placed>(keysOf: Index<Placed>['keysOf'], idOf: (placed: Placed) => string): Index<Placed> {
  return { family: buckets.indexes, keysOf, contentOf: (placed) => Buffer.from(idOf(placed)) };
}
