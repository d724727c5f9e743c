/** Names of workspaces and projects are unique: per owner, and per workspace. */
import type { Project, Workspace } from '../../../workspaces/model.js';
import { nameTaken } from '../../../workspaces/rules/workspaces.js';
import { lockKeySql } from '../database/advisory-locks.js';
import type { WorkspacesWork } from './work.js';

/**
 * Throws if the name is taken. The advisory lock serialises all writes that use this name, so that the name
 * stays free until the commit. The unique index is a second guarantee.
 */
export async function checkNameFree(
  work: WorkspacesWork,
  owner: string,
  named: Workspace | Project,
): Promise<void> {
  const { id, name } = named;
  const workspaceId = 'workspace_id' in named ? named.workspace_id : null;
  const entity = workspaceId === null ? 'workspace' : 'project';
  await work.rows(lockKeySql('workspaceName'), [`${entity} ${workspaceId ?? owner} ${name}`]);
  const taken = await idOfName(work, { owner, workspaceId, name, id });
  if (taken !== undefined) throw nameTaken(entity, name, taken);
}

/** The id of another workspace of the owner, or another project of the workspace, that has the name. */
export async function idOfName(
  on: Pick<WorkspacesWork, 'rows'>,
  {
    owner,
    workspaceId,
    name,
    id,
  }: {
    readonly owner: string;
    readonly workspaceId: string | null;
    readonly name: string;
    readonly id: string;
  },
): Promise<string | undefined> {
  const [table, inWorkspace] =
    workspaceId === null ? ['workspaces', ''] : ['projects', ' AND workspace_id = $4'];
  const [found] = await on.rows<{ id: string }>(
    `SELECT id FROM workspaces.${table}
      WHERE owner_id = $1 AND name = $2 AND deleted_at IS NULL AND id <> $3${inWorkspace}`,
    [owner, name, id, ...(workspaceId === null ? [] : [workspaceId])],
  );
  return found?.id;
}
