/** Workspaces, projects, sessions and tasks as callers use them: checked, normalised, authorised. */
import { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import type { Limits } from '../limits.js';
import { type Page, decodeTextCursor, encodeCursor } from '../paging.js';
import { type Sealer, secretMask } from '../secrets/sealer.js';
import { validate } from '../validate.js';
import {
  checkCharacters,
  checkClaimBounds,
  checkListBounds,
  checkProjectBounds,
  checkResultBounds,
  checkSessionBounds,
  checkTaskBounds,
  checkWorkspaceBounds,
} from './bounds.js';
import { checkConfig, maskConfig, openConfig, sealConfig } from './config-secrets.js';
import { checkId, newId } from './ids.js';
import type { Claim, ClaimLease, JsonObject, Project, Task, WorkSession, Workspace } from './model.js';
import type { Listed, NamedListRequest, Owner, Reporter, WorkspacesPort } from './port.js';
import * as schemas from './schemas.js';
import { claimLease } from './tasks.js';
import { checkGitFields, withoutGitPasswords } from './url-passwords.js';

export interface WorkspacesServiceOptions {
  port: WorkspacesPort;
  limits: Limits;
  sealer: Sealer;
}

/** What changes need beside their body. */
export interface ChangeOptions {
  ifVersion?: number | undefined;
}

export interface CreateOptions {
  idempotency?: Idempotency | null | undefined;
}

type Unchecked = unknown;

export class WorkspacesService {
  readonly port: WorkspacesPort;
  readonly #limits: Limits;
  readonly #sealer: Sealer;

  constructor(options: WorkspacesServiceOptions) {
    this.port = options.port;
    this.#limits = options.limits;
    this.#sealer = options.sealer;
  }

  // Workspaces

  async createWorkspace(caller: Caller, body: Unchecked, options: CreateOptions = {}): Promise<Workspace> {
    checkWrites(caller);
    const input = validate(schemas.newWorkspaceSchema, body);
    checkWorkspaceBounds(input, this.#limits);
    const id = newId('workspace');
    return masked(
      await this.port.createWorkspace(
        caller.user,
        id,
        this.#sealed(id, normalised(input)),
        options.idempotency ?? null,
      ),
    );
  }

  /** With `deleted`, also one that is deleted and not yet purged. */
  async getWorkspace(caller: Caller, id: string, options: { deleted?: boolean } = {}): Promise<Workspace> {
    return masked(
      await this.port.getWorkspace(ownerOf(caller), checkId('workspace', id), options.deleted ?? false),
    );
  }

  async listWorkspaces(caller: Caller, query: Unchecked = {}): Promise<Page<Workspace>> {
    const request = normalised(validate(schemas.workspaceListSchema, query));
    checkListBounds(request, this.#limits);
    const owner = ownerOf(caller);
    return this.#page(`workspaces ${owner}`, request, async (list) =>
      mapItems(await this.port.listWorkspaces(owner, list), masked),
    );
  }

  async updateWorkspace(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<Workspace> {
    checkWrites(caller);
    const patch = validate(schemas.workspacePatchSchema, body);
    checkWorkspaceBounds(patch, this.#limits);
    // A mask that comes back means the secret that is stored.
    const { claude_key: key, ...rest } = normalised(patch);
    const changes =
      key === secretMask ? rest : this.#sealed(checkId('workspace', id), { ...rest, claude_key: key });
    return masked(
      await this.port.updateWorkspace(ownerOf(caller), checkId('workspace', id), changes, options.ifVersion),
    );
  }

  async deleteWorkspace(caller: Caller, id: string, options: ChangeOptions = {}): Promise<Workspace> {
    checkWrites(caller);
    return masked(
      await this.port.deleteWorkspace(ownerOf(caller), checkId('workspace', id), options.ifVersion),
    );
  }

  async restoreWorkspace(
    caller: Caller,
    id: string,
    body: Unchecked = {},
    options: ChangeOptions = {},
  ): Promise<Workspace> {
    checkWrites(caller);
    return masked(
      await this.port.restoreWorkspace(
        ownerOf(caller),
        checkId('workspace', id),
        this.#newName(body),
        options.ifVersion,
      ),
    );
  }

  /** Removes a deleted workspace for good, with everything in it. */
  async purgeWorkspace(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    checkWrites(caller);
    await this.port.purgeWorkspace(ownerOf(caller), checkId('workspace', id), options.ifVersion);
  }

  /** The plain key, for programs that embed Stoa. No route answers it. */
  async revealWorkspaceKey(caller: Caller, id: string): Promise<string | null> {
    checkWrites(caller);
    const workspace = await this.port.getWorkspace(ownerOf(caller), checkId('workspace', id), false);
    return workspace.claude_key === null ? null : this.#sealer.open(workspace.claude_key, workspace.id);
  }

  // Projects

  async createProject(
    caller: Caller,
    workspaceId: string,
    body: Unchecked,
    options: CreateOptions = {},
  ): Promise<Project> {
    checkWrites(caller);
    const input = validate(schemas.newProjectSchema, body);
    checkProjectBounds(input, this.#limits);
    checkGitFields(input);
    const id = newId('project');
    const sealed = this.#sealedConfig(id, normalised(input));
    return maskedProject(
      await this.port.createProject(
        ownerOf(caller),
        checkId('workspace', workspaceId),
        id,
        sealed,
        options.idempotency ?? null,
      ),
    );
  }

  async getProject(caller: Caller, id: string, options: { deleted?: boolean } = {}): Promise<Project> {
    return maskedProject(
      await this.port.getProject(ownerOf(caller), checkId('project', id), options.deleted ?? false),
    );
  }

  async listProjects(caller: Caller, workspaceId: string, query: Unchecked = {}): Promise<Page<Project>> {
    const request = normalised(validate(schemas.workspaceListSchema, query));
    checkListBounds(request, this.#limits);
    const parent = checkId('workspace', workspaceId);
    return this.#page(`projects ${parent}`, request, async (list) =>
      mapItems(await this.port.listProjects(ownerOf(caller), parent, list), maskedProject),
    );
  }

  async updateProject(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<Project> {
    checkWrites(caller);
    const patch = validate(schemas.projectPatchSchema, body);
    checkProjectBounds(patch, this.#limits);
    checkGitFields(patch);
    const sealed = this.#sealedConfig(checkId('project', id), normalised(patch));
    return maskedProject(
      await this.port.updateProject(ownerOf(caller), checkId('project', id), sealed, options.ifVersion),
    );
  }

  async deleteProject(caller: Caller, id: string, options: ChangeOptions = {}): Promise<Project> {
    checkWrites(caller);
    return maskedProject(
      await this.port.deleteProject(ownerOf(caller), checkId('project', id), options.ifVersion),
    );
  }

  async restoreProject(
    caller: Caller,
    id: string,
    body: Unchecked = {},
    options: ChangeOptions = {},
  ): Promise<Project> {
    checkWrites(caller);
    return maskedProject(
      await this.port.restoreProject(
        ownerOf(caller),
        checkId('project', id),
        this.#newName(body),
        options.ifVersion,
      ),
    );
  }

  async purgeProject(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    checkWrites(caller);
    await this.port.purgeProject(ownerOf(caller), checkId('project', id), options.ifVersion);
  }

  /** The config with its plain secrets, for programs that embed Stoa. No route answers it. */
  async revealProjectConfig(caller: Caller, id: string): Promise<JsonObject> {
    checkWrites(caller);
    const project = await this.port.getProject(ownerOf(caller), checkId('project', id), false);
    return openConfig(project.config, project.id, this.#sealer);
  }

  // Sessions

  async createSession(
    caller: Caller,
    projectId: string,
    body: Unchecked = {},
    options: CreateOptions = {},
  ): Promise<WorkSession> {
    checkWrites(caller);
    const input = validate(schemas.newSessionSchema, body);
    checkSessionBounds(input, this.#limits);
    checkOwnName(caller, input.agent_id);
    const agent = input.agent_id === undefined ? (caller.agentId ?? caller.agent) : input.agent_id;
    return this.port.createSession(
      ownerOf(caller),
      checkId('project', projectId),
      newId('session'),
      { ...input, agent_id: agent },
      options.idempotency ?? null,
    );
  }

  getSession(caller: Caller, id: string): Promise<WorkSession> {
    return this.port.getSession(ownerOf(caller), checkId('session', id));
  }

  async listSessions(caller: Caller, projectId: string, query: Unchecked = {}): Promise<Page<WorkSession>> {
    const request = validate(schemas.sessionListSchema, query);
    const parent = checkId('project', projectId);
    return this.#page(`sessions ${parent}`, request, (list) =>
      this.port.listSessions(ownerOf(caller), parent, { ...list, status: request.status }),
    );
  }

  /** The session that holds the project's single slot, or null. */
  activeSession(caller: Caller, projectId: string): Promise<WorkSession | null> {
    return this.port.activeSession(ownerOf(caller), checkId('project', projectId));
  }

  async updateSession(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<WorkSession> {
    checkWrites(caller);
    const patch = validate(schemas.sessionPatchSchema, body);
    checkSessionBounds(patch, this.#limits);
    checkOwnName(caller, patch.agent_id);
    return this.port.updateSession(ownerOf(caller), checkId('session', id), patch, options.ifVersion);
  }

  async deleteSession(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    checkWrites(caller);
    await this.port.deleteSession(ownerOf(caller), checkId('session', id), options.ifVersion);
  }

  // Tasks

  async createTask(
    caller: Caller,
    sessionId: string,
    body: Unchecked,
    options: CreateOptions = {},
  ): Promise<Task> {
    checkWrites(caller);
    const input = validate(schemas.newTaskSchema, body);
    checkTaskBounds(input, this.#limits);
    return this.port.createTask(
      ownerOf(caller),
      checkId('session', sessionId),
      newId('task'),
      input,
      options.idempotency ?? null,
    );
  }

  getTask(caller: Caller, id: string): Promise<Task> {
    return this.port.getTask(ownerOf(caller), checkId('task', id));
  }

  async listTasks(caller: Caller, sessionId: string, query: Unchecked = {}): Promise<Page<Task>> {
    const request = validate(schemas.taskListSchema, query);
    const parent = checkId('session', sessionId);
    return this.#page(`tasks ${parent}`, request, (list) =>
      this.port.listTasks(ownerOf(caller), parent, { ...list, status: request.status }),
    );
  }

  /** What could be claimed now, in the order in which it would be. */
  async listReadyTasks(caller: Caller, projectId: string, query: Unchecked = {}): Promise<Page<Task>> {
    const request = validate(schemas.pageSchema, query);
    const parent = checkId('project', projectId);
    return this.#page(`ready ${parent}`, request, (list) =>
      this.port.listReady(ownerOf(caller), parent, list.after, list.limit),
    );
  }

  async updateTask(caller: Caller, id: string, body: Unchecked, options: ChangeOptions = {}): Promise<Task> {
    checkWrites(caller);
    const patch = validate(schemas.taskPatchSchema, body);
    checkTaskBounds(patch, this.#limits);
    return this.port.updateTask(ownerOf(caller), checkId('task', id), patch, options.ifVersion);
  }

  async deleteTask(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    checkWrites(caller);
    await this.port.deleteTask(ownerOf(caller), checkId('task', id), options.ifVersion);
  }

  /** Gives the first ready task to the caller alone, with a lease. Null when there is none within `wait` seconds. */
  async claimTask(
    caller: Caller,
    projectId: string,
    body: Unchecked = {},
    signal?: AbortSignal,
  ): Promise<Claim | null> {
    checkWrites(caller);
    const request = validate(schemas.claimRequestSchema, body);
    checkClaimBounds(request, this.#limits);
    if (signal?.aborted === true) return null;
    return this.port.claimTask(ownerOf(caller), checkId('project', projectId), {
      holder: holderOf(caller, request.agent_id),
      leaseSeconds: request.lease_seconds ?? this.#limits.taskLeaseSeconds,
      waitMs: Math.min(request.wait ?? 0, this.#limits.claimWaitSecondsMax) * 1_000,
      signal,
    });
  }

  async heartbeatTask(
    caller: Caller,
    id: string,
    body: Unchecked,
  ): Promise<{ lease: ClaimLease & { holder: string } }> {
    checkWrites(caller);
    const { fence } = validate(schemas.heartbeatRequestSchema, body);
    const lease = await this.port.heartbeatTask(
      ownerOf(caller),
      checkId('task', id),
      fence,
      reporterOf(caller),
    );
    return { lease: { ...claimLease(lease), holder: lease.holder ?? '' } };
  }

  async completeTask(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    checkWrites(caller);
    const input = validate(schemas.completeRequestSchema, body);
    checkResultBounds(input, this.#limits);
    return this.port.completeTask(ownerOf(caller), checkId('task', id), input, reporterOf(caller));
  }

  async failTask(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    checkWrites(caller);
    const input = validate(schemas.failRequestSchema, body);
    checkResultBounds(input, this.#limits);
    return this.port.failTask(ownerOf(caller), checkId('task', id), input, reporterOf(caller));
  }

  async cancelTask(caller: Caller, id: string, body: Unchecked = {}): Promise<Task> {
    checkWrites(caller);
    const { reason } = validate(schemas.cancelRequestSchema, body);
    checkCharacters('reason', reason, this.#limits.taskErrorCharactersMax);
    return this.port.cancelTask(ownerOf(caller), checkId('task', id), reason);
  }

  /** Sends waiting claims away with nothing: the server is about to stop. */
  stopWaiting(): void {
    this.port.stopWaiting();
  }

  /** Sends waiting claims away and finishes the step of bulk work that runs. */
  close(): Promise<void> {
    return this.port.close();
  }

  #sealed<Input extends { claude_key?: string | null | undefined }>(id: string, input: Input): Input {
    if (input.claude_key === secretMask)
      throw new StoaError('invalid_request', 'claude_key: this is the mask, not a key.', {
        details: { field: 'claude_key' },
      });
    return typeof input.claude_key === 'string'
      ? { ...input, claude_key: this.#sealer.seal(input.claude_key, id) }
      : input;
  }

  #sealedConfig<Input extends { config?: JsonObject | undefined }>(id: string, input: Input): Input {
    if (input.config === undefined) return input;
    checkConfig(input.config);
    return { ...input, config: sealConfig(input.config, id, this.#sealer) };
  }

  #newName(body: Unchecked): string | undefined {
    const input = normalised(validate(schemas.restoreSchema, body));
    checkCharacters('name', input.name, this.#limits.workspaceNameCharactersMax);
    return input.name;
  }

  /** A page of a list; its cursor works for the same list with the same filters only. */
  async #page<T>(
    list: string,
    request: schemas.WorkspaceListRequest | { limit?: number | undefined; cursor?: string | undefined },
    read: (request: NamedListRequest) => Promise<Listed<T>>,
  ): Promise<Page<T>> {
    const { limit, cursor, ...filters } = request;
    const tag = `${list} ${JSON.stringify(filters)}`;
    const after = decodeTextCursor(tag, cursor);
    const items = Math.min(
      limit ?? this.#limits.workspacePageItemsDefault,
      this.#limits.workspacePageItemsMax,
    );
    const named = filters as Partial<NamedListRequest>;
    const { items: found, next } = await read({
      ...named,
      deleted: named.deleted ?? false,
      after,
      limit: items,
    });
    return { items: found, next_cursor: next === null ? null : encodeCursor(tag, Buffer.from(next, 'utf8')) };
  }
}

function ownerOf(caller: Caller): Owner {
  return caller.everyUser ? null : caller.user;
}

function checkWrites(caller: Caller): void {
  if (!caller.scopes.write)
    throw new StoaError('forbidden', 'These credentials can only read.', {
      fix: 'Use a token with the write scope.',
    });
}

/** Who claims. */
function holderOf(caller: Caller, named: string | undefined): string {
  checkOwnName(caller, named);
  return named ?? caller.agentId ?? caller.agent ?? caller.user;
}

/** A signed agent claims tasks and has sessions in no other agent's name; nobody's it may say. */
function checkOwnName({ kind, agentId, agent }: Caller, named: string | null | undefined): void {
  if (kind !== 'agent' || named === undefined || named === null || named === agentId || named === agent)
    return;
  throw new StoaError('forbidden', 'A signed agent goes by its own name.', {
    fix: 'Leave agent_id away.',
    details: { field: 'agent_id' },
  });
}

/** Fencing numbers are small and no secret: a signed agent reports on what it holds itself. */
function reporterOf({ kind, agentId, agent }: Caller): Reporter {
  return kind === 'agent' ? [agentId, agent] : null;
}

function normalised<Input extends { name?: string | undefined }>(input: Input): Input {
  return input.name === undefined ? input : { ...input, name: input.name.normalize('NFC') };
}

function masked(workspace: Workspace): Workspace {
  return workspace.claude_key === null ? workspace : { ...workspace, claude_key: secretMask };
}

function maskedProject(project: Project): Project {
  return { ...withoutGitPasswords(project), config: maskConfig(project.config) };
}

function mapItems<T>(listed: Listed<T>, map: (item: T) => T): Listed<T> {
  return { items: listed.items.map(map), next: listed.next };
}
