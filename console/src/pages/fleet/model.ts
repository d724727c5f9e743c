/** What the fleet page shows, made from agents, tasks and changes. */
import { agentKey } from '../../live/activity.js';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import type { Tone } from '../../ui/parts.js';

export type AgentState = AgentAnswer['status'];

/** The order of the groups: what moves first, what rests last. */
export const states: readonly AgentState[] = [
  'error',
  'running',
  'idle',
  'provisioning',
  'stopping',
  'hibernating',
  'stopped',
];

export const stateTones: Readonly<Record<AgentState, Tone>> = {
  error: 'bad',
  running: 'good',
  idle: 'calm',
  provisioning: 'busy',
  stopping: 'busy',
  hibernating: 'calm',
  stopped: 'calm',
};

export const presenceTones: Readonly<Record<AgentAnswer['presence'], Tone>> = {
  live: 'good',
  lapsed: 'warn',
  lost: 'bad',
  none: 'calm',
};

/** Nobody expects heartbeats of these. */
const atRest: readonly AgentState[] = ['stopped', 'stopping', 'hibernating'];

/** Its lease has ended, although nobody stopped it. */
export function isLost({ presence, status }: AgentAnswer): boolean {
  return presence === 'lost' && !atRest.includes(status);
}

export interface Wait {
  readonly text: string;
  readonly tone: Tone;
}

const waitIn: Readonly<Record<AgentState, Wait | undefined>> = {
  error: { text: 'a person', tone: 'bad' },
  running: { text: 'a task', tone: 'calm' },
  idle: { text: 'a task', tone: 'calm' },
  provisioning: { text: 'its start', tone: 'calm' },
  stopping: { text: 'its end', tone: 'calm' },
  hibernating: { text: 'a wake', tone: 'calm' },
  stopped: undefined,
};

/** What has to happen before the agent goes on. Undefined while it works, and after its end. */
export function waitOf(agent: AgentAnswer, task: ListedTask | undefined): Wait | undefined {
  if (agent.status === 'error') return waitIn.error;
  if (isLost(agent)) return { text: 'a heartbeat', tone: 'bad' };
  if (task?.status === 'input_required') return { text: 'an answer', tone: 'warn' };
  return task === undefined ? waitIn[agent.status] : undefined;
}

export type FleetRow =
  | { readonly kind: 'group'; readonly state: AgentState; readonly count: number }
  | { readonly kind: 'agent'; readonly agent: AgentAnswer };

/** Groups by state; within a group lost agents first, then by name. */
export function fleetRows(agents: readonly AgentAnswer[], wanted: string): FleetRow[] {
  const words = wanted.trim().toLowerCase();
  const groups = new Map<AgentState, AgentAnswer[]>(states.map((state) => [state, []]));
  for (const agent of agents) if (matches(agent, words)) groups.get(agent.status)?.push(agent);
  return states.flatMap((state): FleetRow[] => {
    const group = groups.get(state) ?? [];
    if (group.length === 0) return [];
    group.sort(
      (a, b) =>
        Number(b.presence === 'lost') - Number(a.presence === 'lost') ||
        (a.name < b.name ? -1 : a.name > b.name ? 1 : a.agent_id < b.agent_id ? -1 : 1),
    );
    return [
      { kind: 'group', state, count: group.length },
      ...group.map((agent): FleetRow => ({ kind: 'agent', agent })),
    ];
  });
}

function matches({ name, user, agent_id, labels, status, presence }: AgentAnswer, words: string): boolean {
  if (words === '') return true;
  const text = `${name} ${user} ${agent_id} ${status} ${presence} ${Object.entries(labels).flat().join(' ')}`;
  return text.toLowerCase().includes(words);
}

/** The tasks that somebody holds, by the name that the claim gave and, where it is known, the user of the project. */
export class HeldTasks {
  readonly #byHolder = new Map<string, ListedTask>();

  constructor(tasks: readonly ListedTask[], owners: ReadonlyMap<string, string>) {
    for (const task of tasks) {
      if (task.claimed_by === null || (task.status !== 'running' && task.status !== 'input_required'))
        continue;
      this.#byHolder.set(agentKey(owners.get(task.project_id) ?? null, task.claimed_by), task);
    }
  }

  of({ user, name, agent_id }: AgentAnswer): ListedTask | undefined {
    const find = (holder: string): ListedTask | undefined =>
      this.#byHolder.get(agentKey(user, holder)) ?? this.#byHolder.get(agentKey(null, holder));
    return find(name) ?? find(agent_id);
  }
}
