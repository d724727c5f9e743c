/** Workspaces and projects in the data directory: verbs over a transaction. */
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Project, Workspace } from '../../../workspaces/model.js';
import type { Owner, RecordChange, RecordRule } from '../../../workspaces/port.js';
import type { NewProject, NewWorkspace } from '../../../workspaces/schemas.js';
import {
  checkPurge,
  nameTaken,
  newProject,
  newWorkspace,
  takesName,
} from '../../../workspaces/rules/workspaces.js';
import { projectRecords, workspaceRecords } from './indexes.js';
import { buckets, indexPrefix } from './keys.js';
import { startPurge } from './bulk/purge.js';
import { openTasks } from './rows.js';
import { countActiveTasks, findProject, findWorkspace } from './tree.js';
import { projectChanged, workspaceChanged } from '../../../workspaces/changes.js';

export function createWorkspace(tx: Transaction, owner: string, id: string, input: NewWorkspace): Workspace {
  const workspace = newWorkspace(id, owner, input, tx.nowMs);
  checkNameFree(tx, 'workspace', owner, workspace.name, id);
  workspaceRecords.put(tx, undefined, workspace);
  tx.change(workspaceChanged('created', workspace));
  return workspace;
}

/** A deletion is one mark, which hides everything below it in this one commit. */
export function decideWorkspace(
  tx: Transaction,
  owner: Owner,
  id: string,
  event: RecordChange,
  rule: RecordRule<Workspace>,
): Workspace {
  const before = findWorkspace(tx, owner, id, event === 'restored');
  const after = rule(before, tx.nowMs);
  if (takesName(before, after)) checkNameFree(tx, 'workspace', after.owner_id, after.name, id);
  workspaceRecords.put(tx, before, after);
  tx.change(workspaceChanged(event, after));
  return after;
}

export function purgeWorkspace(
  tx: Transaction,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): void {
  const workspace = findWorkspace(tx, owner, id, true);
  checkPurge(workspace, ifVersion);
  workspaceRecords.remove(tx, workspace);
  tx.change(workspaceChanged('purged', workspace));
  startPurge(tx, { entity: 'workspace', id, ownerId: workspace.owner_id, projectId: '' });
}

export function createProject(
  tx: Transaction,
  owner: Owner,
  workspaceId: string,
  id: string,
  input: NewProject,
): Project {
  const workspace = findWorkspace(tx, owner, workspaceId);
  const project = newProject(id, workspaceId, input, tx.nowMs);
  checkNameFree(tx, 'project', workspaceId, project.name, id);
  projectRecords.put(tx, undefined, project);
  tx.change(projectChanged('created', project, workspace.owner_id));
  return project;
}

/** Also moves a project to another workspace of the same owner. */
export function decideProject(
  tx: Transaction,
  owner: Owner,
  id: string,
  event: RecordChange,
  rule: RecordRule<Project>,
): Project {
  const { project: before, workspace } = findProject(tx, owner, id, event === 'restored');
  const after = rule(before, tx.nowMs);
  const moves = after.workspace_id !== before.workspace_id;
  // Only workspaces of the owner are found, also if the operator moves the project.
  if (moves) findWorkspace(tx, workspace.owner_id, after.workspace_id);
  if (takesName(before, after)) checkNameFree(tx, 'project', after.workspace_id, after.name, id);
  if (moves || event !== 'updated') {
    const open = openTasks(tx, 'project', id);
    if (before.deleted_at === null) countActiveTasks(tx, before.workspace_id, -open);
    if (after.deleted_at === null) countActiveTasks(tx, after.workspace_id, open);
  }
  projectRecords.put(tx, before, after);
  tx.change(projectChanged(event, after, workspace.owner_id));
  return after;
}

export function purgeProject(tx: Transaction, owner: Owner, id: string, ifVersion: number | undefined): void {
  const { project, workspace } = findProject(tx, owner, id, true);
  checkPurge(project, ifVersion);
  projectRecords.remove(tx, project);
  tx.change(projectChanged('purged', project, workspace.owner_id));
  startPurge(tx, { entity: 'project', id, ownerId: workspace.owner_id, projectId: id });
}

/** A name is unique among the live ones of one parent. */
function checkNameFree(
  reader: Reader,
  entity: 'workspace' | 'project',
  parent: string,
  name: string,
  id: string,
): void {
  const taken = idOfName(reader, entity, parent, name);
  if (taken !== undefined && taken !== id) throw nameTaken(entity, name, taken);
}

/** The id of the record with this name that is not deleted. */
export function idOfName(
  reader: Reader,
  entity: 'workspace' | 'project',
  parent: string,
  name: string,
): string | undefined {
  for (const { value } of reader.range(buckets.indexes, {
    ...prefixRange(indexPrefix(entity, 'name', parent, name)),
    limit: 1,
  }))
    return value.toString();
  return undefined;
}
