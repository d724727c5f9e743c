/** Sessions of agents. */
import { z } from 'zod';
import {
  openSessionSchema,
  sessionListSchema,
  sessionSchema,
  sessionStatusSchema,
} from '../../registry/schemas.js';
import { pageQuery } from '../query.js';
import { authenticated, defineRoute } from '../route.js';

const tags = ['agents'];
const agentParams = { id: z.string().meta({ description: 'The agent: 64 hexadecimal digits.' }) };
const sessionParams = { ...agentParams, sid: z.string().meta({ description: 'The session: a UUID.' }) };

export const agentSessionRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/agents/{id}/sessions',
    summary: 'The sessions of an agent, in the order in which they were opened',
    tags,
    principals: authenticated,
    params: z.object(agentParams),
    query: z.object({ status: sessionStatusSchema.optional(), ...pageQuery }),
    answers: { 200: sessionListSchema },
    handler: ({ stoa, caller, params: { id }, query }) => stoa.registry.listSessions(caller, id, query),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/agents/{id}/sessions',
    summary: 'Open a session; a sleeping agent is asked to wake',
    tags,
    principals: authenticated,
    creates: true,
    params: z.object(agentParams),
    body: openSessionSchema.default({}),
    answers: { 201: sessionSchema },
    handler: ({ stoa, caller, params: { id }, body, idempotency }) =>
      stoa.registry.openSession(caller, id, body, idempotency),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/agents/{id}/sessions/{sid}',
    summary: 'One session',
    tags,
    principals: authenticated,
    params: z.object(sessionParams),
    answers: { 200: sessionSchema },
    handler: ({ stoa, caller, params: { id, sid } }) => stoa.registry.getSession(caller, sid, id),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/agents/{id}/sessions/{sid}',
    summary: 'Close a session; closing twice is no error',
    tags,
    principals: authenticated,
    params: z.object(sessionParams),
    answers: { 200: sessionSchema },
    handler: ({ stoa, caller, params: { id, sid } }) => stoa.registry.closeSession(caller, sid, id),
  }),
];
