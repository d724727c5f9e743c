/** The tool that lists and registers agents. */
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import { type AgentAnswer, agentStatusSchema } from '../../registry/schemas.js';
import { cursor, limit, nextCursor } from '../fields.js';
import { defineTool } from '../tool.js';

const agent = z.looseObject({
  agent_id: z.string(),
  name: z.string(),
  status: z.string(),
  presence: z.string().describe('live: the agent sends heartbeats'),
  labels: z.record(z.string(), z.string()),
});

const agents = defineTool({
  name: 'agents',
  title: 'Agents',
  description:
    'list: the other agents, whether they are alive, what they are labelled with. register: announce ' +
    'yourself by name (once, at the start), or change your labels. heartbeat: show that you are alive, ' +
    'before lease_expires_at.',
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  input: z.strictObject({
    action: z.enum(['list', 'register', 'heartbeat']).default('list'),
    name: z.string().optional().describe('register, heartbeat: you; list: only this name'),
    labels: z.record(z.string(), z.string()).optional().describe('register: such as role, skills'),
    status: agentStatusSchema.optional().describe('list: only in this status'),
    label: z.string().optional().describe('list: only with "name" or "name=value"'),
    limit,
    cursor,
  }),
  output: z.object({ agents: z.array(agent), next_cursor: nextCursor.optional() }),
  run: async ({ stoa, caller }, { action, name, labels, ...query }) => {
    if (action === 'list') {
      const page = await stoa.registry.listAgents(caller, { ...query, name });
      return { agents: page.items.map(shown), next_cursor: page.next_cursor };
    }
    const own = name ?? caller.agent ?? undefined;
    if (own === undefined)
      throw new StoaError('invalid_request', `name: is missing, and ${action} needs it.`, {
        details: { errors: [{ field: 'name', message: 'is missing' }] },
      });
    const known = await named(stoa, caller, own);
    if (action === 'heartbeat') {
      if (known === undefined)
        throw new StoaError('not_found', `Unknown agent "${own}".`, { fix: 'Register it first.' });
      return { agents: [await alive(stoa, caller, known)] };
    }
    const made = known ?? (await stoa.registry.createAgent(caller, { name: own, labels }));
    const labelled =
      known === undefined || labels === undefined
        ? made
        : await stoa.registry.updateAgent(caller, made.agent_id, { labels });
    return { agents: [await alive(stoa, caller, labelled)] };
  },
});

export const agentTools = [agents];

async function named(stoa: Stoa, caller: Caller, name: string): Promise<AgentAnswer | undefined> {
  return (await stoa.registry.listAgents(caller, { name, limit: 1 })).items[0];
}

/** An agent that calls is running, so its status is updated. */
async function alive(stoa: Stoa, caller: Caller, found: AgentAnswer): Promise<z.output<typeof agent>> {
  const started = startable.has(found.status) ? await stoa.registry.start(caller, found.agent_id) : found;
  const lease = await stoa.registry.heartbeat(caller, found.agent_id, { holder: caller.agent ?? found.name });
  const { agent_id, name, presence, labels } = await stoa.registry.getAgent(caller, found.agent_id);
  return {
    agent_id,
    name,
    status: started.status,
    presence,
    labels,
    fence: lease.lease.fence,
    lease_expires_at: lease.lease.expires_at,
  };
}

const startable: ReadonlySet<string> = new Set(['provisioning', 'stopped', 'error']);

function shown({ agent_id, name, status, presence, labels, lease }: AgentAnswer): z.output<typeof agent> {
  return {
    agent_id,
    name,
    status,
    presence,
    labels,
    ...(lease !== null && { lease_expires_at: lease.expires_at }),
  };
}
