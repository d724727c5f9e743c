/** One task: facts, question, timeline, dependencies, result, and what a person can do with it. */
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { href } from '../../router.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { Drawer } from '../../ui/drawer.js';
import { shortId, visible } from '../../ui/format.js';
import { Button, Copyable, Empty, Field, Loading, Status } from '../../ui/parts.js';
import { Ago, Since, durationText } from '../../ui/time.js';
import { answerQuestion, cancelTask, deleteTask, retryTask, takeOver } from './actions.js';
import { TaskLease } from './leases.js';
import { type Graph, graphOf, statusTones } from './model.js';
import { Timeline } from './timeline-view.js';

export function TaskDrawer(props: {
  id: string;
  task: ListedTask | undefined;
  isKnown: boolean;
  closeTo: string;
}) {
  const { id, task, isKnown, closeTo } = props;
  if (task === undefined)
    return (
      <Drawer title={shortId(id)} label="Task" closeTo={closeTo}>
        {isKnown ? (
          <Empty title="This task does not exist">It was deleted, or belongs to another user.</Empty>
        ) : (
          <Loading />
        )}
      </Drawer>
    );
  return (
    <Drawer title={visible(task.command)} label="Task" closeTo={closeTo} actions={<Actions task={task} />}>
      {task.status === 'input_required' ? <QuestionBox task={task} /> : null}
      <dl class="fields">
        <Field name="Status">
          <Status name={task.status} tone={statusTones[task.status]} />{' '}
          {task.status === 'running' && task.started_at !== null ? (
            <>
              for <Since at={task.started_at} />
            </>
          ) : null}
        </Field>
        <Field name="Holder">
          {task.claimed_by === null ? <span class="none">nobody</span> : visible(task.claimed_by)}
        </Field>
        <Field name="Lease left">
          {task.lease_expires_at === null ? <span class="none">–</span> : <TaskLease task={task} />}
        </Field>
        <Field name="Attempts">
          {task.attempts} of {task.max_attempts} ended without a result
        </Field>
        {task.reason === null ? null : <Field name="Reason">{visible(task.reason)}</Field>}
        {task.run_at === null ? null : (
          <Field name="Not before">
            <Ago at={task.run_at} />
          </Field>
        )}
        {task.labels.length === 0 ? null : (
          <Field name="Labels">
            {task.labels.map((label) => (
              <span class="label" key={label}>
                {visible(label)}
              </span>
            ))}
          </Field>
        )}
        {task.duration === null ? null : <Field name="Took">{durationText(task.duration * 1_000)}</Field>}
        <Field name="Priority">{task.priority}</Field>
        <Field name="Created">
          <Ago at={task.created_at} />
        </Field>
        {task.question !== null && task.status !== 'input_required' ? (
          <Field name="Asked">
            {visible(task.question)} {task.answer === null ? null : <strong>{visible(task.answer)}</strong>}{' '}
            {task.answered_by === null ? null : <span class="muted">{visible(task.answered_by)}</span>}
          </Field>
        ) : null}
        <Field name="Id">
          <Copyable text={task.id} label="Copy the id" />
        </Field>
      </dl>
      {task.error === null ? null : <Result title="Error" text={task.error} />}
      {task.output === null ? null : <Result title="Output" text={task.output} />}
      <Timeline task={task} />
      <Dependencies task={task} />
    </Drawer>
  );
}

function QuestionBox({ task }: { task: ListedTask }) {
  const world = useWorld();
  return (
    <div class="question-box">
      <p class="question">{visible(task.question ?? '')}</p>
      <p class="muted">
        asked <Ago at={task.asked_at} />, expires <Ago at={task.question_expires_at} />
      </p>
      {world.view.canWrite ? (
        <Button kind="primary" onClick={() => answerQuestion(world, task)}>
          Answer
        </Button>
      ) : null}
    </div>
  );
}

function Result({ title, text }: { title: string; text: string }) {
  return (
    <section class="result">
      <h3>{title}</h3>
      <pre tabIndex={0}>{visible(text.slice(0, resultCharactersMax))}</pre>
      {text.length > resultCharactersMax ? <p class="muted">The rest is not shown.</p> : null}
    </section>
  );
}

const resultCharactersMax = 20_000;

function Actions({ task }: { task: ListedTask }) {
  const world = useWorld();
  if (!world.view.canWrite) return <span class="muted">This token only reads.</span>;
  const isHeld = task.status === 'running' || task.status === 'input_required';
  const isOpen = isHeld || task.status === 'pending';
  return (
    <>
      {isHeld ? <Button onClick={() => takeOver(world, task)}>Take over</Button> : null}
      {task.status === 'failed' || task.status === 'cancelled' ? (
        <Button onClick={() => retryTask(world, task)}>Retry</Button>
      ) : null}
      {isOpen ? (
        <Button kind="danger" onClick={() => cancelTask(world, task)}>
          Cancel
        </Button>
      ) : (
        <Button kind="danger" onClick={() => deleteTask(world, task)}>
          Delete
        </Button>
      )}
    </>
  );
}

function Dependencies({ task }: { task: ListedTask }) {
  const { tasks } = useWorld();
  const graph = useMemo(() => graphOf(task.id, tasks.items), [task, tasks.items.size]);
  if (graph.edges.length === 0) return null;
  return (
    <section class="dependencies" aria-label="Dependencies">
      <h3>Dependencies</h3>
      <GraphPicture graph={graph} chosen={task.id} />
    </section>
  );
}

const [nodeWidth, nodeHeight, gapX, gapY] = [150, 40, 28, 10];

function GraphPicture({ graph, chosen }: { graph: Graph; chosen: string }) {
  const places = new Map<string, { x: number; y: number }>();
  for (const [column, level] of graph.levels.entries())
    for (const [line, { id }] of level.entries())
      places.set(id, { x: column * (nodeWidth + gapX), y: line * (nodeHeight + gapY) });
  const frame = useRef<HTMLDivElement>(null);
  const at = places.get(chosen)?.x ?? 0;
  useLayoutEffect(() => {
    // The task itself is in view, also in a long chain.
    frame.current?.scrollTo({ left: at - frame.current.clientWidth + nodeWidth + gapX });
  }, [at]);
  const width = graph.levels.length * (nodeWidth + gapX) - gapX;
  const height = Math.max(...graph.levels.map(({ length }) => length)) * (nodeHeight + gapY) - gapY;
  return (
    <div class="graph" ref={frame} tabIndex={0} role="region" aria-label="Graph of dependencies">
      <div class="graph-space" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {graph.edges.map(({ from, to }) => {
            const [a, b] = [places.get(from), places.get(to)];
            if (a === undefined || b === undefined) return null;
            const [x1, y1, x2, y2] = [a.x + nodeWidth, a.y + nodeHeight / 2, b.x, b.y + nodeHeight / 2];
            const middle = (x1 + x2) / 2;
            return (
              <path key={`${from} ${to}`} d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`} />
            );
          })}
        </svg>
        {graph.levels.flat().map((each) => {
          const place = places.get(each.id) ?? { x: 0, y: 0 };
          return (
            <a
              key={each.id}
              class={`node ${each.id === chosen ? 'chosen' : ''}`}
              href={href(['work', each.id])}
              style={{ left: `${place.x}px`, top: `${place.y}px` }}
              title={visible(each.command)}
            >
              <Status name={each.status} tone={statusTones[each.status]} />
              <span class="clip">{visible(each.command)}</span>
            </a>
          );
        })}
      </div>
    </div>
  );
}
