/** The tool that lists and registers agents. */
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import { type AgentAnswer, agentStatusSchema } from '../../registry/schemas.js';
import { cursor, limit, nextCursor } from '../fields.js';
import { namingOf } from '../callers.js';
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
    'list: the agents, whether they are alive, what they are labelled with; you is your name. register: ' +
    'announce yourself, with another name or labels if you like. Any call shows that you are alive.',
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
  output: z.object({ you: z.string().nullable(), agents: z.array(agent), next_cursor: nextCursor.optional() }),
  run: async ({ stoa, caller }, { action, name, labels, ...query }) => {
    if (action === 'list') {
      const page = await stoa.registry.listAgents(caller, { ...query, name });
      return { you: caller.agent, agents: page.items.map(shown), next_cursor: page.next_cursor };
    }
    if (action === 'heartbeat' && name !== undefined && name !== caller.agent)
      return { you: caller.agent, agents: [await alive(stoa, caller, name)] };
    const own = name ?? caller.agent ?? undefined;
    if (own === undefined)
      throw new StoaError('invalid_request', `name: is missing, and ${action} needs it.`, {
        details: { errors: [{ field: 'name', message: 'is missing' }] },
      });
    const you = own === caller.agent ? caller : await renamed(stoa, caller, own);
    const found = await ensured(stoa, you, own, labels);
    return { you: own, agents: [await alive(stoa, you, found)] };
  },
});

export const agentTools = [agents];

/**
 * The agent of this client gets another name. An agent of that name that is not present is taken over: it is
 * the same agent in an earlier conversation.
 */
async function renamed(stoa: Stoa, caller: Caller, name: string): Promise<Caller> {
  const { port } = stoa.registry;
  const quiet = { ...caller, agent: null };
  const other = await port.agentNamed(caller.user, name);
  if (other !== undefined && (await stoa.registry.getAgent(quiet, other)).presence === 'live')
    throw new StoaError('already_exists', `Another agent that is present has the name "${name}".`, {
      fix: 'Choose another name, or keep the one that you have.',
      details: { name },
    });
  const own = caller.agent === null ? undefined : await port.agentNamed(caller.user, caller.agent);
  if (other === undefined && own !== undefined) await stoa.registry.updateAgent(quiet, own, { name });
  await namingOf(caller)?.rename(name);
  return { ...caller, agent: name };
}

/** The agent of that name; a first write makes it. */
async function ensured(
  stoa: Stoa,
  caller: Caller,
  name: string,
  labels: Record<string, string> | undefined,
): Promise<string> {
  const known = await stoa.registry.port.agentNamed(caller.user, name);
  if (known === undefined)
    return (await stoa.registry.createAgent({ ...caller, agent: null }, { name, labels })).agent_id;
  if (labels !== undefined) await stoa.registry.updateAgent(caller, known, { labels });
  return known;
}

/** An agent that calls is running, so its status is updated. */
async function alive(stoa: Stoa, caller: Caller, nameOrId: string): Promise<z.output<typeof agent>> {
  const found = await stoa.registry.getAgent(caller, await stoa.registry.agentIdOf(caller, nameOrId));
  if (startable.has(found.status)) await stoa.registry.start(caller, found.agent_id);
  await stoa.registry.sawAgent({ ...caller, agent: found.name });
  return shown(await stoa.registry.getAgent(caller, found.agent_id));
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
