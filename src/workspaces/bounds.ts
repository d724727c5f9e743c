/** The lengths and numbers that workspaces allow; every one is a setting. */
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { secretMask } from '../secrets/sealer.js';
import type {
  ClaimRequest,
  CompleteRequest,
  FailRequest,
  NewTask,
  ProjectPatch,
  SessionPatch,
  TaskPatch,
  WorkspaceListRequest,
  WorkspacePatch,
} from './schemas.js';

export function checkWorkspaceBounds(input: WorkspacePatch, limits: Limits): void {
  checkCharacters('name', input.name, limits.workspaceNameCharactersMax);
  checkBytes('project_path', input.project_path, limits.projectPathBytesMax);
  checkBytes('claude_key', input.claude_key ?? undefined, limits.secretBytesMax);
}

export function checkProjectBounds(input: ProjectPatch, limits: Limits): void {
  checkCharacters('name', input.name, limits.workspaceNameCharactersMax);
  checkBytes('path', input.path, limits.projectPathBytesMax);
  checkCharacters('description', input.description, limits.projectDescriptionCharactersMax);
  for (const field of ['git_url', 'git_branch', 'language'] as const)
    checkCharacters(field, input[field], limits.projectTextCharactersMax);
  checkJson('config', input.config, limits.projectConfigBytesMax);
  checkJson('git_info', input.git_info, limits.projectConfigBytesMax);
}

/** Nothing has a longer name or path. */
export function checkListBounds({ name, path }: WorkspaceListRequest, limits: Limits): void {
  checkCharacters('name', name, limits.workspaceNameCharactersMax);
  checkBytes('path', path, limits.projectPathBytesMax);
}

export function checkSessionBounds(input: SessionPatch, limits: Limits): void {
  checkJson('metadata', input.metadata, limits.workSessionMetadataBytesMax);
  checkBytes('agent_id', input.agent_id ?? undefined, limits.agentHeaderBytesMax);
}

export function checkTaskBounds(input: NewTask | TaskPatch, limits: Limits): void {
  checkCharacters('command', input.command, limits.taskCommandCharactersMax);
  checkNumber('priority', input.priority, -limits.taskPriorityMax, limits.taskPriorityMax);
  checkNumber('max_attempts', input.max_attempts, 1, limits.taskAttemptsMax);
  if ('depends_on' in input)
    checkNumber('depends_on', input.depends_on?.length, 0, limits.taskDependenciesMax);
}

export function checkClaimBounds(input: ClaimRequest, limits: Limits): void {
  checkBytes('agent_id', input.agent_id, limits.agentHeaderBytesMax);
  checkNumber('lease_seconds', input.lease_seconds, 0, limits.taskLeaseSecondsMax);
}

export function checkResultBounds(input: CompleteRequest | FailRequest, limits: Limits): void {
  checkBytes('output', input.output ?? undefined, limits.taskOutputBytesMax);
  if ('error' in input) checkCharacters('error', input.error, limits.taskErrorCharactersMax);
}

export function checkCharacters(field: string, text: string | undefined, max: number): void {
  // A character is a code point: what people count, and what every backend counts alike.
  if (text === undefined || text.length <= max || [...text].length <= max) return;
  refuse(field, `has at most ${max} characters`, { max });
}

function checkBytes(field: string, text: string | undefined, max: number): void {
  if (text === undefined || text === secretMask || Buffer.byteLength(text) <= max) return;
  refuse(field, `has at most ${max} bytes`, { max });
}

function checkJson(field: string, value: object | undefined, max: number): void {
  if (value !== undefined) checkBytes(field, JSON.stringify(value), max);
}

function checkNumber(field: string, value: number | undefined, min: number, max: number): void {
  if (value === undefined || (value >= min && value <= max)) return;
  refuse(field, `is ${min} to ${max}`, { min, max });
}

function refuse(field: string, rule: string, facts: Record<string, number>): never {
  throw new StoaError('invalid_request', `${field}: it ${rule}.`, { details: { field, ...facts } });
}
