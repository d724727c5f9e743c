/** The strip on top of the fleet: four counts, always in the same place, each with its first case; they open into lists. */
import { useMemo, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { href } from '../../router.js';
import type { AgentAnswer, ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { countText, plural, sizeText, visible } from '../../ui/format.js';
import { Button } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { answerQuestion } from '../work/actions.js';
import { attentionOf, isLow, useDisk } from './attention.js';

interface Tile {
  readonly name: 'questions' | 'exhausted' | 'gone' | 'disk';
  readonly count: string;
  readonly label: string;
  /** The first case, so that nobody has to open the list to know it. */
  readonly first: string;
  readonly tone: 'calm' | 'warn' | 'bad';
}

const listedMax = 20;

export function AttentionStrip({
  agents,
  tasks,
}: {
  agents: readonly AgentAnswer[];
  tasks: readonly ListedTask[];
}) {
  const { questions, exhausted, gone } = useMemo(() => attentionOf(agents, tasks), [agents, tasks]);
  const disk = useDisk();
  const [open, setOpen] = useState<Tile['name'] | undefined>(undefined);
  const counted = (
    name: Tile['name'],
    count: number,
    label: string,
    first: string | undefined,
    tone: Tile['tone'],
  ): Tile => ({
    name,
    count: countText(count),
    label,
    first: visible(first ?? 'none'),
    tone: count === 0 ? 'calm' : tone,
  });
  const tiles: Tile[] = [
    counted(
      'questions',
      questions.length,
      questions.length === 1 ? 'question waiting' : 'questions waiting',
      questions[0] && `${questions[0].claimed_by ?? 'nobody'}: ${questions[0].question ?? ''}`,
      'warn',
    ),
    counted(
      'exhausted',
      exhausted.length,
      exhausted.length === 1 ? 'task out of attempts' : 'tasks out of attempts',
      exhausted[0]?.command,
      'bad',
    ),
    counted(
      'gone',
      gone.length,
      gone.length === 1 ? 'agent lost or in error' : 'agents lost or in error',
      gone.length === 0 ? undefined : gone.map(({ name }) => name).join(', '),
      'bad',
    ),
  ];
  if (disk !== undefined)
    tiles.push({
      name: 'disk',
      count: `${Math.round((disk.freeBytes / disk.sizeBytes) * 100)} %`,
      label: isLow(disk) ? 'of the disk left' : 'of the disk free',
      first: `${sizeText(disk.freeBytes)} of ${sizeText(disk.sizeBytes)}`,
      tone: isLow(disk) ? 'bad' : 'calm',
    });
  return (
    <div class="attention">
      <div class="tiles" role="group" aria-label="What needs a person">
        {tiles.map(({ name, count, label, first, tone }) => (
          <button
            key={name}
            type="button"
            class={`tile ${tone}`}
            aria-expanded={open === name}
            onClick={() => setOpen(open === name ? undefined : name)}
          >
            <strong>{count}</strong>
            <span class="clip">{label}</span>
            <span class="tile-first clip">{first.slice(0, firstShown)}</span>
          </button>
        ))}
      </div>
      {open === undefined ? null : (
        <div class="attention-list">
          {open === 'questions' ? <Questions tasks={questions} /> : null}
          {open === 'exhausted' ? (
            <TaskLinks tasks={exhausted} empty="Every failed task has attempts left." />
          ) : null}
          {open === 'gone' ? <AgentLinks agents={gone} /> : null}
          {open === 'disk' && disk !== undefined ? (
            <p>
              {sizeText(disk.freeBytes)} of {sizeText(disk.sizeBytes)} are free.{' '}
              <a href={href(['operations'])}>See what takes the space</a>
            </p>
          ) : null}
        </div>
      )}
    </div>
  );
}

/** More does not fit, and a text can be long. */
const firstShown = 200;

function Questions({ tasks }: { tasks: readonly ListedTask[] }) {
  const world = useWorld();
  if (tasks.length === 0) return <p class="muted">Nobody waits for an answer.</p>;
  return (
    <ul class="questions">
      {tasks.slice(0, listedMax).map((task) => (
        <li key={task.id}>
          <div>
            <p class="question">{visible(task.question ?? '')}</p>
            <p class="muted">
              {visible(task.claimed_by ?? 'nobody')} ·{' '}
              <a href={href(['work', task.id])}>{visible(task.command)}</a> · <Ago at={task.asked_at} />
            </p>
          </div>
          {world.view.canWrite ? (
            <Button kind="primary" onClick={() => answerQuestion(world, task)}>
              Answer
            </Button>
          ) : null}
        </li>
      ))}
      <More count={tasks.length} />
    </ul>
  );
}

function TaskLinks({ tasks, empty }: { tasks: readonly ListedTask[]; empty: string }) {
  if (tasks.length === 0) return <p class="muted">{empty}</p>;
  return (
    <ul>
      {tasks.slice(0, listedMax).map((task) => (
        <li key={task.id}>
          <Line to={href(['work', task.id])} text={task.command} at={task.updated_at}>
            {visible(task.error ?? task.reason ?? '')}
          </Line>
        </li>
      ))}
      <More count={tasks.length} />
    </ul>
  );
}

function AgentLinks({ agents }: { agents: readonly AgentAnswer[] }) {
  if (agents.length === 0) return <p class="muted">No agent is lost.</p>;
  return (
    <ul>
      {agents.slice(0, listedMax).map((agent) => (
        <li key={agent.agent_id}>
          <Line to={href(['fleet', agent.agent_id])} text={agent.name} at={agent.last_heartbeat_at}>
            {agent.status === 'error'
              ? visible(agent.error_message ?? 'in error')
              : 'lost: no heartbeat since'}
          </Line>
        </li>
      ))}
      <More count={agents.length} />
    </ul>
  );
}

function Line(props: { to: string; text: string; at: string | null; children: ComponentChildren }) {
  return (
    <p class="attention-line">
      <a class="clip" href={props.to}>
        {visible(props.text)}
      </a>
      <span class="muted clip">{props.children}</span>
      <span class="muted">
        <Ago at={props.at} />
      </span>
    </p>
  );
}

function More({ count }: { count: number }) {
  return count > listedMax ? <li class="muted">and {plural(count - listedMax, 'other')}</li> : null;
}
