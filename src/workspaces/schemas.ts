/**
 * What workspaces take: the shapes that the service checks. Lengths are settings, and the service checks them
 * too.
 */
import { z } from 'zod';
import { idPatterns } from './ids.js';
import {
  type Entity,
  type JsonObject,
  type JsonValue,
  sessionStatuses,
  taskStatuses,
  workspaceStatuses,
} from './model.js';

/** Text that every backend can store: PostgreSQL refuses NUL, UTF-8 has no lone surrogates. */
const text = z.string().refine((value) => !value.includes('\0') && value.isWellFormed(), {
  error: 'contains a NUL character or a lone surrogate',
});

export const name = z
  .string()
  .min(1)
  .regex(/^[^\p{Cc}\p{Cs}<>&"'/\\|?*:;]+$/u, {
    error: 'contains a control character or one of < > & " \' / \\ | ? * : ;',
  })
  .describe('1 to 100 characters without control characters or < > & " \' / \\ | ? * : ;');

function entityId(entity: Entity, about: string): z.ZodString {
  return z
    .string()
    .regex(idPatterns[entity], { error: `is not ${about}` })
    .toLowerCase()
    .describe(about);
}

export const workspaceId = entityId('workspace', 'ws_ followed by a UUID');
export const projectId = entityId('project', 'proj_ followed by a UUID');
/** A project that a request names, by id or by name. */
export const projectReference = text
  .min(1)
  .describe('The id of a project (proj_…), workspace/project, or the name of a project in `default`');
export const sessionId = entityId('session', 'sess_ followed by a UUID');
export const taskId = entityId('task', 'task_ followed by a UUID');

const jsonValue: z.ZodType<JsonValue> = z.json();
export const jsonObject: z.ZodType<JsonObject> = z.record(z.string(), jsonValue);
export const count = z.int().min(0);
export const seconds = z
  .number()
  .min(0)
  .max(10 * 365 * 24 * 3600);
export const workspaceStatus = z.enum(workspaceStatuses);
export const sessionStatus = z.enum(sessionStatuses);
export const taskStatus = z.enum(taskStatuses);
const secret = text
  .min(1)
  .nullable()
  .describe('Stored encrypted; answers show only a mask. Sending the mask back changes nothing.');

// What comes in.

export const newWorkspaceSchema = z.strictObject({
  name,
  project_path: text.optional(),
  status: workspaceStatus.optional(),
  claude_key: secret.optional(),
});
export const workspacePatchSchema = newWorkspaceSchema.partial();

const projectConfig = jsonObject.describe(
  'environment, model options, build and test commands. Strings are stored encrypted and shown as masks if ' +
    'they are URLs with a password, or if their name or the name of an object around them contains key, token, ' +
    'secret, password, credential, cookie or authorization.',
);

export const newProjectSchema = z.strictObject({
  name,
  path: text.optional(),
  description: text.optional(),
  git_url: text.optional(),
  git_branch: text.optional(),
  language: text.optional(),
  status: workspaceStatus.optional(),
  config: projectConfig.optional(),
  git_info: jsonObject.optional(),
});
export const projectPatchSchema = newProjectSchema.partial().extend({
  workspace_id: workspaceId.optional().describe('Moves the project to another workspace of the same owner'),
});

export const restoreSchema = z.strictObject({
  name: name.optional().describe('A new name, if the old one is taken now'),
});

export const newSessionSchema = z.strictObject({
  agent_id: text.min(1).nullable().optional(),
  process_id: z.int().min(0).nullable().optional(),
  status: z.enum(['pending', 'active']).optional().describe('"active" starts it at once'),
  takeover: z
    .boolean()
    .optional()
    .describe('With status "active": ends the session that holds the active slot'),
  metadata: jsonObject.optional(),
  max_idle_time: seconds.optional(),
  max_lifetime: seconds.optional(),
});

export const sessionPatchSchema = z.strictObject({
  status: sessionStatus.optional(),
  takeover: z
    .boolean()
    .optional()
    .describe('With status "active": ends the session that holds the active slot'),
  agent_id: text.min(1).nullable().optional(),
  process_id: z.int().min(0).nullable().optional(),
  metadata: jsonObject.optional(),
  command_count: count.optional(),
  bytes_in: count.optional(),
  bytes_out: count.optional(),
  error_count: count.optional(),
  max_idle_time: seconds.optional(),
  max_lifetime: seconds.optional(),
});

export const label = z
  .string()
  .regex(/^[\p{L}\p{N}._/=+@#-]+$/u, {
    error: 'contains a character other than letters, digits and . _ / = + @ # -',
  })
  .describe('Letters, digits and . _ / = + @ # -');
const labels = z.array(label);
const runAt = z.iso
  .datetime({ offset: true })
  .nullable()
  .describe('The task is not claimed before this time. Null as soon as the time is reached');
const retry = z
  .strictObject({
    base_seconds: z.number().positive(),
    max_seconds: z
      .number()
      .positive()
      .optional()
      .describe('The default is an hour, or the base if it is longer'),
  })
  .nullable()
  .describe(
    'How long the task waits after a failed attempt: the base, doubled with each further attempt, up to ' +
      'the maximum. A random part of up to half is subtracted',
  );

export const newTaskSchema = z.strictObject({
  command: text.min(1),
  priority: z.int().optional(),
  depends_on: z.array(taskId).optional().describe('Tasks of the same project that must be completed first'),
  max_attempts: z.int().min(1).optional(),
  labels: labels.optional().describe('What the task needs or belongs to. Claims and lists can filter by it'),
  run_at: runAt.optional(),
  retry: retry.optional(),
});

export const taskPatchSchema = z.strictObject({
  command: text.min(1).optional(),
  priority: z.int().optional(),
  max_attempts: z.int().min(1).optional(),
  labels: labels.optional().describe('Replaces all labels'),
  run_at: runAt.optional(),
  retry: retry.optional(),
});

const fence = z.int().min(1).describe('The fencing number that the claim returned');

export const claimSchema = z.strictObject({
  lease_seconds: z.number().positive().optional(),
  wait: z.number().min(0).optional().describe('Seconds to wait for a task when none is ready'),
  labels: labels.optional().describe('Only a task that has all these labels'),
  without_labels: labels.optional().describe('Only a task that has none of these labels'),
  skills: labels
    .optional()
    .describe('Only a task whose labels are all in this list. A task without labels needs no skill'),
});
/** A claim at a door, which may name the agent. The service takes the agent of its caller. */
export const claimRequestSchema = z.strictObject({
  agent_id: text.min(1).optional().describe('Who claims the task. Default: the calling agent'),
  ...claimSchema.shape,
});
export const heartbeatRequestSchema = z.strictObject({ fence });
export const completeRequestSchema = z.strictObject({
  fence,
  output: text.nullable().optional(),
  bytes_in: count.optional(),
  bytes_out: count.optional(),
});
export const failRequestSchema = z.strictObject({
  fence,
  error: text.optional(),
  output: text.nullable().optional(),
  bytes_in: count.optional(),
  bytes_out: count.optional(),
  retry: z
    .boolean()
    .optional()
    .describe(
      'Returns the task for another attempt, if it has attempts left. The default is true for a task with `retry`',
    ),
});
export const askRequestSchema = z.strictObject({
  fence,
  question: text.min(1),
  expires_seconds: z
    .number()
    .positive()
    .optional()
    .describe('Seconds until the task fails without an answer. The default is a day'),
  release: z
    .boolean()
    .optional()
    .describe('Gives up the claim: after the answer, any agent can claim the task'),
});
export const answerRequestSchema = z.strictObject({ answer: text.min(1) });
export const cancelRequestSchema = z.strictObject({ reason: text.optional() });

// What lists take.

const page = { limit: z.int().min(1).optional(), cursor: z.string().min(1).optional() };

export const workspaceListSchema = z.strictObject({
  ...page,
  status: workspaceStatus.optional(),
  name: name.optional(),
  path: text.optional(),
  deleted: z.boolean().optional().describe('List only deleted records'),
});
export const sessionListSchema = z.strictObject({ ...page, status: sessionStatus.optional() });
export const sessionTasksSchema = z.strictObject({ ...page, status: taskStatus.optional() });
export const taskListSchema = z.strictObject({
  ...page,
  status: taskStatus.optional(),
  holder: text.min(1).optional(),
  project: projectReference.optional(),
  label: label.optional(),
});
export const pageSchema = z.strictObject(page);

export type NewWorkspace = z.output<typeof newWorkspaceSchema>;
export type WorkspacePatch = z.output<typeof workspacePatchSchema>;
export type NewProject = z.output<typeof newProjectSchema>;
export type ProjectPatch = z.output<typeof projectPatchSchema>;
export type NewSession = z.output<typeof newSessionSchema>;
export type SessionPatch = z.output<typeof sessionPatchSchema>;
export type NewTask = z.output<typeof newTaskSchema>;
export type TaskPatch = z.output<typeof taskPatchSchema>;
export type ClaimRequest = z.output<typeof claimSchema>;
export type CompleteRequest = z.output<typeof completeRequestSchema>;
export type AskRequest = z.output<typeof askRequestSchema>;
export type AnswerRequest = z.output<typeof answerRequestSchema>;
export type FailRequest = z.output<typeof failRequestSchema>;
export type WorkspaceListRequest = z.output<typeof workspaceListSchema>;
export type TaskListRequest = z.output<typeof taskListSchema>;
