/** Work sessions of projects, and the tasks in them. */
import { z } from 'zod';
import * as schemas from '../../workspaces/schemas.js';
import { pageQuery } from '../query.js';
import { authenticated, defineRoute } from '../route.js';
import { positioned } from './positioned.js';

const tags = ['sessions'];
const params = z.object({ id: schemas.sessionId });

export const workSessionRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/sessions/{id}',
    summary: 'One session',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 200: schemas.sessionSchema },
    handler: ({ stoa, caller, params: { id } }) => stoa.workspaces.getSession(caller, id),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/sessions/{id}',
    summary: 'Change a session or move it to another status; `takeover` ends the one that holds the slot',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.sessionPatchSchema,
    answers: { 200: schemas.sessionSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.updateSession(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/sessions/{id}',
    summary: 'Remove a session with its tasks',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.deleteSession(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/sessions/{id}/tasks',
    summary: 'The tasks of a session',
    tags,
    principals: authenticated,
    params,
    query: z.object({ status: schemas.taskStatus.optional(), ...pageQuery }),
    answers: { 200: schemas.taskPageSchema },
    handler: ({ stoa, caller, params: { id }, query }) =>
      positioned(stoa, () => stoa.workspaces.listTasks(caller, id, query)),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/sessions/{id}/tasks',
    summary: 'Make a task in a session',
    tags,
    principals: authenticated,
    creates: true,
    versioned: true,
    params,
    body: schemas.newTaskSchema,
    answers: { 201: schemas.taskSchema },
    handler: ({ stoa, caller, params: { id }, body, idempotency }) =>
      stoa.workspaces.createTask(caller, id, body, { idempotency }),
  }),
];
