/** Workspaces, and the projects in them. */
import { z } from 'zod';
import * as schemas from '../../workspaces/schemas.js';
import { pageQuery, queryBoolean } from '../query.js';
import { authenticated, defineRoute } from '../route.js';

const tags = ['workspaces'];
const params = z.object({ id: schemas.workspaceId });

/** What lists of workspaces and of projects take. */
const listQuery = z.object({
  status: schemas.workspaceStatus.optional(),
  name: z.string().optional().meta({ description: 'The exact name.' }),
  path: z.string().optional().meta({ description: 'The exact path.' }),
  deleted: queryBoolean()
    .optional()
    .meta({ description: 'Only the deleted ones, which can be restored or purged.' }),
  ...pageQuery,
});

export const workspaceRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/workspaces',
    summary: 'The workspaces that the caller reaches',
    tags,
    principals: authenticated,
    query: listQuery,
    answers: { 200: schemas.workspacePageSchema },
    handler: ({ stoa, caller, query }) => stoa.workspaces.listWorkspaces(caller, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/workspaces',
    summary: 'Make a workspace',
    tags,
    principals: authenticated,
    creates: true,
    versioned: true,
    body: schemas.newWorkspaceSchema,
    answers: { 201: schemas.workspaceSchema },
    handler: ({ stoa, caller, body, idempotency }) =>
      stoa.workspaces.createWorkspace(caller, body, { idempotency }),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/workspaces/{id}',
    summary: 'One workspace',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    query: z.object({ deleted: queryBoolean().optional().meta({ description: 'Also when it is deleted.' }) }),
    answers: { 200: schemas.workspaceSchema },
    handler: ({ stoa, caller, params: { id }, query }) =>
      stoa.workspaces.getWorkspace(caller, id, { deleted: query.deleted ?? false }),
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/workspaces/{id}',
    summary: 'Change a workspace; what is not named stays',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.workspacePatchSchema,
    answers: { 200: schemas.workspaceSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.updateWorkspace(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/workspaces/{id}',
    summary: 'Delete a workspace: it is hidden with all that is in it, and can be restored',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.deleteWorkspace(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/workspaces/{id}/restore',
    summary: 'Bring a deleted workspace back',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: schemas.restoreSchema.default({}),
    answers: { 200: schemas.workspaceSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.workspaces.restoreWorkspace(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/workspaces/{id}/purge',
    summary: 'Remove a deleted workspace for good, with all that is in it',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: ({ stoa, caller, params: { id }, ifVersion }) =>
      stoa.workspaces.purgeWorkspace(caller, id, { ifVersion }).then(() => undefined),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/workspaces/{id}/projects',
    summary: 'The projects of a workspace',
    tags,
    principals: authenticated,
    params,
    query: listQuery,
    answers: { 200: schemas.projectPageSchema },
    handler: ({ stoa, caller, params: { id }, query }) => stoa.workspaces.listProjects(caller, id, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/workspaces/{id}/projects',
    summary: 'Make a project in a workspace',
    tags,
    principals: authenticated,
    creates: true,
    versioned: true,
    params,
    body: schemas.newProjectSchema,
    answers: { 201: schemas.projectSchema },
    handler: ({ stoa, caller, params: { id }, body, idempotency }) =>
      stoa.workspaces.createProject(caller, id, body, { idempotency }),
  }),
];
