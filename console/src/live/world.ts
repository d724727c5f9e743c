/** Everything that stays current while somebody is signed in: the feed, and the records that several pages show. */
import { StoaError } from '../../../src/client/index.js';
import type { AgentAnswer } from '../../../src/client/index.js';
import type { ListedTask, TaskStatus } from '../../../src/workspaces/model.js';
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { Observable } from '../observable.js';
import { type View, view } from '../stoa.js';
import { Activities } from './activity.js';
import { LiveFeed } from './feed.js';
import { Metrics } from './metrics.js';
import { PresenceLog } from './presence.js';
import { Records } from './records.js';

export type { AgentAnswer, ListedTask };

export interface World {
  readonly view: View;
  readonly feed: LiveFeed;
  readonly agents: Records<AgentAnswer>;
  readonly tasks: Records<ListedTask>;
  readonly metrics: Metrics;
  readonly activities: Activities;
  readonly presence: PresenceLog;
}

export const world = new Observable<World | undefined>(undefined);

const pageItems = 1_000;
/** More than a screen has rows. The first page of agents is small, so that it is on the screen early. */
const firstAgents = 100;

export function startWorld(): void {
  const update = (): void => {
    if (world.value !== undefined) {
      const { view: _view, ...parts } = world.value;
      for (const part of Object.values(parts)) part.stop();
    }
    const current = view.value;
    world.set(current === undefined ? undefined : worldOf(current));
    world.value?.feed.start();
    world.value?.metrics.start();
  };
  view.subscribe(update);
  update();
}

function worldOf(current: View): World {
  const feed = new LiveFeed(current);
  return {
    view: current,
    feed,
    agents: agentsOf(current, feed),
    tasks: tasksOf(current, feed),
    metrics: new Metrics(current),
    activities: new Activities(current, feed),
    presence: new PresenceLog(current, feed),
  };
}

async function unlessGone<Item>(read: Promise<Item>): Promise<Item | undefined> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

function agentsOf({ stoa }: View, feed: LiveFeed): Records<AgentAnswer> {
  return new Records(feed, {
    idOf: ({ agent_id }) => agent_id,
    list: (cursor, signal) =>
      stoa.agents.list({ limit: cursor === undefined ? firstAgents : pageItems, cursor, signal }),
    get: (id, _known, signal) => unlessGone(stoa.agents.get(id, { signal })),
    idOfChange: ({ id }) => id,
    apply: (change, known) => {
      const { kind, at, version, facts } = change;
      if (!kind.startsWith('agent.')) return undefined;
      if (kind === 'agent.deleted') return 'gone';
      if (known === undefined || kind === 'agent.present') return 'read';
      if (kind === 'agent.lost') return { ...known, presence: 'lost', lease: null };
      if (kind === 'agent.released') return { ...known, presence: 'none', lease: null };
      if (kind !== 'agent.transitioned' || version === null || version !== known.version + 1)
        return version !== null && version <= known.version ? undefined : 'read';
      // The change has the new state, which is one of the states of an agent.
      return { ...known, status: facts?.['to'] as AgentAnswer['status'], version, updated_at: at };
    },
  });
}

/** The status that a task has after a change of this kind. */
const statusAfter: Readonly<Record<string, TaskStatus>> = {
  'task.claimed': 'running',
  'task.returned': 'pending',
  'task.retried': 'pending',
  'task.completed': 'completed',
  'task.failed': 'failed',
  'task.cancelled': 'cancelled',
  'task.input_required': 'input_required',
};

function tasksOf({ stoa }: View, feed: LiveFeed): Records<ListedTask> {
  return new Records<ListedTask>(feed, {
    idOf: ({ id }) => id,
    list: async (cursor, signal) => stoa.tasks.list({ limit: pageItems, cursor, signal }),
    get: async (id, known, signal) => {
      const task = await unlessGone(stoa.tasks.get(id, { signal }));
      if (task === undefined) return undefined;
      const projectId = known?.project_id ?? projects.get(id);
      if (projectId === undefined) return undefined;
      // Only lists have the lease. It belongs to the holder that the list saw.
      const isSame = known?.claimed_by === task.claimed_by && task.claimed_by !== null;
      return { ...task, project_id: projectId, lease_expires_at: isSame ? known.lease_expires_at : null };
    },
    idOfChange: ({ id }) => id,
    apply: (change, known) => {
      if (!change.kind.startsWith('task.')) return undefined;
      if (change.kind === 'task.deleted') return 'gone';
      const project = change.facts?.['project'];
      if (typeof project === 'string' && known === undefined) projects.set(change.id, project);
      return known === undefined ? 'read' : taskAfter(change, known);
    },
  });
}

/** The project of a task that was created while nobody had listed it. */
const projects = new Map<string, string>();

function taskAfter(
  { kind, at, version, facts }: ChangeItem,
  known: ListedTask,
): ListedTask | 'read' | undefined {
  if (version !== null && version <= known.version) return undefined;
  const status = statusAfter[kind];
  if (status !== 'running') return 'read';
  const holder = facts?.['holder'];
  return {
    ...known,
    status,
    claimed_by: typeof holder === 'string' ? holder : known.claimed_by,
    started_at: at,
    updated_at: at,
    version: version ?? known.version,
    lease_expires_at: null,
  };
}
