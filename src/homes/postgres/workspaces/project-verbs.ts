/** Reads and writes of projects in PostgreSQL. */
import type { Project, Workspace } from '../../../workspaces/model.js';
import type { Owner, RecordChange, RecordRule } from '../../../workspaces/port.js';
import type { NewProject } from '../../../workspaces/schemas.js';
import { checkPurge, newProject, notFound, takesName } from '../../../workspaces/rules/workspaces.js';
import { type Queryable, query } from '../database/connection.js';
import { checkNameFree } from './names.js';
import {
  type Row,
  insertRecord,
  projectTable,
  recordOf,
  rowAt,
  selected,
  updateRecord,
  workspaceTable,
  joinOne,
} from './rows.js';
import type { WorkspacesWork } from './work.js';
import { type FindOptions, findWorkspace } from './workspace-verbs.js';
import { projectChanged } from '../../../workspaces/changes.js';

export interface ProjectPath {
  workspace: Workspace;
  project: Project;
  openTasks: number;
}

export const workspaceOfProject = joinOne('w', 'workspaces', 'owner_id = p.owner_id AND id = p.workspace_id');

export async function findProject(
  sql: Queryable,
  owner: Owner,
  id: string,
  options: FindOptions = {},
): Promise<ProjectPath> {
  const [at, parameters] = rowAt('p', owner, id);
  const [row] = await query<Row>(
    sql,
    `SELECT ${selected('p', projectTable)}, ${selected('w', workspaceTable)}, p.open_tasks
      FROM workspaces.projects p ${workspaceOfProject}
      WHERE ${at} AND NOT p.removed AND w.deleted_at IS NULL
      ${options.lock === true ? 'FOR UPDATE OF p' : ''}`,
    parameters,
  );
  if (row === undefined) throw notFound('project', id);
  const project = recordOf('p', projectTable, row);
  const workspace = recordOf('w', workspaceTable, row);
  if (project.deleted_at !== null && options.deleted !== true) throw notFound('project', id);
  return { project, workspace, openTasks: Number(row['open_tasks']) };
}

export async function createProject(
  work: WorkspacesWork,
  owner: Owner,
  workspaceId: string,
  id: string,
  input: NewProject,
): Promise<Project> {
  const workspace = await findWorkspace(work.sql, owner, workspaceId);
  const project = newProject(id, workspaceId, input, work.nowMs);
  await checkNameFree(work, workspace.owner_id, project);
  insertRecord(work, projectTable, workspace.owner_id, project);
  work.announce(projectChanged('created', project, workspace.owner_id));
  return project;
}

export async function decideProject(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  event: RecordChange,
  rule: RecordRule<Project>,
): Promise<Project> {
  const found = await findProject(work.sql, owner, id, { lock: true, deleted: event === 'restored' });
  const { project: before, workspace } = found;
  const after = rule(before, work.nowMs);
  if (after.workspace_id !== before.workspace_id)
    await findWorkspace(work.sql, workspace.owner_id, after.workspace_id);
  if (takesName(before, after)) await checkNameFree(work, workspace.owner_id, after);
  updateRecord(work, projectTable, workspace.owner_id, after);
  if (event === 'restored' && found.openTasks > 0) work.becameReady(id, null, found.openTasks);
  work.announce(projectChanged(event, after, workspace.owner_id));
  return after;
}

export async function purgeProject(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): Promise<void> {
  const { project, workspace } = await findProject(work.sql, owner, id, { lock: true, deleted: true });
  checkPurge(project, ifVersion);
  const { owner_id: ownerId } = workspace;
  work.send('UPDATE workspaces.projects SET removed = true WHERE owner_id = $1 AND id = $2', [ownerId, id]);
  work.addBulkWork(ownerId, 'purge', id, 'project');
  work.announce(projectChanged('purged', project, workspace.owner_id));
}
