/** The schemas of workspaces, projects, work sessions and tasks. */
import { z } from 'zod';
import {
  claimSchema,
  heartbeatSchema,
  listedTaskSchema,
  projectSchema,
  sessionSchema,
  taskSchema,
  workspaceSchema,
} from '../../workspaces/records.js';
import * as input from '../../workspaces/schemas.js';
import { pageOf, pageQuery, pathSegment, queryBoolean } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { projects, sessions, tasks, workspaces } from './operations.js';

const { sessionId, taskId } = input;

const workspaceParams = z.object({
  workspace_id: pathSegment.describe('The name or the id (ws_…) of a workspace.'),
});
const projectParams = z.object({
  project_id: pathSegment.describe(
    'The id (proj_…), workspace/project, or the name of a project in `default`.',
  ),
});
const sessionParams = z.object({ session_id: sessionId });
const taskParams = z.object({ task_id: taskId });

/** The query parameters of the lists of workspaces and projects. */
const namedList = z.object({
  status: input.workspaceStatus.optional(),
  name: z.string().optional().meta({ description: 'The exact name.' }),
  path: z.string().optional().meta({ description: 'The exact path.' }),
  deleted: queryBoolean()
    .optional()
    .meta({ description: 'Only deleted records, which can be restored or purged.' }),
  ...pageQuery,
});
const alsoDeleted = z.object({
  deleted: queryBoolean().optional().meta({ description: 'Also if the record is deleted.' }),
});

export const workspaceSchemas = {
  list: { query: namedList, answers: { 200: pageOf(workspaceSchema) } },
  create: { body: input.newWorkspaceSchema, answers: { 201: workspaceSchema } },
  get: { params: workspaceParams, query: alsoDeleted, answers: { 200: workspaceSchema } },
  update: { params: workspaceParams, body: input.workspacePatchSchema, answers: { 200: workspaceSchema } },
  delete: { params: workspaceParams, answers: { 204: null } },
  restore: {
    params: workspaceParams,
    body: input.restoreSchema.default({}),
    answers: { 200: workspaceSchema },
  },
  purge: { params: workspaceParams, answers: { 204: null } },
} satisfies SchemasOf<typeof workspaces>;

export const projectSchemas = {
  list: { params: workspaceParams, query: namedList, answers: { 200: pageOf(projectSchema) } },
  create: { params: workspaceParams, body: input.newProjectSchema, answers: { 201: projectSchema } },
  get: { params: projectParams, query: alsoDeleted, answers: { 200: projectSchema } },
  update: { params: projectParams, body: input.projectPatchSchema, answers: { 200: projectSchema } },
  delete: { params: projectParams, answers: { 204: null } },
  restore: { params: projectParams, body: input.restoreSchema.default({}), answers: { 200: projectSchema } },
  purge: { params: projectParams, answers: { 204: null } },
} satisfies SchemasOf<typeof projects>;

export const sessionSchemas = {
  list: {
    params: projectParams,
    query: z.object({ status: input.sessionStatus.optional(), ...pageQuery }),
    answers: { 200: pageOf(sessionSchema) },
  },
  create: {
    params: projectParams,
    body: input.newSessionSchema.default({}),
    answers: { 201: sessionSchema },
  },
  active: { params: projectParams, answers: { 200: sessionSchema } },
  get: { params: sessionParams, answers: { 200: sessionSchema } },
  update: { params: sessionParams, body: input.sessionPatchSchema, answers: { 200: sessionSchema } },
  delete: { params: sessionParams, answers: { 204: null } },
} satisfies SchemasOf<typeof sessions>;

export const taskSchemas = {
  list: {
    query: z.object({
      status: input.taskStatus.optional(),
      holder: z.string().optional().meta({ description: 'Only tasks that this agent holds now.' }),
      project: input.projectReference.optional(),
      label: input.label.optional().meta({ description: 'Only tasks with this label.' }),
      ...pageQuery,
    }),
    answers: { 200: pageOf(listedTaskSchema) },
    description:
      'In the order of creation. For an operator who names no user, the tasks of all users; a page can then have fewer items than its limit.',
  },
  inSession: {
    params: sessionParams,
    query: z.object({ status: input.taskStatus.optional(), ...pageQuery }),
    answers: { 200: pageOf(taskSchema) },
  },
  create: { params: sessionParams, body: input.newTaskSchema, answers: { 201: taskSchema } },
  add: { params: projectParams, body: input.newTaskSchema, answers: { 201: taskSchema } },
  ready: { params: projectParams, query: z.object(pageQuery), answers: { 200: pageOf(taskSchema) } },
  claim: {
    params: projectParams,
    body: input.claimRequestSchema.default({}),
    answers: { 200: claimSchema, 204: null },
  },
  get: { params: taskParams, answers: { 200: taskSchema } },
  update: { params: taskParams, body: input.taskPatchSchema, answers: { 200: taskSchema } },
  delete: { params: taskParams, answers: { 204: null } },
  heartbeat: { params: taskParams, body: input.heartbeatRequestSchema, answers: { 200: heartbeatSchema } },
  complete: { params: taskParams, body: input.completeRequestSchema, answers: { 200: taskSchema } },
  fail: { params: taskParams, body: input.failRequestSchema, answers: { 200: taskSchema } },
  ask: { params: taskParams, body: input.askRequestSchema, answers: { 200: taskSchema } },
  answer: { params: taskParams, body: input.answerRequestSchema, answers: { 200: taskSchema } },
  release: { params: taskParams, body: input.cancelRequestSchema.default({}), answers: { 200: taskSchema } },
  retry: { params: taskParams, body: input.cancelRequestSchema.default({}), answers: { 200: taskSchema } },
  cancel: { params: taskParams, body: input.cancelRequestSchema.default({}), answers: { 200: taskSchema } },
} satisfies SchemasOf<typeof tasks>;
