/** Projects: their records, their sessions, and the tasks that wait in them. */
import { z } from 'zod';
import { StoaError } from '../../errors.js';
import * as schemas from '../../workspaces/schemas.js';
import { goneSignal } from '../gone.js';
import { pageQuery, queryBoolean } from '../query.js';
import { answer, authenticated, defineRoute } from '../route.js';
import { positioned } from './positioned.js';

const tags = ['projects'];
const params = z.object({ id: schemas.projectId });

export const projectRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/projects/{id}',
    summary: 'One project',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    query: z.object({ deleted: queryBoolean().optional().meta({ description: 'Also when it is deleted.' }) }),
    answers: { 200: schemas.projectSchema },
    handler: ({ stoa, caller, params: { id }, query }) =>
      stoa.workspaces.getProject(caller, id, { deleted: query.deleted ?? false }),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/projects/{id}',
    summary: 'Change a project, or move it to another workspace; what is not named stays',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.projectPatchSchema,
    answers: { 200: schemas.projectSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.updateProject(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/projects/{id}',
    summary: 'Delete a project: it is hidden with its sessions and tasks, and can be restored',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.deleteProject(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/projects/{id}/restore',
    summary: 'Bring a deleted project back',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.restoreSchema.default({}),
    answers: { 200: schemas.projectSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.restoreProject(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/projects/{id}/purge',
    summary: 'Remove a deleted project for good, with its sessions and tasks',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.purgeProject(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/projects/{id}/sessions',
    summary: 'The sessions of a project',
    tags,
    principals: authenticated,
    params,
    query: z.object({ status: schemas.sessionStatus.optional(), ...pageQuery }),
    answers: { 200: schemas.sessionPageSchema },
    handler: ({ stoa, caller, params: { id }, query }) =>
      positioned(stoa, () => stoa.workspaces.listSessions(caller, id, query)),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/projects/{id}/sessions',
    summary: 'Make a session in a project; with status "active" it starts at once',
    tags,
    principals: authenticated,
    creates: true,
    versioned: true,
    params,
    body: schemas.newSessionSchema.default({}),
    answers: { 201: schemas.sessionSchema },
    handler: ({ stoa, caller, params: { id }, body, idempotency }) =>
      stoa.workspaces.createSession(caller, id, body, { idempotency }),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/projects/{id}/active-session',
    summary: 'The session that holds the single active slot of a project; 404 when none does',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 200: schemas.sessionSchema },
    handler: async ({ stoa, caller, params: { id } }) => {
      const session = await stoa.workspaces.activeSession(caller, id);
      if (session === null) throw new StoaError('not_found', `The project ${id} has no active session.`);
      return session;
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/projects/{id}/tasks/ready',
    summary: 'The tasks that could be claimed now, in the order in which they would be',
    tags,
    principals: authenticated,
    params,
    query: z.object(pageQuery),
    answers: { 200: schemas.taskPageSchema },
    handler: ({ stoa, caller, params: { id }, query }) => stoa.workspaces.listReadyTasks(caller, id, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/projects/{id}/tasks/claim',
    summary: 'Claim the first ready task; 204 when there is none within `wait` seconds',
    tags,
    principals: authenticated,
    params,
    body: schemas.claimRequestSchema.default({}),
    answers: { 200: schemas.claimSchema, 204: null },
    handler: async ({ stoa, caller, params: { id }, body, reply }) => {
      stoa.registry.checkOwnName({ ...caller, agent: body.agent_id ?? null });
      // No task goes to somebody who is gone.
      const signal = (body.wait ?? 0) > 0 ? goneSignal(reply) : undefined;
      return (await stoa.workspaces.claimTask(caller, id, body, signal)) ?? answer(204);
    },
  }),
];
