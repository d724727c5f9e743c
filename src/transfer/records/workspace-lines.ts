/** Records of workspaces as lines of an export, and back; secrets are plain in lines and sealed in stores. */
import type { Sealer } from '../../secrets/sealer.js';
import {
  openConfig,
  sealConfig,
  withStoredSecrets,
  withoutSecrets,
} from '../../workspaces/secrets/config-secrets.js';
import type { Project, Task, TaskLease, WorkSession, Workspace } from '../../workspaces/model.js';
import { withoutGitPasswords } from '../../workspaces/secrets/url-passwords.js';
import type { ProjectLine, TaskLine, WorkSessionLine, WorkspaceLine } from './record-schemas.js';

/** Without a sealer the secret is left out. */
export function workspaceLine(workspace: Workspace, sealer: Sealer | null): WorkspaceLine {
  const { owner_id: user, claude_key, active_tasks: _active_tasks, ...fields } = workspace;
  const secret =
    sealer === null ? {} : { claude_key: claude_key === null ? null : sealer.open(claude_key, workspace.id) };
  return { type: 'workspaces.workspace', user, ...fields, ...secret };
}

/** If the line has no secret, the stored secret is kept. */
export function workspaceOf(line: WorkspaceLine, before: Workspace | undefined, sealer: Sealer): Workspace {
  const { type: _type, user, claude_key, ...fields } = line;
  const key =
    claude_key === undefined
      ? (before?.claude_key ?? null)
      : claude_key === null
        ? null
        : sealer.seal(claude_key, line.id);
  return { ...fields, owner_id: user, claude_key: key, active_tasks: before?.active_tasks ?? 0 };
}

export function projectLine(project: Project, user: string, sealer: Sealer | null): ProjectLine {
  return {
    type: 'workspaces.project',
    user,
    ...withoutGitPasswords(project),
    config: sealer === null ? withoutSecrets(project.config) : openConfig(project.config, project.id, sealer),
  };
}

export function projectOf(
  { type: _type, user: _user, ...fields }: ProjectLine,
  before: Project | undefined,
  sealer: Sealer,
): Project {
  const sealed = sealConfig(fields.config, fields.id, sealer);
  return {
    ...withoutGitPasswords(fields),
    config: before === undefined ? sealed : withStoredSecrets(sealed, before.config),
  };
}

/**
 * Two encryptions of a secret differ, and exports without --with-secrets have none, so secrets are not
 * compared.
 */
export function projectEssence(line: ProjectLine, sealer: Sealer): unknown {
  return { ...withoutGitPasswords(line), config: withoutSecrets(sealConfig(line.config, line.id, sealer)) };
}

export function sessionLine(session: WorkSession, user: string): WorkSessionLine {
  return { type: 'workspaces.session', user, ...session };
}

export function taskLine(task: Task, user: string, stored: TaskLease | undefined): TaskLine {
  return { type: 'workspaces.task', user, ...task, lease: stored === undefined ? null : leaseOf(stored) };
}

function leaseOf({
  holder,
  fence,
  leaseSeconds,
  renewedAtMs,
  expiresAtMs,
  resultDigest,
}: TaskLease): TaskLease {
  return { holder, fence, leaseSeconds, renewedAtMs, expiresAtMs, resultDigest };
}
