/** One line of the fleet. */
import { href } from '../../router.js';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { countText, sentenceCase, visible } from '../../ui/format.js';
import { Status } from '../../ui/parts.js';
import { Lease } from '../../ui/lease.js';
import { Ago, Since } from '../../ui/time.js';
import { type Activity, type AgentState, presenceTones, stateTones, taskOf } from './model.js';

export function GroupRow({ state, count }: { state: AgentState; count: number }) {
  return (
    <div class="group-row">
      <Status name={sentenceCase(state)} tone={stateTones[state]} />
      <span class="muted">{countText(count)}</span>
    </div>
  );
}

export function AgentRow(props: {
  agent: AgentAnswer;
  held: ReadonlyMap<string, ListedTask>;
  activity: Activity | undefined;
  isChosen: boolean;
}) {
  const { agent, held, activity, isChosen } = props;
  const { view } = useWorld();
  const task = taskOf(agent, held);
  return (
    <a
      class={`agent-row ${isChosen ? 'chosen' : ''}`}
      href={href(['fleet', agent.agent_id])}
      data-row
      aria-current={isChosen ? 'true' : undefined}
    >
      <span class="agent-name">
        <strong>{visible(agent.name)}</strong>
        {view.isOperator && view.user === undefined ? <span class="muted">{visible(agent.user)}</span> : null}
        <span class="agent-state">
          <Status name={agent.status} tone={stateTones[agent.status]} />
        </span>
      </span>
      <span class="agent-lease">
        <LeaseLeft agent={agent} />
      </span>
      <span class="agent-task">
        {task === undefined ? (
          <span class="none clip">{agent.error_message === null ? '–' : visible(agent.error_message)}</span>
        ) : (
          <>
            <span class="clip">{visible(task.command)}</span>
            <span class="muted">
              {task.status === 'input_required' ? 'asks · ' : ''}
              <Since at={task.started_at ?? task.updated_at} />
            </span>
          </>
        )}
      </span>
      <span class="agent-said">
        <Ago at={activity?.saidAtMs} />
      </span>
      <span class="agent-wrote">
        {activity?.wrote === undefined ? null : <span class="clip mono">{visible(activity.wrote)}</span>}
        <Ago at={activity?.wroteAtMs} />
      </span>
    </a>
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
