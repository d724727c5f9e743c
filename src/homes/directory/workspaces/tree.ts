/** Finds the workspace of a record, and with it the owner. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Project, Task, WorkSession, Workspace } from '../../../workspaces/model.js';
import type { Owner } from '../../../workspaces/port.js';
import { notFound } from '../../../workspaces/rules/workspaces.js';
import { workspaceRecords } from './indexes.js';
import { addOpenTasks, readRecord } from './rows.js';

export interface ProjectPath {
  workspace: Workspace;
  project: Project;
}

export interface SessionPath extends ProjectPath {
  session: WorkSession;
}

export interface TaskPath extends SessionPath {
  task: Task;
}

/** With `deleted`, a deleted record is found too. */
export function findWorkspace(reader: Reader, owner: Owner, id: string, deleted = false): Workspace {
  const workspace = readRecord(reader, 'workspace', id);
  if (workspace === undefined || !isOwner(owner, workspace) || (workspace.deleted_at !== null && !deleted))
    throw notFound('workspace', id);
  return workspace;
}

/** A project of a deleted workspace is always hidden. */
export function findProject(reader: Reader, owner: Owner, id: string, deleted = false): ProjectPath {
  const project = readRecord(reader, 'project', id);
  const workspace = project === undefined ? undefined : readRecord(reader, 'workspace', project.workspace_id);
  if (project === undefined || workspace === undefined || !isOwner(owner, workspace))
    throw notFound('project', id);
  if (workspace.deleted_at !== null || (project.deleted_at !== null && !deleted))
    throw notFound('project', id);
  return { workspace, project };
}

export function findSession(reader: Reader, owner: Owner, id: string): SessionPath {
  const path = sessionPath(reader, id);
  if (path === undefined || !isOwner(owner, path.workspace) || isHidden(path)) throw notFound('session', id);
  return path;
}

export function findTask(reader: Reader, owner: Owner, id: string): TaskPath {
  const task = readRecord(reader, 'task', id);
  const path = task === undefined ? undefined : sessionPath(reader, task.session_id);
  if (task === undefined || path === undefined || !isOwner(owner, path.workspace) || isHidden(path))
    throw notFound('task', id);
  return { ...path, task };
}

/** The project and workspace of a session, hidden or not. Undefined while it is being purged. */
export function sessionPath(reader: Reader, id: string): SessionPath | undefined {
  const session = readRecord(reader, 'session', id);
  const project = session === undefined ? undefined : readRecord(reader, 'project', session.project_id);
  const workspace = project === undefined ? undefined : readRecord(reader, 'workspace', project.workspace_id);
  return session === undefined || project === undefined || workspace === undefined
    ? undefined
    : { session, project, workspace };
}

/**
 * Counts a change of open tasks in the session, the project, and the workspace while the project is not
 * deleted. `workspace` is its current state.
 */
export function countOpenTasks(
  tx: Transaction,
  path: ProjectPath & { sessionId: string },
  difference: number,
): void {
  if (difference === 0) return;
  addOpenTasks(tx, 'session', path.sessionId, difference);
  addOpenTasks(tx, 'project', path.project.id, difference);
  if (path.project.deleted_at === null) writeActiveTasks(tx, path.workspace, difference);
}

/** The count is derived, so the version and updated_at do not change. */
export function countActiveTasks(tx: Transaction, workspaceId: string, difference: number): void {
  const workspace = difference === 0 ? undefined : readRecord(tx, 'workspace', workspaceId);
  if (workspace !== undefined) writeActiveTasks(tx, workspace, difference);
}

function writeActiveTasks(tx: Transaction, workspace: Workspace, difference: number): void {
  workspaceRecords.rewrite(tx, { ...workspace, active_tasks: workspace.active_tasks + difference });
}

function isOwner(owner: Owner, workspace: Workspace): boolean {
  return owner === null || owner === workspace.owner_id;
}

export function isHidden({ workspace, project }: ProjectPath): boolean {
  return workspace.deleted_at !== null || project.deleted_at !== null;
}
