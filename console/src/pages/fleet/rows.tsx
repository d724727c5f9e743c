/** One line of the fleet. */
import { href, route } from '../../router.js';
import { type Activity, keyText } from '../../live/activity.js';
import type { AgentAnswer } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { countText, sentenceCase, visible } from '../../ui/format.js';
import { Status } from '../../ui/parts.js';
import { Lease } from '../../ui/lease.js';
import { Ago, Since } from '../../ui/time.js';
import { type AgentState, type HeldTasks, presenceTones, stateTones, waitOf } from './model.js';

export function GroupRow(props: { state: AgentState; count: number; busyCount: number }) {
  const { state, count, busyCount } = props;
  return (
    <div class="group-row">
      <Status name={sentenceCase(state)} tone={stateTones[state]} />
      <span class="muted">{countText(count)}</span>
      {busyCount === 0 ? null : <span class="group-note">{countText(busyCount)} with a task</span>}
    </div>
  );
}

/** The fleet or one agent of it, with the filter and the length of the chart as they are. */
export function fleetHref(...path: readonly string[]): string {
  const { query } = route.value;
  return href(['fleet', ...path], {
    filter: query.get('filter') ?? undefined,
    past: query.get('past') ?? undefined,
  });
}

export function AgentRow(props: {
  agent: AgentAnswer;
  held: HeldTasks;
  activity: Activity | undefined;
  isChosen: boolean;
}) {
  const { agent, held, activity, isChosen } = props;
  const { view } = useWorld();
  const task = held.of(agent);
  const wait = waitOf(agent, task);
  return (
    <a
      class={`agent-row ${isChosen ? 'chosen' : ''} ${task === undefined ? '' : 'at-work'}`}
      href={fleetHref(agent.agent_id)}
      data-row
      tabIndex={-1}
      aria-current={isChosen ? 'true' : undefined}
    >
      <span class="agent-name">
        <strong>{visible(agent.name)}</strong>
        {view.isOperator && view.user === undefined ? (
          <span class="muted clip">{visible(agent.user)}</span>
        ) : null}
      </span>
      <span class="agent-lease">
        <LeaseLeft agent={agent} />
        {/* The default holder is the agent itself, which says nothing about where it runs. */}
        {agent.lease === null || agent.lease.holder === agent.name ? null : (
          <span class="muted clip wide-only">{visible(agent.lease.holder)}</span>
        )}
      </span>
      <span class="agent-task">
        {task === undefined ? (
          <NoTask agent={agent} activity={activity} />
        ) : (
          <span class="clip">{visible(task.command)}</span>
        )}
      </span>
      <span class="agent-since muted">
        <Since at={task?.started_at ?? task?.updated_at ?? agent.updated_at} isShort />
      </span>
      <span class="agent-wait">
        {wait === undefined ? null : <span class={`wait ${wait.tone}`}>{wait.text}</span>}
      </span>
      <span class="agent-said muted">
        {activity?.saidAtMs === undefined ? null : <Ago at={activity.saidAtMs} />}
      </span>
      <span class="agent-wrote muted">
        {activity?.wrote === undefined ? null : (
          <span class="clip mono">{visible(keyText(activity.wrote))}</span>
        )}
        {activity?.wroteAtMs === undefined ? null : <Ago at={activity.wroteAtMs} />}
      </span>
    </a>
  );
}

/** Why an agent stopped; on a narrow screen what it did last, because that has no column there. */
function NoTask({ agent, activity }: { agent: AgentAnswer; activity: Activity | undefined }) {
  if (agent.error_message !== null) return <span class="complaint clip">{visible(agent.error_message)}</span>;
  return (
    <span class="none narrow-only clip">
      {activity?.wrote === undefined ? (
        'no task'
      ) : (
        <>
          wrote {visible(keyText(activity.wrote))} <Ago at={activity.wroteAtMs} />
        </>
      )}
    </span>
  );
}

/** The rest of the lease, as a bar and in words. */
export function LeaseLeft({ agent }: { agent: AgentAnswer }) {
  const { presence, lease, last_heartbeat_at: renewedAt } = agent;
  if (lease === null || presence !== 'live')
    return <Status name={presence === 'none' ? 'absent' : presence} tone={presenceTones[presence]} />;
  const untilMs = Date.parse(lease.expires_at);
  return (
    <Lease
      untilMs={untilMs}
      wholeMs={renewedAt === null ? 60_000 : untilMs - Date.parse(renewedAt)}
      about={`Held by ${lease.holder} (fence ${lease.fence})`}
    />
  );
}
