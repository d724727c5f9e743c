/** Tokens of users, for the operator. */
import { z } from 'zod';
import { createTokenSchema, createdTokenSchema, tokenSchema } from '../../identity/schemas.js';
import { pathSegment } from '../path-segment.js';
import { pageQuery } from '../query.js';
import { defineRoute, operatorOnly } from '../route.js';

const params = z.object({ id: pathSegment });
const path = '/v1/users/{id}/tokens';
const tags = ['users'];

export const tokenRoutes = [
  defineRoute({
    method: 'GET',
    path,
    summary: 'The tokens of a user, without their secrets',
    tags,
    principals: operatorOnly,
    params,
    query: z.object(pageQuery),
    answers: {
      200: z
        .object({ items: z.array(tokenSchema), next_cursor: z.string().nullable() })
        .meta({ id: 'TokenPage' }),
    },
    handler: ({ stoa, caller, params: { id }, query }) => stoa.identity.listTokens(caller, id, query),
  }),
  defineRoute({
    method: 'POST',
    path,
    summary: 'Make a token for a user',
    description:
      'The secret is in this answer only. The answer is not kept: a repeat of its Idempotency-Key is 409.',
    tags,
    principals: operatorOnly,
    creates: true,
    params,
    body: createTokenSchema,
    answers: { 201: createdTokenSchema },
    handler: ({ stoa, caller, params: { id }, body, idempotency }) =>
      stoa.identity.createToken(caller, id, body, idempotency),
  }),
  defineRoute({
    method: 'DELETE',
    path,
    summary: 'Revoke a token of a user, or all of them',
    tags,
    principals: operatorOnly,
    params,
    query: z.object({ token: z.string().meta({ description: 'The id of the token, or `all`.' }) }),
    answers: {
      200: z
        .object({ revoked: z.array(z.string()).describe('The ids of the tokens that went') })
        .meta({ id: 'RevokedTokens' }),
    },
    handler: async ({ stoa, caller, params: { id }, query: { token } }) => ({
      revoked: await stoa.identity.revokeTokens(caller, id, token === 'all' ? undefined : token),
    }),
  }),
];
