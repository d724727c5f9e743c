/** Operations of a commit in the words of the tools: `text`, `task`, `project`, and names of agents and rooms. */
import type { Caller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { Stoa } from '../../index.js';
import { agentNamed } from '../callers.js';
import { TaskQueue } from '../../workspaces/queue.js';

export type Part = Record<string, unknown>;

/** The fields of the commit for one operation. A field that the commit knows is left as it is. */
export async function operationOf(stoa: Stoa, caller: Caller, given: Part): Promise<Part> {
  const operation = renamed(given);
  switch (operation['op']) {
    case 'task.create': {
      if ('session_id' in operation) return operation;
      const { project, ...rest } = operation;
      const queue = new TaskQueue(stoa.workspaces, caller);
      return { ...rest, session_id: await queue.queueSession(await queue.ensure(textOr(project))) };
    }
    case 'task.claim': {
      const { project, ...rest } = operation;
      if ('project_id' in rest) return operation;
      const id = await new TaskQueue(stoa.workspaces, caller).ensure(textOr(project));
      return { lease_seconds: stoa.limits.mcpTaskLeaseSeconds, ...rest, project_id: id };
    }
    default:
      return withAgent(stoa, caller, operation);
  }
}

export function checkOf(stoa: Stoa, caller: Caller, given: Part): Promise<Part> {
  return withAgent(stoa, caller, renamed(given));
}

/** The words of the tools for fields of a commit. */
function renamed(given: Part): Part {
  const { task, text, reply_to, ...rest } = given;
  return {
    ...rest,
    ...(task !== undefined && { task_id: task }),
    ...(text !== undefined && { body: text }),
    ...(reply_to !== undefined && { pid: reply_to }),
  };
}

async function withAgent(stoa: Stoa, caller: Caller, part: Part): Promise<Part> {
  const { agent, ...rest } = part;
  if (typeof agent !== 'string') return part;
  const found = await agentNamed(stoa, caller, agent);
  if (found === undefined)
    throw new StoaError('not_found', `Unknown agent "${agent.slice(0, 100)}".`, {
      fix: 'Use the name of an agent that agents with action list shows.',
    });
  return { ...rest, agent_id: found.agent_id };
}

function textOr(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
