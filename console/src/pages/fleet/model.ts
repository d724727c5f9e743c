/** What the fleet page shows, made from agents, tasks and changes. */
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
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

export type FleetRow =
  | { readonly kind: 'group'; readonly state: AgentState; readonly count: number }
  | { readonly kind: 'agent'; readonly agent: AgentAnswer };

/** Groups by state, and within a group by name. */
export function fleetRows(agents: readonly AgentAnswer[], wanted: string): FleetRow[] {
  const words = wanted.trim().toLowerCase();
  const groups = new Map<AgentState, AgentAnswer[]>(states.map((state) => [state, []]));
  for (const agent of agents) if (matches(agent, words)) groups.get(agent.status)?.push(agent);
  return states.flatMap((state): FleetRow[] => {
    const group = groups.get(state) ?? [];
    if (group.length === 0) return [];
    group.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.agent_id < b.agent_id ? -1 : 1));
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

/** Names are unique within a user only. */
function agentKey(user: string | null, name: string): string {
  return `${user ?? ''} ${name}`;
}

export interface Speaker {
  readonly name: string;
  readonly isKept: boolean;
}

export interface Activity {
  readonly wroteAtMs: number | undefined;
  readonly wrote: string | undefined;
  readonly saidAtMs: number | undefined;
}

const nothingYet: Activity = { wroteAtMs: undefined, wrote: undefined, saidAtMs: undefined };

/** What each agent did last, as far as the recent changes tell. */
export class Activities {
  readonly #byAgent = new Map<string, Activity>();
  /** The last message of each identity in public rooms. */
  readonly #byIdentity = new Map<string, number>();

  take(changes: readonly ChangeItem[]): void {
    for (const change of changes) {
      const isMessage = change.kind === 'message.posted';
      if (!isMessage && change.domain !== 'data') continue;
      const atMs = Date.parse(change.at);
      const from = change.facts?.['from'];
      // A public room hides the agent of an author.
      if (isMessage && change.agent === null && typeof from === 'string') this.#byIdentity.set(from, atMs);
      if (change.agent === null) continue;
      const key = agentKey(change.user, change.agent);
      const known = this.#byAgent.get(key) ?? nothingYet;
      this.#byAgent.set(
        key,
        isMessage ? { ...known, saidAtMs: atMs } : { ...known, wroteAtMs: atMs, wrote: keyText(change) },
      );
    }
  }

  /** Identities that have said something lately. */
  get speakers(): readonly string[] {
    return [...this.#byIdentity.keys()];
  }

  /** `names` has the agent of an identity that the server keeps. */
  of({ user, name }: AgentAnswer, names: ReadonlyMap<string, Speaker>): Activity | undefined {
    const known = this.#byAgent.get(agentKey(user, name));
    for (const [identity, atMs] of this.#byIdentity) {
      const speaker = names.get(identity);
      if (speaker?.isKept === true && speaker.name === name && atMs > (known?.saidAtMs ?? 0))
        return { ...(known ?? nothingYet), saidAtMs: atMs };
    }
    return known;
  }
}

export function keyText({ facts, id }: ChangeItem): string {
  const { namespace, key } = facts ?? {};
  return typeof key === 'string' ? `${String(namespace)}/${key}` : id;
}

/** The running tasks of each holder, by the name that the claim gave. */
export function tasksByHolder(tasks: readonly ListedTask[]): Map<string, ListedTask> {
  const held = new Map<string, ListedTask>();
  for (const task of tasks) {
    if (task.claimed_by === null || (task.status !== 'running' && task.status !== 'input_required')) continue;
    held.set(task.claimed_by, task);
  }
  return held;
}

export function taskOf(agent: AgentAnswer, held: ReadonlyMap<string, ListedTask>): ListedTask | undefined {
  return held.get(agent.name) ?? held.get(agent.agent_id);
}

/** Points of a line: how many agents were present, at each moment when that changed. Newest first. */
export function presenceHistory(
  changes: readonly ChangeItem[],
  presentNow: number,
  nowMs: number,
): { atMs: number; present: number; lost: boolean }[] {
  const points = [{ atMs: nowMs, present: presentNow, lost: false }];
  let present = presentNow;
  for (const { kind, at } of changes.toReversed()) {
    if (kind === 'agent.present') {
      points.push({ atMs: Date.parse(at), present, lost: false });
      present = Math.max(0, present - 1);
    } else if (kind === 'agent.lost' || kind === 'agent.released') {
      points.push({ atMs: Date.parse(at), present, lost: kind === 'agent.lost' });
      present += 1;
    }
  }
  const oldest = changes[0]?.at;
  if (oldest !== undefined) points.push({ atMs: Date.parse(oldest), present, lost: false });
  return points;
}
