/** Agents: their records, their lifecycle, their leases. */
import { z } from 'zod';
import {
  agentListSchema,
  agentSchema,
  agentStatusSchema,
  createAgentSchema,
  heartbeatAnswerSchema,
  heartbeatSchema,
  updateAgentSchema,
} from '../../registry/schemas.js';
import { pageQuery } from '../query.js';
import { JsonText, authenticated, defineRoute } from '../route.js';
import { positioned } from './positioned.js';

const tags = ['agents'];
const params = z.object({ id: z.string().meta({ description: 'The agent: 64 hexadecimal digits.' }) });

const verbs = {
  start: 'One step towards running',
  stop: 'One step towards stopped',
  restart: 'Through stopped to provisioning, in one commit',
  hibernate: 'Put an agent without active sessions to sleep',
  wake: 'Ask a sleeping agent to come back',
} as const;

const verbNames = Object.keys(verbs) as (keyof typeof verbs)[]; // Object.keys forgets the type of the keys.

export const agentRoutes = [
  defineRoute({
    method: 'GET',
    path: '/v1/agents',
    summary: 'The agents that the caller reaches',
    tags,
    principals: authenticated,
    query: z.object({
      status: agentStatusSchema.optional(),
      name: z.string().optional().meta({ description: 'The exact name.' }),
      label: z.string().optional().meta({ description: '`name` or `name=value`.' }),
      ...pageQuery,
    }),
    answers: { 200: agentListSchema },
    handler: ({ stoa, caller, query }) => positioned(stoa, () => stoa.registry.listAgents(caller, query)),
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/agents',
    summary: 'Make an agent',
    tags,
    principals: ['operator', 'user'],
    creates: true,
    versioned: true,
    body: createAgentSchema,
    answers: { 201: agentSchema },
    handler: ({ stoa, caller, body, idempotency }) => stoa.registry.createAgent(caller, body, idempotency),
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/agents/{id}',
    summary: 'One agent',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 200: agentSchema },
    handler: async ({ stoa, caller, params: { id } }) => {
      const { json, version } = await stoa.registry.agentText(caller, id);
      return new JsonText(json, version);
    },
  }),
  defineRoute({
    method: 'PATCH',
    path: '/v1/agents/{id}',
    summary: 'Change an agent; what is not named stays',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    body: updateAgentSchema,
    answers: { 200: agentSchema },
    handler: ({ stoa, caller, params: { id }, body, ifVersion }) =>
      stoa.registry.updateAgent(caller, id, body, { ifVersion }),
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/agents/{id}',
    summary: 'Remove a stopped or failed agent with its sessions',
    tags,
    principals: authenticated,
    versioned: true,
    params,
    answers: { 204: null },
    handler: async ({ stoa, caller, params: { id }, ifVersion, streams }) => {
      await stoa.registry.deleteAgent(caller, id, { ifVersion });
      // Its signature opens nothing from now on.
      streams.endOf(({ agentId }) => agentId === id.toLowerCase());
      return undefined;
    },
  }),
  ...verbNames.map((verb) =>
    defineRoute({
      method: 'POST',
      path: `/v1/agents/{id}/${verb}`,
      summary: verbs[verb],
      tags,
      principals: authenticated,
      versioned: true,
      params,
      answers: { 200: agentSchema },
      handler: ({ stoa, caller, params: { id }, ifVersion }) =>
        stoa.registry[verb](caller, id, { ifVersion }),
    }),
  ),
  defineRoute({
    method: 'POST',
    path: '/v1/agents/{id}/heartbeat',
    summary: 'Take or renew the lease of an agent',
    tags,
    principals: authenticated,
    params,
    body: heartbeatSchema.default({}),
    answers: { 200: heartbeatAnswerSchema },
    handler: ({ stoa, caller, params: { id }, body }) => stoa.registry.heartbeat(caller, id, body),
  }),
];
