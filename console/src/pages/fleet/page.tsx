/** The fleet: what runs where, by whom, since when, and what it waits for. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { route, setQuery } from '../../router.js';
import { useRecords, useWorld } from '../../live/use-world.js';
import { userFlag } from '../../stoa.js';
import type { Activities } from '../../live/activity.js';
import { useOwners } from '../../live/projects.js';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import { plural } from '../../ui/format.js';
import { Empty, Loading, Problem } from '../../ui/parts.js';
import { useHold } from '../../ui/hold.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { useIsNarrow } from '../../ui/narrow.js';
import { useAuthors } from '../rooms/authors.js';
import { AgentDrawer } from './agent-drawer.js';
import { AgentRow, GroupRow, fleetHref } from './rows.js';
import { AttentionStrip } from './attention-strip.js';
import { type AgentState, type FleetRow, HeldTasks, fleetRows } from './model.js';
import { PresenceChart } from './presence-chart.js';

/** Heartbeats are not in the feed, so leases are read again. */
const leasesEveryMs = 10_000;
const manyAgents = 300;
/** Profiles that are read for the last messages. */
const speakersMax = 24;

export function FleetPage() {
  const { view, agents: records, tasks: taskRecords } = useWorld();
  const agents = useRecords(records);
  const tasks = useRecords(taskRecords);
  const state = useObservable(records.state);
  const { path, query } = useObservable(route);
  const wanted = query.get('filter') ?? '';
  const activities = useActivities();
  const speakers = useAuthors(activities.speakers.slice(-speakersMax));
  const isNarrow = useIsNarrow();
  const { isHeld, hold } = useHold();
  useLeases(agents.length);
  const rows = useHeldRows(agents, wanted, isHeld);
  const held = useHeldTasks(agents, tasks);
  const busy = useMemo(() => busyIn(agents, held), [agents, held]);
  const chosen = path[1];
  const agent = chosen === undefined ? undefined : records.items.get(chosen);
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Fleet">
        <header class="page-head">
          <h1>Fleet</h1>
          <p class="muted page-count">{plural(agents.length, 'agent')}</p>
          <input
            type="search"
            class="filter"
            placeholder="Filter by name, user, label, state"
            aria-label="Filter agents"
            value={wanted}
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </header>
        <AttentionStrip agents={agents} tasks={tasks} />
        <PresenceChart agents={agents} />
        <Problem failure={state.failure} onRetry={() => void records.reload()} />
        {!state.isComplete && agents.length === 0 && state.failure === undefined ? (
          <Loading />
        ) : (
          <div class="list-frame" onPointerMove={hold} onKeyDown={hold}>
            <ColumnNames />
            <VirtualList<FleetRow>
              items={rows}
              rowHeight={isNarrow ? narrowHeight : 36}
              label="Agents"
              class="fleet"
              shown={chosen}
              keyOf={(row) => (row.kind === 'group' ? `group ${row.state}` : row.agent.agent_id)}
              row={(row) =>
                row.kind === 'group' ? (
                  <GroupRow state={row.state} count={row.count} busyCount={busy.get(row.state) ?? 0} />
                ) : (
                  <AgentRow
                    agent={row.agent}
                    held={held}
                    activity={activities.of(row.agent, speakers)}
                    isChosen={row.agent.agent_id === chosen}
                  />
                )
              }
              empty={
                wanted === '' ? (
                  <Empty title="No agents yet" command={`stoa agents create scout${userFlag(view)}`}>
                    An agent appears here with its first write, or when it is created.
                  </Empty>
                ) : (
                  <Empty title={`No agent matches “${wanted}”`}>Try another word, or clear the filter.</Empty>
                )
              }
            />
          </div>
        )}
      </section>
      {chosen === undefined ? null : (
        <AgentDrawer
          key={chosen}
          id={chosen}
          agent={agent}
          held={held}
          activity={agent === undefined ? undefined : activities.of(agent, speakers)}
          isKnown={state.isComplete}
          closeTo={fleetHref()}
        />
      )}
    </div>
  );
}

/** How many agents of each state have a task. */
function busyIn(agents: readonly AgentAnswer[], held: HeldTasks): ReadonlyMap<AgentState, number> {
  const counts = new Map<AgentState, number>();
  for (const agent of agents)
    if (held.of(agent) !== undefined) counts.set(agent.status, (counts.get(agent.status) ?? 0) + 1);
  return counts;
}

function narrowHeight({ kind }: FleetRow): number {
  return kind === 'group' ? 40 : 56;
}

function ColumnNames() {
  return (
    <div class="fleet-columns" aria-hidden="true">
      <span>Agent</span>
      <span>Lease, holder</span>
      <span>Working on</span>
      <span>Since</span>
      <span>Waits for</span>
      <span>Message</span>
      <span>Last write</span>
    </div>
  );
}

/** While somebody moves in the list, rows change in place and stay where they are. */
function useHeldRows(agents: readonly AgentAnswer[], wanted: string, isHeld: boolean): readonly FleetRow[] {
  const shown = useRef<{ wanted: string; rows: readonly FleetRow[] }>({ wanted: '', rows: [] });
  return useMemo(() => {
    const rows = fleetRows(agents, wanted);
    const before = shown.current;
    if (!isHeld || before.wanted !== wanted || before.rows.length === 0) {
      shown.current = { wanted, rows };
      return rows;
    }
    const byId = new Map(agents.map((agent) => [agent.agent_id, agent]));
    const counts = new Map(rows.flatMap((row) => (row.kind === 'group' ? [[row.state, row.count]] : [])));
    return before.rows.flatMap((row): FleetRow[] => {
      if (row.kind === 'group') return [{ ...row, count: counts.get(row.state) ?? 0 }];
      const agent = byId.get(row.agent.agent_id);
      return agent === undefined ? [] : [{ kind: 'agent', agent }];
    });
  }, [agents, wanted, isHeld]);
}

function useActivities(): Activities {
  const { activities, feed } = useWorld();
  useEffect(() => activities.use(), [activities]);
  useObservable(activities.round);
  useObservable(feed.round);
  return activities;
}

/** The tasks that the agents hold. Two users may have agents of one name: only then the owners of projects are read. */
function useHeldTasks(agents: readonly AgentAnswer[], tasks: readonly ListedTask[]): HeldTasks {
  const isShared = useMemo(() => new Set(agents.map(({ name }) => name)).size < agents.length, [agents]);
  const owners = useOwners(isShared);
  return useMemo(() => new HeldTasks(tasks, owners), [tasks, owners]);
}

function useLeases(count: number): void {
  const { agents } = useWorld();
  useEffect(() => {
    const timer = setInterval(
      () => document.hidden || void agents.reload(),
      count > manyAgents ? 3 * leasesEveryMs : leasesEveryMs,
    );
    return () => clearInterval(timer);
  }, [agents, count > manyAgents]);
}
