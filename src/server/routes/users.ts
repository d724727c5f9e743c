/** Users: who owns agents and data, and how many agents they may have. */
import { z } from 'zod';
import { putUserSchema, userListSchema, userSchema } from '../../registry/schemas.js';
import { pathSegment } from '../path-segment.js';
import { pageQuery } from '../query.js';
import { authenticated, defineRoute, operatorOnly } from '../route.js';

const tags = ['users'];
const params = z.object({ id: pathSegment });

export const userRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/users',
    summary: 'Every user',
    tags,
    principals: operatorOnly,
    query: z.object(pageQuery),
    answers: { 200: userListSchema },
    handler: ({ stoa, caller, query }) => stoa.registry.listUsers(caller, query),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/users/{id}',
    summary: 'One user; others than the operator see only themselves',
    tags,
    principals: authenticated,
    params,
    answers: { 200: userSchema },
    handler: ({ stoa, caller, params: { id } }) => stoa.registry.getUser(caller, id),
  }),
  defineRoute({
    method: 'PUT',
    path: '/v1/users/{id}',
    summary: 'Make a user, or change it; what is not named stays',
    description: 'Only the operator sets `agents_max`.',
    tags,
    principals: ['operator', 'user'],
    params,
    body: putUserSchema.default({}),
    answers: { 200: userSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.registry.putUser(caller, id, body),
  }),
];
