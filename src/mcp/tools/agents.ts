/** The tool that lists and registers agents. */
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import { type AgentAnswer, agentStatusSchema } from '../../registry/schemas.js';
import { cursor, limit, nextCursor } from './fields.js';
import { agentNamed, namingOf } from '../callers.js';
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
  output: z.object({
    you: z.string().nullable(),
    agents: z.array(agent),
    next_cursor: nextCursor.optional(),
  }),
  run: async ({ stoa, caller }, { action, name, labels, ...query }) => {
    if (action === 'list') {
      const page = await stoa.registry.listAgents(caller, { ...query, name });
      return { you: caller.agent, agents: page.items.map(shown), next_cursor: page.next_cursor };
    }
    // Refused before anything happens if the name belongs to an agent that signs its requests.
    const { agent: own } = await stoa.registry.agents.actingAs(caller, name);
    if (own === null)
      throw new StoaError('invalid_request', `name is missing. The action "${action}" needs a name.`, {
        details: { errors: [{ field: 'name', message: 'is missing' }] },
      });
    if (action === 'heartbeat') {
      const known = await agentNamed(stoa, caller, own);
      if (known === undefined)
        throw new StoaError('not_found', `Unknown agent "${own}".`, {
          fix: 'Register the name first, with action register.',
        });
      return { you: caller.agent, agents: [await alive(stoa, caller, known)] };
    }
    const found = await registered(stoa, caller, own, labels);
    if (own !== caller.agent) await namingOf(caller)?.rename(own);
    return { you: own, agents: [await alive(stoa, { ...caller, agent: own }, found)] };
  },
});

export const agentTools = [agents];

/**
 * The agent of that name, made if it is new. A client with another name renames its agent. An agent of the
 * new name that is not present is taken over: it is the same agent in an earlier conversation.
 */
async function registered(
  stoa: Stoa,
  caller: Caller,
  name: string,
  labels: Record<string, string> | undefined,
): Promise<AgentAnswer> {
  const quiet = { ...caller, agent: null };
  const known = await agentNamed(stoa, caller, name);
  if (known === undefined) {
    const own = caller.agent === null ? undefined : await agentNamed(stoa, caller, caller.agent);
    return own === undefined
      ? stoa.registry.createAgent(quiet, { name, labels })
      : stoa.registry.updateAgent(quiet, own.agent_id, { name, labels });
  }
  // Without a session the client may be that agent: it sends its name with each request.
  if (name !== caller.agent && known.presence === 'live' && namingOf(caller)?.isKept === true)
    throw new StoaError('already_exists', `Another agent that is present has the name "${name}".`, {
      fix: 'Choose another name, or keep the one that you have.',
      details: { name },
    });
  return labels === undefined
    ? known
    : stoa.registry.updateAgent({ ...caller, agent: name }, known.agent_id, { labels });
}

/** An agent that calls is running, so its status is updated. */
async function alive(stoa: Stoa, caller: Caller, found: AgentAnswer): Promise<z.output<typeof agent>> {
  if (startable.has(found.status)) await stoa.registry.start(caller, found.agent_id);
  await stoa.registry.recordAgentCall({ ...caller, agent: found.name });
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
