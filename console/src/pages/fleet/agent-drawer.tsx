/** One agent: its facts, what it does, its history, and what a person can do with it. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { href, navigate } from '../../router.js';
import { useLoaded } from '../../load.js';
import { type Activity, keyText } from '../../live/activity.js';
import type { AgentAnswer, World } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { ask, attempt, say } from '../../ui/dialog.js';
import { Drawer } from '../../ui/drawer.js';
import { plural, shortId, visible } from '../../ui/format.js';
import { Button, Copyable, Empty, Field, Loading, Reading, Status } from '../../ui/parts.js';
import { Ago, Since } from '../../ui/time.js';
import { historyOf } from '../../live/history.js';
import { placeOf } from '../places.js';
import { LeaseLeft } from './rows.js';
import { type HeldTasks, stateTones, waitOf } from './model.js';

export function AgentDrawer(props: {
  id: string;
  agent: AgentAnswer | undefined;
  held: HeldTasks;
  activity: Activity | undefined;
  isKnown: boolean;
  closeTo: string;
}) {
  const { id, agent, held, activity, closeTo } = props;
  if (agent === undefined)
    return (
      <Drawer title={shortId(id)} label="Agent" closeTo={closeTo}>
        {props.isKnown ? (
          <Empty title="This agent does not exist">It was deleted, or belongs to another user.</Empty>
        ) : (
          <Loading />
        )}
      </Drawer>
    );
  const task = held.of(agent);
  const wait = waitOf(agent, task);
  return (
    <Drawer
      title={visible(agent.name)}
      label={`Agent ${agent.name}`}
      closeTo={closeTo}
      actions={<Actions agent={agent} />}
    >
      <dl class="fields">
        <Field name="State">
          <Status name={agent.status} tone={stateTones[agent.status]} /> for <Since at={agent.updated_at} />
        </Field>
        {agent.error_message === null ? null : (
          <Field name="Error">
            <span class="complaint">{visible(agent.error_message)}</span>
          </Field>
        )}
        <Field name="Working on">
          {task === undefined ? (
            <span class="none">nothing</span>
          ) : (
            <>
              <a href={href(['work', task.id])}>{visible(task.command)}</a> for{' '}
              <Since at={task.started_at ?? task.updated_at} />
            </>
          )}
        </Field>
        {wait === undefined ? null : (
          <Field name="Waits for">
            <span class={`wait ${wait.tone}`}>{wait.text}</span>
          </Field>
        )}
        <Field name="Lease">
          <LeaseLeft agent={agent} />
        </Field>
        {agent.lease === null ? null : (
          <Field name="Lease holder">
            {visible(agent.lease.holder)}, fence {agent.lease.fence}
          </Field>
        )}
        <Field name="Last message">
          <Ago at={activity?.saidAtMs} />
        </Field>
        <Field name="Last write">
          {activity?.wrote === undefined ? null : (
            <a class="mono" href={placeOf(activity.wrote)}>
              {visible(keyText(activity.wrote))}
            </a>
          )}{' '}
          <Ago at={activity?.wroteAtMs} />
        </Field>
        <Field name="Last heartbeat">
          <Ago at={agent.last_heartbeat_at} />
        </Field>
        <Field name="User">{visible(agent.user)}</Field>
        <Field name="Sessions">{plural(agent.active_sessions, 'open session')}</Field>
        <Field name="Labels">
          {Object.entries(agent.labels).length === 0 ? (
            <span class="none">none</span>
          ) : (
            Object.entries(agent.labels).map(([name, value]) => (
              <span class="label" key={name}>
                {visible(name)}={visible(value)}
              </span>
            ))
          )}
        </Field>
        <Field name="Created">
          <Ago at={agent.created_at} />
        </Field>
        <Field name="Id">
          <Copyable text={agent.agent_id} label="Copy the id" />
        </Field>
      </dl>
      <History id={id} />
    </Drawer>
  );
}

const words: Readonly<Record<string, string>> = {
  'agent.created': 'created',
  'agent.present': 'present',
  'agent.released': 'released its lease',
  'agent.lost': 'lost',
  'agent.updated': 'changed',
  'agent.wake_requested': 'woken by a session',
  'agent.linked': 'linked to an identity',
  'agent.unlinked': 'unlinked from an identity',
};

function History({ id }: { id: string }) {
  const { view, feed } = useWorld();
  const stored = useLoaded(
    (signal) => historyOf(view.stoa, { id, topics: ['agent'] }, signal),
    [id, view.user],
  );
  const [fresh, setFresh] = useState<readonly ChangeItem[]>([]);
  useEffect(
    () =>
      feed.listen((changes) => {
        const own = changes.filter((change) => change.id === id);
        if (own.length > 0) setFresh((before) => [...before, ...own]);
      }),
    [feed, id],
  );
  const items = useMemo(() => {
    const known = new Set((stored.value?.items ?? []).map(({ seq, kind }) => `${seq} ${kind}`));
    return [
      ...(stored.value?.items ?? []),
      ...fresh.filter(({ seq, kind }) => !known.has(`${seq} ${kind}`)),
    ].toReversed();
  }, [stored.value, fresh]);
  return (
    <section class="history" aria-label="History">
      <h3>History</h3>
      <Reading of={stored} rows={3} />
      <ol>
        {items.map((change) => (
          <li key={`${change.seq} ${change.kind}`}>
            <span class={`history-dot ${change.kind === 'agent.lost' ? 'bad' : ''}`} />
            <span>{sentence(change)}</span>
            <Ago at={change.at} />
          </li>
        ))}
      </ol>
      {stored.value !== undefined && items.length === 0 ? (
        <p class="muted">The change feed no longer has changes of this agent.</p>
      ) : null}
      {stored.value?.isComplete === false ? (
        <p class="muted">Older changes exist and are not shown.</p>
      ) : null}
    </section>
  );
}

function sentence({ kind, facts }: ChangeItem): string {
  if (kind === 'agent.transitioned') return `${String(facts?.['from'])} → ${String(facts?.['to'])}`;
  const holder = facts?.['holder'];
  const known = words[kind] ?? kind;
  return typeof holder === 'string' ? `${known} (${visible(holder)})` : known;
}

type Verb = 'start' | 'stop' | 'restart' | 'hibernate' | 'wake';

/** What each state allows. */
const verbs: Readonly<Record<AgentAnswer['status'], readonly Verb[]>> = {
  provisioning: ['start'],
  running: ['stop', 'hibernate', 'restart'],
  idle: ['start', 'stop', 'hibernate', 'restart'],
  hibernating: ['wake', 'stop'],
  stopping: ['stop'],
  stopped: ['start'],
  error: ['restart', 'stop'],
};

const names: Readonly<Record<Verb, string>> = {
  start: 'Start',
  stop: 'Stop',
  restart: 'Restart',
  hibernate: 'Hibernate',
  wake: 'Wake',
};

function Actions({ agent }: { agent: AgentAnswer }) {
  const world = useWorld();
  if (!world.view.canWrite) return <span class="muted">This token only reads.</span>;
  const run = (verb: Verb): Promise<void> =>
    attempt(
      async () => world.agents.put(await world.view.stoa.agents[verb](agent.agent_id)),
      `${names[verb]}: done.`,
    );
  return (
    <>
      {verbs[agent.status].map((verb) => (
        <Button key={verb} onClick={() => void run(verb)}>
          {names[verb]}
        </Button>
      ))}
      {canForget(agent) ? (
        <Button kind="danger" onClick={() => forget(world, agent)}>
          Forget
        </Button>
      ) : null}
    </>
  );
}

/** The server keeps agents that are present, unless they have ended. */
function canForget({ status, presence }: AgentAnswer): boolean {
  return presence !== 'live' || status === 'stopped' || status === 'error';
}

function forget({ view, agents }: World, agent: AgentAnswer): void {
  ask({
    title: `Forget ${agent.name}?`,
    text: 'The agent, its sessions and its inbox are removed. Its documents, tasks and messages stay.',
    action: 'Forget the agent',
    isDangerous: true,
    act: async () => {
      const { agents: calls } = view.stoa;
      await (agent.presence === 'live' ? calls.delete(agent.agent_id) : calls.forget(agent.agent_id));
      agents.items.delete(agent.agent_id);
      agents.round.set(agents.round.value + 1);
      navigate(href(['fleet']));
      say(`${agent.name} is forgotten.`);
    },
  });
}
