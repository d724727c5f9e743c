/** The records of workspaces as they are stored and answered: the seed's fields. Where they are stored, secrets are sealed. */
import { z } from 'zod';
import {
  count,
  jsonObject,
  projectId,
  seconds,
  sessionId,
  sessionStatus,
  taskId,
  taskStatus,
  workspaceId,
  workspaceStatus,
} from './schemas.js';

const time = z.iso.datetime();

const versioned = { created_at: time, updated_at: time, version: z.int().min(1) };

export const workspaceSchema = z.object({
  id: workspaceId,
  name: z.string(),
  project_path: z.string(),
  status: workspaceStatus,
  owner_id: z.string(),
  claude_key: z.string().nullable().describe('A mask, or null if there is no key'),
  active_tasks: count.describe('Tasks of its live projects that have not ended'),
  ...versioned,
  deleted_at: time.nullable(),
});

export const projectSchema = z.object({
  id: projectId,
  workspace_id: workspaceId,
  name: z.string(),
  path: z.string(),
  description: z.string(),
  git_url: z.string(),
  git_branch: z.string(),
  language: z.string(),
  status: workspaceStatus,
  config: jsonObject.describe('Secrets are replaced by masks'),
  git_info: jsonObject,
  ...versioned,
  deleted_at: time.nullable(),
});

export const sessionSchema = z.object({
  id: sessionId,
  project_id: projectId,
  agent_id: z.string().nullable(),
  process_id: z.int().nullable(),
  status: sessionStatus,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  last_active: time,
  metadata: jsonObject,
  command_count: count,
  bytes_in: count,
  bytes_out: count,
  error_count: count,
  max_idle_time: seconds.describe('Seconds; 0 means no limit'),
  max_lifetime: seconds.describe('Seconds; 0 means no limit'),
  ...versioned,
});

export const taskSchema = z.object({
  id: taskId,
  session_id: sessionId,
  command: z.string(),
  status: taskStatus,
  output: z.string().nullable(),
  error: z.string().nullable(),
  started_at: time.nullable(),
  completed_at: time.nullable(),
  bytes_in: count,
  bytes_out: count,
  duration: z.number().nullable().describe('Seconds from start to end'),
  depends_on: z.array(taskId),
  priority: z.int().describe('A task with a higher priority is claimed first'),
  claimed_by: z.string().nullable(),
  attempts: count.describe('Attempts that ended without a result'),
  max_attempts: count,
  reason: z.string().nullable().describe('Why the task returned to the queue or ended'),
  labels: z.array(z.string()),
  run_at: time
    .nullable()
    .describe('The task is not claimed before this time. Null as soon as the time is reached'),
  retry: z
    .object({ base_seconds: z.number(), max_seconds: z.number() })
    .nullable()
    .describe('The pause after a failed attempt, doubled with each attempt'),
  question: z.string().nullable().describe('The last question of a holder to a person'),
  asked_at: time.nullable(),
  question_expires_at: time.nullable().describe('The task fails if there is no answer by then'),
  answer: z.string().nullable(),
  answered_at: time.nullable(),
  answered_by: z.string().nullable(),
  ...versioned,
});
export const listedTaskSchema = taskSchema.extend({
  project_id: projectId,
  lease_expires_at: time
    .nullable()
    .describe('When the claim ends unless its holder renews it. Null if no agent holds the task'),
});

const leaseSchema = z.object({ fence: z.int(), expires_at: time });
export const claimSchema = z.object({ task: taskSchema, lease: leaseSchema });
export const heartbeatSchema = z.object({ lease: leaseSchema.extend({ holder: z.string() }) });
