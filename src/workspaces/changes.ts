/** What workspaces announce in the change feed, the same on every home. */
import type { Change } from '../core/change.js';
import type { Project, Task, TaskStatus, WorkSession, Workspace } from './model.js';

export type HolderEvent = 'created' | 'updated' | 'deleted' | 'restored' | 'purged';
export type SessionEvent = 'created' | 'updated' | 'deleted';

export function workspaceChanged(event: HolderEvent, workspace: Workspace): Change {
  const version = event === 'purged' ? null : workspace.version;
  return changed(`workspace.${event}`, workspace.id, workspace.owner_id, version);
}

export function projectChanged(event: HolderEvent, project: Project, owner: string): Change {
  const version = event === 'purged' ? null : project.version;
  return changed(`project.${event}`, project.id, owner, version, { workspace: project.workspace_id });
}

export function sessionChanged(event: SessionEvent, session: WorkSession, owner: string): Change {
  const version = event === 'deleted' ? null : session.version;
  return changed(`session.${event}`, session.id, owner, version, { project: session.project_id });
}

export function sessionMoved(
  before: WorkSession,
  after: WorkSession,
  owner: string,
  reason: string | undefined,
): Change {
  const facts = { from: before.status, to: after.status, project: after.project_id };
  return changed('session.status_changed', after.id, owner, after.version, {
    ...facts,
    ...(reason !== undefined && { reason }),
  });
}

/** Where a task is: its project, and the owner of the workspace. */
export interface TaskPlace {
  readonly projectId: string;
  readonly ownerId: string;
}

/** What happened to a task, in the names of its changes. */
export type TaskEvent =
  | Exclude<TaskStatus, 'pending'>
  | 'created'
  | 'updated'
  | 'deleted'
  | 'claimed'
  | 'ready'
  | 'retried'
  | 'returned'
  | 'answered';

export function taskChanged(
  event: TaskEvent,
  task: Task,
  { projectId, ownerId }: TaskPlace,
  facts: NonNullable<Change['facts']> = {},
): Change {
  const version = event === 'deleted' ? null : task.version;
  const place = { project: projectId, session: task.session_id };
  return changed(`task.${event}`, task.id, ownerId, version, { ...place, ...facts });
}

/** The last task that it waited for is completed. */
export function taskReady(
  task: { readonly id: string; readonly version: number },
  { projectId, ownerId }: TaskPlace,
): Change {
  return changed('task.ready', task.id, ownerId, task.version, { project: projectId });
}

/** A task that it depends on will never be completed. */
export function taskBlocked(task: Task, { projectId, ownerId }: TaskPlace, dependency: string): Change {
  const facts = { from: 'pending', to: 'cancelled', project: projectId, dependency };
  return changed('task.cancelled', task.id, ownerId, task.version, facts);
}

/** With the facts of other changes of the record, so that readers of a project find it. */
export function recordImported(
  noun: 'workspace' | 'project' | 'session' | 'task',
  { id, version, user }: { readonly id: string; readonly version: number; readonly user: string },
  facts: NonNullable<Change['facts']> = {},
): Change {
  return changed(`${noun}.imported`, id, user, version, facts);
}

function changed(
  kind: string,
  id: string,
  user: string,
  version: number | null,
  facts?: Change['facts'],
): Change {
  return { domain: 'workspaces', kind, id, user, version, ...(facts !== undefined && { facts }) };
}
