/** Workspaces, projects and sessions through a server. No Node built-ins. */
import type { Project, SessionStatus, WorkSession, Workspace, WorkspaceStatus } from '../workspaces/model.js';
import type {
  NewProject,
  NewSession,
  NewWorkspace,
  ProjectPatch,
  SessionPatch,
  WorkspacePatch,
} from '../workspaces/schemas.js';
import type { CallSettings, Page } from './data.js';
import type { Transport } from './transport.js';

export interface ChangeSettings extends CallSettings {
  /** Only if this is still the version. */
  ifVersion?: number | undefined;
}

export interface CreateSettings extends CallSettings {
  /** A repeat under the same key makes no second one; then lost answers are asked for again. */
  idempotencyKey?: string | undefined;
}

export interface PageSettings<Status> extends CallSettings {
  status?: Status | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
}

export interface NamedPageSettings extends PageSettings<WorkspaceStatus> {
  name?: string | undefined;
  path?: string | undefined;
  /** Only the deleted ones. */
  deleted?: boolean | undefined;
}

/**
 * @example
 * const workspace = await stoa.workspaces.create({ name: 'site', project_path: '/srv/site' });
 * const project = await stoa.projects.create(workspace.id, { name: 'api' });
 * const session = await stoa.sessions.create(project.id, { status: 'active' });
 */
export class WorkspacesClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  create(input: NewWorkspace, settings: CreateSettings = {}): Promise<Workspace> {
    return this.#transport.call('POST', '/v1/workspaces', { body: input, ...creation(settings) });
  }

  get(id: string, { signal, deleted }: CallSettings & { deleted?: boolean } = {}): Promise<Workspace> {
    return this.#transport.call('GET', workspacePath(id), { query: { deleted }, signal });
  }

  list({ signal, ...query }: NamedPageSettings = {}): Promise<Page<Workspace>> {
    return this.#transport.call('GET', '/v1/workspaces', { query, signal });
  }

  update(id: string, patch: WorkspacePatch, settings: ChangeSettings = {}): Promise<Workspace> {
    return this.#transport.call('PATCH', workspacePath(id), { body: patch, ...change(settings) });
  }

  /** Hides it with all that is in it, until it is restored or purged. */
  async delete(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('DELETE', workspacePath(id), change(settings));
  }

  restore(id: string, input: { name?: string } = {}, settings: ChangeSettings = {}): Promise<Workspace> {
    return this.#transport.call('POST', `${workspacePath(id)}/restore`, { body: input, ...change(settings) });
  }

  async purge(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('POST', `${workspacePath(id)}/purge`, change(settings));
  }
}

export class ProjectsClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  create(workspaceId: string, input: NewProject, settings: CreateSettings = {}): Promise<Project> {
    return this.#transport.call('POST', `${workspacePath(workspaceId)}/projects`, {
      body: input,
      ...creation(settings),
    });
  }

  get(id: string, { signal, deleted }: CallSettings & { deleted?: boolean } = {}): Promise<Project> {
    return this.#transport.call('GET', projectPath(id), { query: { deleted }, signal });
  }

  list(workspaceId: string, { signal, ...query }: NamedPageSettings = {}): Promise<Page<Project>> {
    return this.#transport.call('GET', `${workspacePath(workspaceId)}/projects`, { query, signal });
  }

  update(id: string, patch: ProjectPatch, settings: ChangeSettings = {}): Promise<Project> {
    return this.#transport.call('PATCH', projectPath(id), { body: patch, ...change(settings) });
  }

  async delete(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('DELETE', projectPath(id), change(settings));
  }

  restore(id: string, input: { name?: string } = {}, settings: ChangeSettings = {}): Promise<Project> {
    return this.#transport.call('POST', `${projectPath(id)}/restore`, { body: input, ...change(settings) });
  }

  async purge(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('POST', `${projectPath(id)}/purge`, change(settings));
  }
}

export class SessionsClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  create(projectId: string, input: NewSession = {}, settings: CreateSettings = {}): Promise<WorkSession> {
    return this.#transport.call('POST', `${projectPath(projectId)}/sessions`, {
      body: input,
      ...creation(settings),
    });
  }

  get(id: string, { signal }: CallSettings = {}): Promise<WorkSession> {
    return this.#transport.call('GET', sessionPath(id), { signal });
  }

  list(
    projectId: string,
    { signal, ...query }: PageSettings<SessionStatus> = {},
  ): Promise<Page<WorkSession>> {
    return this.#transport.call('GET', `${projectPath(projectId)}/sessions`, { query, signal });
  }

  /** The one that holds the project's active slot; throws `not_found` when none does. */
  active(projectId: string, { signal }: CallSettings = {}): Promise<WorkSession> {
    return this.#transport.call('GET', `${projectPath(projectId)}/active-session`, { signal });
  }

  update(id: string, patch: SessionPatch, settings: ChangeSettings = {}): Promise<WorkSession> {
    return this.#transport.call('PATCH', sessionPath(id), { body: patch, ...change(settings) });
  }

  async delete(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('DELETE', sessionPath(id), change(settings));
  }
}

export function projectPath(id: string): string {
  return `/v1/projects/${encodeURIComponent(id)}`;
}

export function sessionPath(id: string): string {
  return `/v1/sessions/${encodeURIComponent(id)}`;
}

function workspacePath(id: string): string {
  return `/v1/workspaces/${encodeURIComponent(id)}`;
}

/** With a version a repeat does no harm: the second one is a conflict. */
export function change({ ifVersion, signal }: ChangeSettings): {
  headers: Record<string, string>;
  signal: AbortSignal | undefined;
  repeatable: boolean;
} {
  return {
    headers: ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` },
    signal,
    repeatable: false,
  };
}

export function creation({ idempotencyKey, signal }: CreateSettings): {
  headers: Record<string, string>;
  signal: AbortSignal | undefined;
  repeatable: boolean;
} {
  return {
    headers: idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey },
    signal,
    repeatable: idempotencyKey !== undefined,
  };
}
