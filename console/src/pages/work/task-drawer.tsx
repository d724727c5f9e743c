/** One task: facts, question, timeline, dependencies, result, and what a person can do with it. */
import type { ListedProject } from '../../live/projects.js';
import type { ListedTask } from '../../live/world.js';
import { useWorld } from '../../live/use-world.js';
import { href } from '../../router.js';
import { AgentName } from '../../ui/agent-name.js';
import { Drawer } from '../../ui/drawer.js';
import { shortId, visible } from '../../ui/format.js';
import { Button, Copyable, Empty, Field, Loading, Status } from '../../ui/parts.js';
import { Ago, Since, durationText } from '../../ui/time.js';
import { answerQuestion, cancelTask, deleteTask, retryTask, takeOver } from './actions.js';
import { TaskLease } from './leases.js';
import { Dependencies } from './dependencies.js';
import { openDependencies, statusTones } from './model.js';
import { Timeline } from './timeline-view.js';

export function TaskDrawer(props: {
  id: string;
  task: ListedTask | undefined;
  project: ListedProject | undefined;
  isKnown: boolean;
  closeTo: string;
}) {
  const { id, task, project, isKnown, closeTo } = props;
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
          {task.duration === null ? null : <>after {durationText(task.duration * 1_000)}</>}
        </Field>
        <Field name="Holder">
          {task.claimed_by === null ? (
            <span class="none">nobody</span>
          ) : (
            <AgentName name={task.claimed_by} user={project?.user} />
          )}
          {task.lease_expires_at === null ? null : (
            <>
              , lease for <TaskLease task={task} />
            </>
          )}
        </Field>
        <WaitsFor task={task} />
        <Field name="Attempts">
          {task.attempts} of {task.max_attempts} used
        </Field>
        {task.reason === null || task.reason === task.error ? null : (
          <Field name="Reason">{visible(task.reason)}</Field>
        )}
        {task.question !== null && task.status !== 'input_required' ? (
          <Field name="Asked">
            {visible(task.question)} {task.answer === null ? null : <strong>{visible(task.answer)}</strong>}{' '}
            {task.answered_by === null ? null : <span class="muted">{visible(task.answered_by)}</span>}
          </Field>
        ) : null}
      </dl>
      {task.error === null ? null : <Result title="Error" text={task.error} />}
      {task.output === null ? null : <Result title="Output" text={task.output} />}
      <Timeline task={task} />
      <Dependencies task={task} />
      <section class="details" aria-label="Details">
        <h3>Details</h3>
        <dl class="fields">
          {project === undefined ? null : <Field name="Project">{visible(project.text)}</Field>}
          <Field name="Created">
            <Ago at={task.created_at} />
          </Field>
          <Field name="Priority">{task.priority}</Field>
          {task.labels.length === 0 ? null : (
            <Field name="Labels">
              {task.labels.map((label) => (
                <span class="label" key={label}>
                  {visible(label)}
                </span>
              ))}
            </Field>
          )}
          <Field name="Id">
            <Copyable text={task.id} label="Copy the id" />
          </Field>
        </dl>
      </section>
    </Drawer>
  );
}

/** What has to happen before somebody can claim the task. */
function WaitsFor({ task }: { task: ListedTask }) {
  const { tasks } = useWorld();
  if (task.status !== 'pending') return null;
  const open = openDependencies(task, tasks.items);
  return (
    <Field name="Waits for">
      {open.map(({ id, text }) => (
        <div key={id} class="clip">
          <a href={href(['work', id])}>{visible(text)}</a>
        </div>
      ))}
      {task.run_at === null ? null : (
        <div>
          its time, <Ago at={task.run_at} />
        </div>
      )}
      {open.length === 0 && task.run_at === null ? 'an agent that claims it' : null}
    </Field>
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
