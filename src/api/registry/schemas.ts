/** The schemas of agents, agent sessions, users, tokens and links of messaging identities. */
import { z } from 'zod';
import { createTokenSchema, createdTokenSchema, tokenSchema } from '../../identity/schemas.js';
import * as registry from '../../registry/schemas.js';
import { pageOf, pageQuery, pathSegment } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { agents, links, tokens, users } from './operations.js';

const agentId = pathSegment.meta({ description: 'The name or the id of the agent.' });
const agentParams = z.object({ agent_id: agentId });
const sessionParams = z.object({
  agent_id: agentId,
  session_id: z.string().meta({ description: 'The session: a UUID.' }),
});
const userParams = z.object({ user: pathSegment });
const identityParams = z.object({ identity: z.string() });
const changed = { params: agentParams, answers: { 200: registry.agentSchema } };

export const linkSchema = z
  .object({
    identity: z.string(),
    user: z.string(),
    agent_id: z.string().nullable(),
    agent_name: z.string().nullable(),
    write: z.boolean(),
    namespaces: z.array(z.string()).nullable(),
    linked_at: z.string(),
  })
  .meta({ id: 'IdentityLink' });

export const agentSchemas = {
  list: {
    query: z.object({
      status: registry.agentStatusSchema.optional(),
      name: z.string().optional().meta({ description: 'The exact name.' }),
      label: z.string().optional().meta({ description: '`name` or `name=value`.' }),
      ...pageQuery,
    }),
    answers: { 200: pageOf(registry.agentSchema) },
  },
  create: { body: registry.createAgentSchema, answers: { 201: registry.agentSchema } },
  get: changed,
  update: { ...changed, body: registry.updateAgentSchema },
  delete: { params: agentParams, answers: { 204: null } },
  forget: { params: agentParams, answers: { 204: null } },
  start: changed,
  stop: changed,
  restart: changed,
  hibernate: changed,
  wake: changed,
  heartbeat: {
    params: agentParams,
    body: registry.heartbeatSchema.default({}),
    answers: { 200: z.object({ lease: registry.leaseSchema }) },
  },
  listSessions: {
    params: agentParams,
    query: z.object({ status: registry.sessionStatusSchema.optional(), ...pageQuery }),
    answers: { 200: pageOf(registry.sessionSchema) },
  },
  openSession: {
    params: agentParams,
    body: registry.openSessionSchema.default({}),
    answers: { 201: registry.sessionSchema },
  },
  getSession: { params: sessionParams, answers: { 200: registry.sessionSchema } },
  closeSession: { params: sessionParams, answers: { 200: registry.sessionSchema } },
  listIdentities: {
    params: agentParams,
    query: z.object(pageQuery),
    answers: { 200: pageOf(linkSchema) },
  },
} satisfies SchemasOf<typeof agents>;

export const userSchemas = {
  list: { query: z.object(pageQuery), answers: { 200: pageOf(registry.userSchema) } },
  get: { params: userParams, answers: { 200: registry.userSchema } },
  set: {
    description: 'Only the operator sets `agents_max`.',
    params: userParams,
    body: registry.putUserSchema.default({}),
    answers: { 200: registry.userSchema },
  },
} satisfies SchemasOf<typeof users>;

export const tokenSchemas = {
  list: {
    params: userParams,
    query: z.object(pageQuery),
    answers: { 200: pageOf(tokenSchema).meta({ id: 'TokenPage' }) },
  },
  create: {
    description:
      'Only this response contains the secret. The response is not stored: a repeat with its ' +
      'Idempotency-Key gets 409.',
    params: userParams,
    body: createTokenSchema,
    answers: { 201: createdTokenSchema },
  },
  revoke: {
    params: userParams,
    query: z.object({ token: z.string().meta({ description: 'The id of the token, or `all`.' }) }),
    answers: {
      200: z
        .object({ revoked: z.array(z.string()).describe('The ids of the revoked tokens') })
        .meta({ id: 'RevokedTokens' }),
    },
  },
} satisfies SchemasOf<typeof tokens>;

export const linkSchemas = {
  set: {
    description:
      'The identity must agree: `consent` is its signature over ' +
      '`stoa-link|{identity}|{agent_id}|{signed_at}`, at most an hour old. The operator does not need ' +
      'it, nor does a change of a link to the same user.',
    params: identityParams,
    body: z
      .strictObject({
        agent_id: z.string().min(1).meta({ description: 'A registry agent of the user.' }),
        write: z.boolean().default(true),
        namespaces: z.array(z.string()).nullable().default(null).meta({
          description: 'The namespaces of the data store that the identity can access; null means all.',
        }),
        consent: z
          .strictObject({
            signed_at: z.iso.datetime().meta({ description: 'As it was signed, character by character.' }),
            signature: z.string().meta({ description: 'Base64.' }),
          })
          .optional(),
      })
      .meta({ id: 'LinkIdentity' }),
    answers: { 200: linkSchema },
  },
  delete: {
    description: 'Allowed for the user and for the identity itself.',
    params: identityParams,
    answers: { 204: null },
  },
} satisfies SchemasOf<typeof links>;
