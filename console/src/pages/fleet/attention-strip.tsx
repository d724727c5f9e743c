/** The strip on top of the fleet: four counts, always in the same place, that open into lists. */
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

type Tile = 'questions' | 'exhausted' | 'lost' | 'disk';

const listedMax = 20;

export function AttentionStrip({
  agents,
  tasks,
}: {
  agents: readonly AgentAnswer[];
  tasks: readonly ListedTask[];
}) {
  const { questions, exhausted, lost, broken } = useMemo(() => attentionOf(agents, tasks), [agents, tasks]);
  const disk = useDisk();
  const [open, setOpen] = useState<Tile | undefined>(undefined);
  const gone = [...lost, ...broken.filter((agent) => !lost.includes(agent))];
  const tile = (name: Tile, count: string, label: string, isCalm: boolean) => (
    <button
      type="button"
      class={`tile ${isCalm ? 'calm' : 'needs'}`}
      aria-expanded={open === name}
      onClick={() => setOpen(open === name ? undefined : name)}
    >
      <strong>{count}</strong>
      <span>{label}</span>
    </button>
  );
  const isDiskCalm = disk === undefined || !isLow(disk);
  return (
    <div class="attention">
      <div class="tiles" role="group" aria-label="What needs a person">
        {tile(
          'questions',
          countText(questions.length),
          questions.length === 1 ? 'question waiting' : 'questions waiting',
          questions.length === 0,
        )}
        {tile(
          'exhausted',
          countText(exhausted.length),
          exhausted.length === 1 ? 'task out of attempts' : 'tasks out of attempts',
          exhausted.length === 0,
        )}
        {tile(
          'lost',
          countText(gone.length),
          gone.length === 1 ? 'agent lost or in error' : 'agents lost or in error',
          gone.length === 0,
        )}
        {disk === undefined
          ? null
          : tile(
              'disk',
              `${Math.round((disk.freeBytes / disk.sizeBytes) * 100)} %`,
              isDiskCalm ? 'of the disk free' : 'of the disk left',
              isDiskCalm,
            )}
      </div>
      {open === undefined ? null : (
        <div class="attention-list">
          {open === 'questions' ? <Questions tasks={questions} /> : null}
          {open === 'exhausted' ? (
            <TaskLinks tasks={exhausted} empty="Every failed task has attempts left." />
          ) : null}
          {open === 'lost' ? <AgentLinks agents={gone} /> : null}
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
          <Line to={href(['work', task.id])} text={task.command}>
            {visible(task.error ?? task.reason ?? '')} · <Ago at={task.updated_at} />
          </Line>
        </li>
      ))}
      <More count={tasks.length} />
    </ul>
  );
}

function AgentLinks({ agents }: { agents: readonly AgentAnswer[] }) {
  if (agents.length === 0) return <p class="muted">Every agent that should be here is here.</p>;
  return (
    <ul>
      {agents.slice(0, listedMax).map((agent) => (
        <li key={agent.agent_id}>
          <Line to={href(['fleet', agent.agent_id])} text={agent.name}>
            {agent.status === 'error' ? visible(agent.error_message ?? 'in error') : 'lost'} · last heartbeat{' '}
            <Ago at={agent.last_heartbeat_at} />
          </Line>
        </li>
      ))}
      <More count={agents.length} />
    </ul>
  );
}

function Line({ to, text, children }: { to: string; text: string; children: ComponentChildren }) {
  return (
    <p class="clip">
      <a href={to}>{visible(text)}</a> <span class="muted">{children}</span>
    </p>
  );
}

function More({ count }: { count: number }) {
  return count > listedMax ? <li class="muted">and {plural(count - listedMax, 'other')}</li> : null;
}
