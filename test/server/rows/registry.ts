import { randomUUID } from 'node:crypto';
import { operatorCaller } from '../../../src/core/caller.js';
import type { AgentAnswer } from '../../../src/registry/schemas.js';
import type { Running } from '../running.js';
import { type Row, type RowRequest, statuses } from './row.js';

/** One of alice's agents, brought through the given verbs. It is not the signed agent's own. */
export async function newAgent({ stoa }: Running, ...through: ('start' | 'stop')[]): Promise<AgentAnswer> {
  const alice = operatorCaller('alice');
  let agent = await stoa.registry.createAgent(alice, { name: `row-${randomUUID()}x` });
  for (const verb of through) agent = await stoa.registry[verb](alice, agent.agent_id);
  return agent;
}

/**
 * Reads, and writes that anyone of the user may do; an agent that is not the signed one's own is not there
 * for it.
 */
const reading = statuses(200, 200, 404, 200, 404, 401);
const writing = statuses(200, 200, 404, 403, 404, 401);

function onAgent(suffix: string, through: ('start' | 'stop')[], body?: unknown): Row['request'] {
  return async (running): Promise<RowRequest> => ({
    path: `/v1/agents/${(await newAgent(running, ...through)).agent_id}${suffix}`,
    body,
  });
}

async function onSession(running: Running): Promise<RowRequest> {
  const { agent_id } = await newAgent(running, 'start');
  const { session_id } = await running.stoa.registry.openSession(operatorCaller('alice'), agent_id);
  return { path: `/v1/agents/${agent_id}/sessions/${session_id}` };
}

export const registryRows: Record<string, Row> = {
  'GET /v1/agents': {
    request: () => ({ path: '/v1/agents' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'POST /v1/agents': {
    request: () => ({ path: '/v1/agents', body: { name: `new-${randomUUID()}x` } }),
    status: statuses(201, 201, 201, 403, 403, 401),
  },
  'GET /v1/agents/{agent_id}': { request: onAgent('', []), status: reading },
  'PATCH /v1/agents/{agent_id}': { request: onAgent('', [], { labels: { team: 'a' } }), status: writing },
  'DELETE /v1/agents/{agent_id}': {
    request: onAgent('', ['start', 'stop', 'stop']),
    status: statuses(204, 204, 404, 403, 404, 401),
  },
  'POST /v1/agents/{agent_id}/start': { request: onAgent('/start', []), status: writing },
  'POST /v1/agents/{agent_id}/forget': {
    request: onAgent('/forget', []),
    status: statuses(204, 204, 404, 403, 404, 401),
  },
  'POST /v1/agents/{agent_id}/stop': { request: onAgent('/stop', ['start']), status: writing },
  'POST /v1/agents/{agent_id}/restart': { request: onAgent('/restart', ['start']), status: writing },
  'POST /v1/agents/{agent_id}/hibernate': { request: onAgent('/hibernate', ['start']), status: writing },
  'POST /v1/agents/{agent_id}/wake': {
    request: async (running) => {
      const { agent_id } = await newAgent(running, 'start');
      await running.stoa.registry.hibernate(operatorCaller('alice'), agent_id);
      return { path: `/v1/agents/${agent_id}/wake` };
    },
    status: writing,
  },
  'POST /v1/agents/{agent_id}/heartbeat': { request: onAgent('/heartbeat', ['start'], {}), status: writing },
  'GET /v1/agents/{agent_id}/sessions': { request: onAgent('/sessions', []), status: reading },
  'POST /v1/agents/{agent_id}/sessions': {
    request: onAgent('/sessions', ['start'], {}),
    status: statuses(201, 201, 404, 403, 404, 401),
  },
  'GET /v1/agents/{agent_id}/sessions/{session_id}': { request: onSession, status: reading },
  'DELETE /v1/agents/{agent_id}/sessions/{session_id}': { request: onSession, status: writing },
  'GET /v1/users': { request: () => ({ path: '/v1/users' }), status: statuses(200, 403, 403, 403, 403, 401) },
  'GET /v1/users/{user}': {
    request: () => ({ path: '/v1/users/alice' }),
    status: statuses(200, 200, 404, 200, 200, 401),
  },
  'PUT /v1/users/{user}': {
    request: () => ({ path: '/v1/users/alice', body: { email: 'alice@example.org' } }),
    status: statuses(200, 200, 404, 403, 403, 401),
  },
};
