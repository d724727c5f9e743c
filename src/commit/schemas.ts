/** The schemas of a commit: its checks, its operations, and its answer. */
import { z } from 'zod';
import { setDocumentSchema } from '../datastore/schemas.js';
import { acquireLockSchema } from '../locks/schemas.js';
import { createAgentSchema, heartbeatSchema, updateAgentSchema } from '../registry/schemas.js';
import * as work from '../workspaces/schemas.js';

const namespace = z.string().default('default').describe('The default is `default`');
const version = z
  .int()
  .min(0)
  .optional()
  .describe('The expected current version; 0: the document must not exist');
const fence = z.int().min(0).optional().describe('The fencing number of the lease that the caller holds');
const agentId = z.string().describe('The name or the id of the agent');

const signed = z
  .strictObject({
    agent: z.string(),
    nonce: z.string(),
    timestamp: z.string().describe('Unix milliseconds'),
    signature: z.string().describe('Base64'),
    request: z.string().describe('The JSON text that was signed, with the same `body`'),
  })
  .optional()
  .describe(
    'The signature of an agent with its own key, as in the X-AICQ headers. Without it the server signs for the caller',
  );

export const checkSchema = z
  .discriminatedUnion('check', [
    z.strictObject({
      check: z.literal('data'),
      namespace,
      key: z.string(),
      version: z
        .int()
        .min(0)
        .nullable()
        .describe('The expected current version; 0 or null: the document must not exist'),
    }),
    z.strictObject({ check: z.literal('agent'), agent_id: agentId, version: z.int().min(1) }),
    z.strictObject({ check: z.literal('task'), task_id: work.taskId, version: z.int().min(1) }),
    z.strictObject({
      check: z.literal('claim'),
      task_id: work.taskId,
      fence: z.int().min(1).describe('The number that the claim on the task must have'),
    }),
    z.strictObject({
      check: z.literal('lease'),
      agent_id: agentId,
      fence: z.int().min(0).describe('The number that the lease of the agent must have'),
    }),
    z.strictObject({
      check: z.literal('lock'),
      name: z.string(),
      fence: z.int().min(0).describe('The number that the lock must have; 0: it must be free'),
    }),
  ])
  .meta({ id: 'CommitCheck' });
export type Check = z.output<typeof checkSchema>;

export const operationSchema = z
  .discriminatedUnion('op', [
    setDocumentSchema.extend({ op: z.literal('data.set'), namespace, key: z.string(), if_version: version }),
    z.strictObject({ op: z.literal('data.delete'), namespace, key: z.string(), if_version: version }),
    z.strictObject({
      op: z.literal('data.increment'),
      namespace,
      key: z.string(),
      by: z.number().default(1),
      if_version: version,
    }),
    z.strictObject({
      op: z.literal('data.append'),
      namespace,
      key: z.string(),
      items: z.array(z.unknown()),
      if_version: version,
    }),
    createAgentSchema.extend({ op: z.literal('agent.create') }),
    updateAgentSchema.extend({
      op: z.literal('agent.update'),
      agent_id: agentId,
      if_version: version,
      fence,
    }),
    heartbeatSchema.extend({ op: z.literal('agent.heartbeat'), agent_id: agentId, fence }),
    work.sessionPatchSchema.extend({
      op: z.literal('session.update'),
      session_id: work.sessionId,
      if_version: version,
    }),
    work.newTaskSchema.extend({ op: z.literal('task.create'), session_id: work.sessionId }),
    work.claimRequestSchema
      .omit({ wait: true })
      .extend({ op: z.literal('task.claim'), project_id: work.projectReference }),
    work.heartbeatRequestSchema.extend({ op: z.literal('task.heartbeat'), task_id: work.taskId }),
    work.completeRequestSchema.extend({ op: z.literal('task.complete'), task_id: work.taskId }),
    work.failRequestSchema.extend({ op: z.literal('task.fail'), task_id: work.taskId }),
    work.askRequestSchema.extend({ op: z.literal('task.ask'), task_id: work.taskId }),
    work.answerRequestSchema.extend({ op: z.literal('task.answer'), task_id: work.taskId }),
    work.cancelRequestSchema.extend({ op: z.literal('task.cancel'), task_id: work.taskId }),
    acquireLockSchema.omit({ wait: true }).extend({ op: z.literal('lock.acquire'), name: z.string() }),
    z.strictObject({
      op: z.literal('lock.release'),
      name: z.string(),
      if_fence: z.int().min(1).optional().describe('Only if the lock has this number'),
    }),
    z.strictObject({
      op: z.literal('room.post'),
      room: z
        .string()
        .describe('The name or id of the room; a name that the user does not have creates the room'),
      body: z.string(),
      pid: z.string().optional().describe('The message to reply to'),
      key: z.string().optional().describe('The key of a private room'),
      signed,
    }),
    z.strictObject({
      op: z.literal('dm.send'),
      to: z.string().describe('The name of an agent of the user, or the id of an identity'),
      body: z.string(),
      signed,
    }),
  ])
  .meta({ id: 'CommitOperation' });
export type Operation = z.output<typeof operationSchema>;

export const commitSchema = z
  .strictObject({
    checks: z.array(checkSchema).default([]).describe('All must hold at the moment of the commit'),
    operations: z.array(operationSchema).min(1).describe('Run in order, all or none'),
  })
  .meta({ id: 'Commit' });
export type CommitInput = z.input<typeof commitSchema>;

const failure = {
  code: z.string().describe('The error code, the same as for the operation alone'),
  detail: z.string(),
  fix: z.string().optional(),
};

export const commitAnswerSchema = z
  .union([
    z.object({
      ok: z.literal(true),
      results: z.array(z.unknown()).describe('The answer of each operation, in order'),
      position: z.string().describe('A position of the change feed at or after this commit'),
    }),
    z.object({
      ok: z.literal(false),
      failed: z.union([
        z.object({ check: z.int().describe('The index of the check that failed'), ...failure }),
        z.object({ operation: z.int().describe('The index of the operation with a conflict'), ...failure }),
      ]),
    }),
  ])
  .meta({ id: 'CommitAnswer' });
export type CommitAnswer = z.output<typeof commitAnswerSchema>;
