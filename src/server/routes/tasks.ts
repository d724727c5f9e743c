/** Single tasks: their records, and what the holder of a claim reports. */
import { z } from 'zod';
import * as schemas from '../../workspaces/schemas.js';
import { authenticated, defineRoute } from '../route.js';

const tags = ['tasks'];
const params = z.object({ id: schemas.taskId });

export const taskRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/tasks/{id}',
    summary: 'One task',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 200: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id } }) => stoa.workspaces.getTask(caller, id),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/tasks/{id}',
    summary: 'Change a task that is still pending',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.taskPatchSchema,
    answers: { 200: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.updateTask(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/tasks/{id}',
    summary: 'Remove a task; unless it was completed, what depends on it is cancelled',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.deleteTask(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/tasks/{id}/heartbeat',
    summary: 'Renew the lease of a claim',
    tags,
    principals: authenticated,
    params,
    body: schemas.heartbeatRequestSchema,
    answers: { 200: schemas.heartbeatSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.workspaces.heartbeatTask(caller, id, body),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/tasks/{id}/complete',
    summary: 'Report the result of a claimed task; the same report again is no error',
    tags,
    principals: authenticated,
    params,
    body: schemas.completeRequestSchema,
    answers: { 200: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.workspaces.completeTask(caller, id, body),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/tasks/{id}/fail',
    summary: 'Report that a claimed task failed; with `retry` it goes back while it has attempts left',
    tags,
    principals: authenticated,
    params,
    body: schemas.failRequestSchema,
    answers: { 200: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.workspaces.failTask(caller, id, body),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/tasks/{id}/cancel',
    summary: 'End a task that is not over, whoever holds it',
    tags,
    principals: authenticated,
    params,
    body: schemas.cancelRequestSchema.default({}),
    answers: { 200: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.workspaces.cancelTask(caller, id, body),
  }),
];
