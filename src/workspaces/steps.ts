/** Writes of workspaces: checked, normalised, authorised, and made into steps of the home. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import type { Step } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import { checkCharacters } from '../core/settings/field-limits.js';
import type { Limits } from '../core/settings/limits.js';
import { type Sealer, secretMask } from '../secrets/sealer.js';
import { validate } from '../core/validation/validate.js';
import { answererOf, checkOwnName, holderOf, ownerOf, reporterOf } from './authorise.js';
import {
  checkClaimBounds,
  checkProjectBounds,
  checkQuestionBounds,
  checkResultBounds,
  checkSessionBounds,
  checkTaskBounds,
  checkWorkspaceBounds,
} from './bounds.js';
import { checkConfig, maskConfig, sealConfig } from './secrets/config-secrets.js';
import { checkId, newId } from './ids.js';
import type { Claim, ClaimLease, JsonObject, Project, Task, WorkSession, Workspace } from './model.js';
import type { TaskEvent } from './changes.js';
import type { ClaimOutcome, RecordChange, RecordRule, WorkspacesPort } from './port.js';
import * as schemas from './schemas.js';
import { type ClaimFilter, claimFilter } from './tasks/claim-filter.js';
import * as questions from './tasks/questions.js';
import * as rules from './tasks/tasks.js';
import { checkGitFields, withoutGitPasswords } from './secrets/url-passwords.js';
import * as workspaces from './rules/workspaces.js';

export interface WorkspacesStepsOptions {
  port: WorkspacesPort;
  limits: Limits;
  sealer: Sealer;
}

type Unchecked = unknown;
type IfVersion = number | undefined;

export type Heartbeat = { lease: ClaimLease & { holder: string } };

/** Results are masked inside the step, because they are stored under the Idempotency-Key. */
export class WorkspacesSteps {
  readonly #port: WorkspacesPort;
  readonly #limits: Limits;
  readonly #sealer: Sealer;

  constructor(options: WorkspacesStepsOptions) {
    this.#port = options.port;
    this.#limits = options.limits;
    this.#sealer = options.sealer;
  }

  // Workspaces

  createWorkspace(caller: Caller, body: Unchecked): Step<Workspace> {
    requireWriteScope(caller);
    const input = validate(schemas.newWorkspaceSchema, body);
    checkWorkspaceBounds(input, this.#limits);
    const id = newId('workspace');
    return this.#port.createWorkspace(caller.user, id, this.#sealed(id, normalised(input))).map(masked);
  }

  updateWorkspace(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<Workspace> {
    requireWriteScope(caller);
    const patch = validate(schemas.workspacePatchSchema, body);
    checkWorkspaceBounds(patch, this.#limits);
    // A mask that comes back means the secret that is stored.
    const { claude_key: key, ...rest } = normalised(patch);
    const changes =
      key === secretMask ? rest : this.#sealed(checkId('workspace', id), { ...rest, claude_key: key });
    return this.#decideWorkspace(caller, id, 'updated', (before, nowMs) =>
      workspaces.changeWorkspace(before, changes, ifVersion, nowMs),
    );
  }

  deleteWorkspace(caller: Caller, id: string, ifVersion: IfVersion): Step<Workspace> {
    requireWriteScope(caller);
    return this.#decideWorkspace(caller, id, 'deleted', (before, nowMs) =>
      workspaces.softDeleted(before, ifVersion, nowMs),
    );
  }

  restoreWorkspace(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<Workspace> {
    requireWriteScope(caller);
    const name = this.#newName(body);
    return this.#decideWorkspace(caller, id, 'restored', (before, nowMs) =>
      workspaces.restored(before, name, ifVersion, nowMs),
    );
  }

  purgeWorkspace(caller: Caller, id: string, ifVersion: IfVersion): Step<void> {
    requireWriteScope(caller);
    return this.#port.purgeWorkspace(ownerOf(caller), checkId('workspace', id), ifVersion);
  }

  // Projects

  createProject(caller: Caller, workspaceId: string, body: Unchecked): Step<Project> {
    requireWriteScope(caller);
    const input = validate(schemas.newProjectSchema, body);
    checkProjectBounds(input, this.#limits);
    checkGitFields(input);
    const id = newId('project');
    const sealed = this.#sealedConfig(id, normalised(input));
    return this.#port
      .createProject(ownerOf(caller), checkId('workspace', workspaceId), id, sealed)
      .map(maskedProject);
  }

  updateProject(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<Project> {
    requireWriteScope(caller);
    const patch = validate(schemas.projectPatchSchema, body);
    checkProjectBounds(patch, this.#limits);
    checkGitFields(patch);
    const sealed = this.#sealedConfig(checkId('project', id), normalised(patch));
    return this.#decideProject(caller, id, 'updated', (before, nowMs) =>
      workspaces.changeProject(before, sealed, ifVersion, nowMs),
    );
  }

  deleteProject(caller: Caller, id: string, ifVersion: IfVersion): Step<Project> {
    requireWriteScope(caller);
    return this.#decideProject(caller, id, 'deleted', (before, nowMs) =>
      workspaces.softDeleted(before, ifVersion, nowMs),
    );
  }

  restoreProject(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<Project> {
    requireWriteScope(caller);
    const name = this.#newName(body);
    return this.#decideProject(caller, id, 'restored', (before, nowMs) =>
      workspaces.restored(before, name, ifVersion, nowMs),
    );
  }

  purgeProject(caller: Caller, id: string, ifVersion: IfVersion): Step<void> {
    requireWriteScope(caller);
    return this.#port.purgeProject(ownerOf(caller), checkId('project', id), ifVersion);
  }

  // Sessions

  createSession(caller: Caller, projectId: string, body: Unchecked): Step<WorkSession> {
    requireWriteScope(caller);
    const input = validate(schemas.newSessionSchema, body);
    checkSessionBounds(input, this.#limits);
    checkOwnName(caller, input.agent_id);
    const agent = input.agent_id === undefined ? caller.agent : input.agent_id;
    return this.#port.createSession(ownerOf(caller), checkId('project', projectId), newId('session'), {
      ...input,
      agent_id: agent,
    });
  }

  updateSession(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<WorkSession> {
    requireWriteScope(caller);
    const patch = validate(schemas.sessionPatchSchema, body);
    checkSessionBounds(patch, this.#limits);
    checkOwnName(caller, patch.agent_id);
    return this.#port.updateSession(ownerOf(caller), checkId('session', id), patch, ifVersion);
  }

  deleteSession(caller: Caller, id: string, ifVersion: IfVersion): Step<void> {
    requireWriteScope(caller);
    return this.#port.deleteSession(ownerOf(caller), checkId('session', id), ifVersion);
  }

  // Tasks

  createTask(caller: Caller, sessionId: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const input = validate(schemas.newTaskSchema, body);
    checkTaskBounds(input, this.#limits);
    return this.#port.createTask(ownerOf(caller), checkId('session', sessionId), newId('task'), input);
  }

  updateTask(caller: Caller, id: string, body: Unchecked, ifVersion: IfVersion): Step<Task> {
    requireWriteScope(caller);
    const patch = validate(schemas.taskPatchSchema, body);
    checkTaskBounds(patch, this.#limits);
    return this.#port.updateTask(ownerOf(caller), checkId('task', id), patch, ifVersion);
  }

  deleteTask(caller: Caller, id: string, ifVersion: IfVersion): Step<void> {
    requireWriteScope(caller);
    return this.#port.deleteTask(ownerOf(caller), checkId('task', id), ifVersion);
  }

  /** One look for a ready task, and how long the caller wants to wait for one. */
  claimTask(
    caller: Caller,
    projectId: string,
    body: Unchecked,
  ): { step: Step<ClaimOutcome>; waitMs: number; filter: ClaimFilter } {
    requireWriteScope(caller);
    const request = validate(schemas.claimSchema, body);
    checkClaimBounds(request, this.#limits);
    const filter = claimFilter(request);
    const step = this.#port.claimTask(
      ownerOf(caller),
      checkId('project', projectId),
      holderOf(caller),
      request.lease_seconds ?? this.#limits.taskLeaseSeconds,
      filter,
    );
    const waitMs = Math.min(request.wait ?? 0, this.#limits.claimWaitSecondsMax) * 1_000;
    return { step, waitMs, filter };
  }

  /** A claim beside other steps never waits: null when no task is ready. */
  claimNow(caller: Caller, projectId: string, body: Unchecked): Step<Claim | null> {
    return this.claimTask(caller, projectId, body).step.map((outcome) =>
      typeof outcome === 'string' ? null : outcome,
    );
  }

  heartbeatTask(caller: Caller, id: string, body: Unchecked): Step<Heartbeat> {
    requireWriteScope(caller);
    const { fence } = validate(schemas.heartbeatRequestSchema, body);
    return this.#port
      .heartbeatTask(ownerOf(caller), checkId('task', id), fence, reporterOf(caller))
      .map((lease) => ({ lease: { ...rules.claimLease(lease), holder: lease.holder ?? '' } }));
  }

  completeTask(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const input = validate(schemas.completeRequestSchema, body);
    checkResultBounds(input, this.#limits);
    const rule = rules.completeTask(input, reporterOf(caller));
    return this.#port.completeTask(ownerOf(caller), checkId('task', id), rule);
  }

  failTask(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const input = validate(schemas.failRequestSchema, body);
    checkResultBounds(input, this.#limits);
    return this.#decideTask(caller, id, rules.failTask(input, reporterOf(caller)));
  }

  askQuestion(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const input = validate(schemas.askRequestSchema, body);
    checkQuestionBounds(input, this.#limits);
    const by = reporterOf(caller);
    return this.#decideTask(caller, id, (held, nowMs, endOf) =>
      questions.askQuestion(held, input, this.#limits, nowMs, endOf, by),
    );
  }

  answerQuestion(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const input = validate(schemas.answerRequestSchema, body);
    checkCharacters('answer', input.answer, 'taskQuestionCharactersMax', this.#limits);
    const [by, answerer] = [holderOf(caller), answererOf(caller)];
    const answer: rules.TaskRule = (held, nowMs, endOf) =>
      questions.answerQuestion(held, input, by, nowMs, endOf, answerer);
    return this.#decideTask(caller, id, answer, 'answered');
  }

  cancelTask(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const { reason } = validate(schemas.cancelRequestSchema, body);
    checkCharacters('reason', reason, 'taskErrorCharactersMax', this.#limits);
    return this.#decideTask(caller, id, (held, nowMs) => rules.cancelTask(held, reason, nowMs));
  }

  releaseTask(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const { reason } = validate(schemas.cancelRequestSchema, body);
    checkCharacters('reason', reason, 'taskErrorCharactersMax', this.#limits);
    return this.#decideTask(caller, id, (held, nowMs) => rules.releaseTask(held, reason, nowMs));
  }

  retryTask(caller: Caller, id: string, body: Unchecked): Step<Task> {
    requireWriteScope(caller);
    const { reason } = validate(schemas.cancelRequestSchema, body);
    checkCharacters('reason', reason, 'taskErrorCharactersMax', this.#limits);
    return this.#port.retryTask(ownerOf(caller), checkId('task', id), reason);
  }

  // Checks of a commit

  requireTaskVersion(caller: Caller, id: string, version: number): Step<void> {
    return this.#port.requireTaskVersion(ownerOf(caller), id, version);
  }

  requireClaim(caller: Caller, id: string, fence: number): Step<void> {
    return this.#port.requireClaim(ownerOf(caller), id, fence);
  }

  #decideWorkspace(
    caller: Caller,
    id: string,
    event: RecordChange,
    rule: RecordRule<Workspace>,
  ): Step<Workspace> {
    return this.#port.decideWorkspace(ownerOf(caller), checkId('workspace', id), event, rule).map(masked);
  }

  #decideProject(caller: Caller, id: string, event: RecordChange, rule: RecordRule<Project>): Step<Project> {
    return this.#port.decideProject(ownerOf(caller), checkId('project', id), event, rule).map(maskedProject);
  }

  #decideTask(caller: Caller, id: string, rule: rules.TaskRule, event?: TaskEvent): Step<Task> {
    return this.#port.decideTask(ownerOf(caller), checkId('task', id), rule, event);
  }

  #sealed<Input extends { claude_key?: string | null | undefined }>(id: string, input: Input): Input {
    if (input.claude_key === secretMask)
      throw new StoaError('invalid_request', 'claude_key is the mask of a key, not a key.', {
        fix: 'Send the key, or leave out claude_key.',
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
    checkCharacters('name', input.name, 'workspaceNameCharactersMax', this.#limits);
    return input.name;
  }
}

export function normalised<Input extends { name?: string | undefined }>(input: Input): Input {
  return input.name === undefined ? input : { ...input, name: input.name.normalize('NFC') };
}

export function masked(workspace: Workspace): Workspace {
  return workspace.claude_key === null ? workspace : { ...workspace, claude_key: secretMask };
}

export function maskedProject(project: Project): Project {
  return { ...withoutGitPasswords(project), config: maskConfig(project.config) };
}
