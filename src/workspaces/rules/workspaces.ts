/** What may happen to a workspace or a project, as pure functions that every backend calls. */
import { StoaError } from '../../core/errors.js';
import { given } from '../../core/given.js';
import { isoTime } from '../../core/text/iso-time.js';
import { keepMasked } from '../secrets/config-secrets.js';
import type { Project, Workspace } from '../model.js';
import type { NewProject, NewWorkspace, ProjectPatch, WorkspacePatch } from '../schemas.js';

/** The secrets in `input` are sealed already. */
export function newWorkspace(id: string, ownerId: string, input: NewWorkspace, nowMs: number): Workspace {
  const now = isoTime(nowMs);
  return {
    id,
    name: input.name,
    project_path: input.project_path ?? '',
    status: input.status ?? 'active',
    owner_id: ownerId,
    claude_key: input.claude_key ?? null,
    active_tasks: 0,
    created_at: now,
    updated_at: now,
    deleted_at: null,
    version: 1,
  };
}

export function changeWorkspace(
  workspace: Workspace,
  patch: WorkspacePatch,
  ifVersion: number | undefined,
  nowMs: number,
): Workspace {
  checkVersion(workspace, ifVersion);
  return touched({ ...workspace, ...given(patch) }, nowMs);
}

export function newProject(id: string, workspaceId: string, input: NewProject, nowMs: number): Project {
  const now = isoTime(nowMs);
  return {
    id,
    workspace_id: workspaceId,
    name: input.name,
    path: input.path ?? '',
    description: input.description ?? '',
    git_url: input.git_url ?? '',
    git_branch: input.git_branch ?? '',
    language: input.language ?? '',
    status: input.status ?? 'active',
    config: keepMasked(input.config ?? {}, {}),
    git_info: input.git_info ?? {},
    created_at: now,
    updated_at: now,
    deleted_at: null,
    version: 1,
  };
}

export function changeProject(
  project: Project,
  patch: ProjectPatch,
  ifVersion: number | undefined,
  nowMs: number,
): Project {
  checkVersion(project, ifVersion);
  const changed = { ...project, ...given(patch) };
  if (patch.config !== undefined) changed.config = keepMasked(patch.config, project.config);
  return touched(changed, nowMs);
}

export function softDeleted<Record extends Workspace | Project>(
  record: Record,
  ifVersion: number | undefined,
  nowMs: number,
): Record {
  checkVersion(record, ifVersion);
  return touched({ ...record, deleted_at: isoTime(nowMs) }, nowMs);
}

export function restored<Record extends Workspace | Project>(
  record: Record,
  name: string | undefined,
  ifVersion: number | undefined,
  nowMs: number,
): Record {
  checkVersion(record, ifVersion);
  checkDeleted(record, 'restored');
  return touched({ ...record, deleted_at: null, name: name ?? record.name }, nowMs);
}

/** Whether the changed record takes a name that another live record of its parent may have. */
export function takesName<Record extends Workspace | Project>(before: Record, after: Record): boolean {
  const isMoved =
    'workspace_id' in before && 'workspace_id' in after && before.workspace_id !== after.workspace_id;
  const isRestored = before.deleted_at !== null && after.deleted_at === null;
  return isMoved || isRestored || before.name !== after.name;
}

/** Only a deleted record can be purged, so that one wrong call destroys nothing. */
export function checkPurge(record: Workspace | Project, ifVersion: number | undefined): void {
  checkVersion(record, ifVersion);
  checkDeleted(record, 'purged');
}

function checkDeleted(record: Workspace | Project, verb: 'restored' | 'purged'): void {
  if (record.deleted_at !== null) return;
  const entity = 'workspace_id' in record ? 'project' : 'workspace';
  throw new StoaError(
    'conflict',
    `The ${entity} ${record.id} is not deleted. Only a deleted ${entity} can be ${verb}.`,
    { ...(verb === 'purged' && { fix: `Delete the ${entity} first.` }), details: { id: record.id } },
  );
}

export function checkVersion(record: { id: string; version: number }, ifVersion: number | undefined): void {
  if (ifVersion === undefined || ifVersion === record.version) return;
  throw new StoaError(
    'version_conflict',
    `The version of ${record.id} is ${record.version}, not ${ifVersion}.`,
    {
      fix: 'Read the record again and repeat the change on its current version.',
      details: { id: record.id, version: record.version, expected: ifVersion },
    },
  );
}

export function nameTaken(entity: 'workspace' | 'project', name: string, holderId: string): StoaError {
  return new StoaError('already_exists', `A ${entity} named "${name}" exists already.`, {
    fix: `Choose another name, or use the existing ${entity}.`,
    details: { name, id: holderId },
  });
}

export function notFound(entity: string, id: string): StoaError {
  return new StoaError('not_found', `There is no ${entity} ${id}.`);
}

function touched<Record extends Workspace | Project>(record: Record, nowMs: number): Record {
  return { ...record, version: record.version + 1, updated_at: isoTime(nowMs) };
}
