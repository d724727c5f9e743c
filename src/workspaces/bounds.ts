/** The lengths and numbers that workspaces allow. */
import { StoaError } from '../core/errors.js';
import { checkBytes, checkCharacters, checkCount } from '../core/settings/field-limits.js';
import type { LimitName, Limits } from '../core/settings/limits.js';
import type {
  AskRequest,
  ClaimRequest,
  CompleteRequest,
  FailRequest,
  NewTask,
  ProjectPatch,
  SessionPatch,
  TaskListRequest,
  TaskPatch,
  WorkspaceListRequest,
  WorkspacePatch,
} from './schemas.js';

export function checkWorkspaceBounds(input: WorkspacePatch, limits: Limits): void {
  checkCharacters('name', input.name, 'workspaceNameCharactersMax', limits);
  checkBytes('project_path', input.project_path, 'projectPathBytesMax', limits);
  checkBytes('claude_key', input.claude_key ?? undefined, 'secretBytesMax', limits);
}

export function checkProjectBounds(input: ProjectPatch, limits: Limits): void {
  checkCharacters('name', input.name, 'workspaceNameCharactersMax', limits);
  checkBytes('path', input.path, 'projectPathBytesMax', limits);
  checkCharacters('description', input.description, 'projectDescriptionCharactersMax', limits);
  for (const field of ['git_url', 'git_branch', 'language'] as const)
    checkCharacters(field, input[field], 'projectTextCharactersMax', limits);
  checkJson('config', input.config, 'projectConfigBytesMax', limits);
  checkJson('git_info', input.git_info, 'projectConfigBytesMax', limits);
}

/** Nothing has a longer name or path. */
export function checkListBounds({ name, path }: WorkspaceListRequest, limits: Limits): void {
  checkCharacters('name', name, 'workspaceNameCharactersMax', limits);
  checkBytes('path', path, 'projectPathBytesMax', limits);
}

export function checkSessionBounds(input: SessionPatch, limits: Limits): void {
  checkJson('metadata', input.metadata, 'workSessionMetadataBytesMax', limits);
  checkBytes('agent_id', input.agent_id ?? undefined, 'agentHeaderBytesMax', limits);
}

export function checkTaskBounds(input: NewTask | TaskPatch, limits: Limits): void {
  checkCharacters('command', input.command, 'taskCommandCharactersMax', limits);
  checkNumber('priority', input.priority, -limits.taskPriorityMax, 'taskPriorityMax', limits);
  checkNumber('max_attempts', input.max_attempts, 1, 'taskAttemptsMax', limits);
  if ('depends_on' in input)
    checkCount('depends_on', input.depends_on?.length, 'tasks', 'taskDependenciesMax', limits);
  checkLabels('labels', input.labels, 'taskLabelsMax', limits);
  checkNumber('retry.base_seconds', input.retry?.base_seconds, 0, 'taskRetrySecondsMax', limits);
  checkNumber(
    'retry.max_seconds',
    input.retry?.max_seconds,
    input.retry?.base_seconds ?? 0,
    'taskRetrySecondsMax',
    limits,
  );
}

export function checkClaimBounds(input: ClaimRequest, limits: Limits): void {
  checkNumber('lease_seconds', input.lease_seconds, 0, 'taskLeaseSecondsMax', limits);
  for (const field of ['labels', 'without_labels', 'skills'] as const)
    checkLabels(field, input[field], 'claimLabelsMax', limits);
}

/** No agent has a longer name, and no task a longer label. */
export function checkTaskListBounds({ holder, label }: TaskListRequest, limits: Limits): void {
  checkBytes('holder', holder, 'agentHeaderBytesMax', limits);
  checkBytes('label', label, 'taskLabelBytesMax', limits);
}

export function checkResultBounds(input: CompleteRequest | FailRequest, limits: Limits): void {
  checkBytes('output', input.output ?? undefined, 'taskOutputBytesMax', limits);
  if ('error' in input) checkCharacters('error', input.error, 'taskErrorCharactersMax', limits);
}

export function checkQuestionBounds(input: AskRequest, limits: Limits): void {
  checkCharacters('question', input.question, 'taskQuestionCharactersMax', limits);
  checkNumber('expires_seconds', input.expires_seconds, 0, 'taskQuestionSecondsMax', limits);
}

function checkLabels(
  field: string,
  labels: readonly string[] | undefined,
  limit: 'taskLabelsMax' | 'claimLabelsMax',
  limits: Limits,
): void {
  checkCount(field, labels?.length, 'labels', limit, limits);
  for (const label of labels ?? []) checkBytes(field, label.normalize('NFC'), 'taskLabelBytesMax', limits);
}

function checkJson(field: string, value: object | undefined, limit: LimitName, limits: Limits): void {
  if (value !== undefined) checkBytes(field, JSON.stringify(value), limit, limits);
}

function checkNumber(
  field: string,
  value: number | undefined,
  min: number,
  limit: LimitName,
  limits: Limits,
): void {
  const max = limits[limit];
  if (value === undefined || (value >= min && value <= max)) return;
  throw new StoaError(
    'invalid_request',
    `${field} is ${value}. Expected a number from ${min} to ${max} (${limit}).`,
    { details: { field, min, max } },
  );
}
