/** Reads and writes of workspaces in PostgreSQL. */
import type { Workspace } from '../../../workspaces/model.js';
import type { Owner, RecordChange, RecordRule } from '../../../workspaces/port.js';
import type { NewWorkspace } from '../../../workspaces/schemas.js';
import { checkPurge, newWorkspace, notFound, takesName } from '../../../workspaces/rules/workspaces.js';
import { type Queryable, query } from '../database/connection.js';
import { checkNameFree } from './names.js';
import { type Row, insertRecord, recordOf, rowAt, selected, updateRecord, workspaceTable } from './rows.js';
import type { WorkspacesWork } from './work.js';
import { workspaceChanged } from '../../../workspaces/changes.js';

export interface FindOptions {
  /** Also finds a deleted record. */
  deleted?: boolean;
  /** Locks the row until the transaction ends. */
  lock?: boolean;
}

export async function findWorkspace(
  sql: Queryable,
  owner: Owner,
  id: string,
  options: FindOptions = {},
): Promise<Workspace> {
  const [at, parameters] = rowAt('w', owner, id);
  const [row] = await query<Row>(
    sql,
    `SELECT ${selected('w', workspaceTable)} FROM workspaces.workspaces w
      WHERE ${at} AND NOT w.removed${options.lock === true ? ' FOR UPDATE' : ''}`,
    parameters,
  );
  const workspace = row === undefined ? undefined : recordOf('w', workspaceTable, row);
  if (workspace === undefined || (workspace.deleted_at !== null && options.deleted !== true))
    throw notFound('workspace', id);
  return workspace;
}

export async function createWorkspace(
  work: WorkspacesWork,
  owner: string,
  id: string,
  input: NewWorkspace,
): Promise<Workspace> {
  const workspace = newWorkspace(id, owner, input, work.nowMs);
  await checkNameFree(work, owner, workspace);
  insertRecord(work, workspaceTable, owner, workspace);
  work.announce(workspaceChanged('created', workspace));
  return workspace;
}

export async function decideWorkspace(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  event: RecordChange,
  rule: RecordRule<Workspace>,
): Promise<Workspace> {
  const before = await findWorkspace(work.sql, owner, id, { lock: true, deleted: event === 'restored' });
  const after = rule(before, work.nowMs);
  if (takesName(before, after)) await checkNameFree(work, after.owner_id, after);
  updateRecord(work, workspaceTable, after.owner_id, after);
  work.announce(workspaceChanged(event, after));
  return after;
}

/**
 * Hides the workspace now. Bulk work then removes its projects, sessions and tasks in steps, and its row
 * last.
 */
export async function purgeWorkspace(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): Promise<void> {
  const workspace = await findWorkspace(work.sql, owner, id, { lock: true, deleted: true });
  checkPurge(workspace, ifVersion);
  const { owner_id: ownerId } = workspace;
  work.send('UPDATE workspaces.workspaces SET removed = true WHERE owner_id = $1 AND id = $2', [ownerId, id]);
  work.addBulkWork(ownerId, 'purge', id, 'workspace');
  work.announce(workspaceChanged('purged', workspace));
}
