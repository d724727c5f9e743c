/** The work: tasks by status, and one task with its timeline, dependencies and question. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { href, route, setQuery } from '../../router.js';
import { useProjects } from '../../live/projects.js';
import { useRecords, useWorld } from '../../live/use-world.js';
import type { ListedTask, World } from '../../live/world.js';
import { userFlag } from '../../stoa.js';
import { countText, plural, sentenceCase, visible } from '../../ui/format.js';
import { Empty, Loading, Problem, Status } from '../../ui/parts.js';
import { Ago, Since } from '../../ui/time.js';
import { useIsNarrow } from '../../ui/narrow.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { TaskLease, useTaskLeases } from './leases.js';
import { columns, heldStatuses, statusTones, tasksIn } from './model.js';
import { TaskDrawer } from './task-drawer.js';

export function WorkPage() {
  const { view, tasks: records } = useWorld();
  const tasks = useRecords(records);
  const state = useObservable(records.state);
  useTaskLeases();
  const { path, query } = useObservable(route);
  const [wanted, project] = [query.get('filter') ?? '', query.get('project') ?? ''];
  const shown = useMemo(() => tasksIn(tasks, wanted, project), [tasks, wanted, project]);
  const chosen = path[1];
  const column = query.get('status') ?? 'running';
  const isEmpty = state.isComplete && tasks.length === 0;
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Work">
        <header class="page-head">
          <h1>Work</h1>
          <p class="muted page-count">{plural(tasks.length, 'task')}</p>
          <ProjectChoice chosen={project} />
          <input
            type="search"
            class="filter"
            placeholder="Filter by command, holder, label"
            aria-label="Filter tasks"
            value={wanted}
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </header>
        {state.failure === undefined ? null : (
          <Problem failure={state.failure} onRetry={() => void records.reload()} />
        )}
        {isEmpty ? (
          <Empty
            title="No tasks yet"
            command={`stoa tasks add shop "Write the daily report"${userFlag(view)}`}
          >
            A task belongs to a project. Agents claim it when it is ready.
          </Empty>
        ) : !state.isComplete && tasks.length === 0 ? (
          <Loading />
        ) : (
          <>
            <div class="column-choice" role="group" aria-label="Status">
              {columns.map((status) => (
                <button
                  type="button"
                  class="tab"
                  key={status}
                  aria-pressed={column === status}
                  onClick={() => setQuery({ status })}
                >
                  {sentenceCase(status)} {countText(shown.get(status)?.length ?? 0)}
                </button>
              ))}
            </div>
            <div class="board">
              {columns.map((status) => (
                <Column
                  key={status}
                  status={status}
                  tasks={shown.get(status) ?? []}
                  chosen={chosen}
                  isOpen={column === status}
                />
              ))}
            </div>
          </>
        )}
      </section>
      {chosen === undefined ? null : (
        <TaskDrawer
          key={chosen}
          id={chosen}
          task={records.items.get(chosen)}
          isKnown={state.isComplete}
          closeTo={href(['work'], { filter: wanted, project, status: query.get('status') ?? undefined })}
        />
      )}
    </div>
  );
}

function Column(props: {
  status: ListedTask['status'];
  tasks: readonly ListedTask[];
  chosen: string | undefined;
  isOpen: boolean;
}) {
  const { status, tasks, chosen, isOpen } = props;
  const element = useRef<HTMLElement>(null);
  const isNarrow = useIsNarrow();
  const hasChosen = chosen !== undefined && tasks.some(({ id }) => id === chosen);
  useEffect(() => {
    // The panel takes a part of the board: the column of its task stays in view.
    if (hasChosen) element.current?.scrollIntoView({ inline: 'nearest', block: 'nearest' });
  }, [hasChosen]);
  return (
    <section class={`board-column ${isOpen ? 'open' : ''}`} aria-label={sentenceCase(status)} ref={element}>
      <h2>
        <Status name={sentenceCase(status)} tone={statusTones[status]} />
        <span class="muted">{countText(tasks.length)}</span>
      </h2>
      <VirtualList<ListedTask>
        items={tasks}
        rowHeight={(heldStatuses.includes(status) ? 100 : 76) - (isNarrow ? 18 : 0)}
        shown={hasChosen ? chosen : undefined}
        label={`Tasks: ${sentenceCase(status)}`}
        keyOf={({ id }) => id}
        row={(task) => <Card task={task} isChosen={task.id === chosen} />}
        empty={<p class="board-empty muted">None</p>}
      />
    </section>
  );
}

function Card({ task, isChosen }: { task: ListedTask; isChosen: boolean }) {
  const { tasks } = useWorld();
  const { query } = route.value;
  const kept = { filter: query.get('filter') ?? undefined, project: query.get('project') ?? undefined };
  return (
    <a class={`card ${isChosen ? 'chosen' : ''}`} href={href(['work', task.id], kept)} data-row>
      <span class="card-title">{visible(task.command)}</span>
      <span class="card-line muted">
        <span class="clip">{visible(holderText(task, tasks))}</span>
        <span>
          {task.attempts > 0 ? `${task.attempts}/${task.max_attempts} · ` : ''}
          {task.status === 'running' && task.started_at !== null ? (
            <Since at={task.started_at} />
          ) : (
            <Ago at={task.updated_at} />
          )}
        </span>
      </span>
      {task.lease_expires_at === null ? null : (
        <span class="card-line muted">
          <span>Lease left</span>
          <TaskLease task={task} />
        </span>
      )}
    </a>
  );
}

/** Who has the task, or what it waits for. */
function holderText({ claimed_by, status, depends_on, run_at }: ListedTask, tasks: World['tasks']): string {
  if (status !== 'pending') return claimed_by ?? '';
  const open = depends_on.filter((id) => tasks.items.get(id)?.status !== 'completed');
  if (open.length > 0) return `needs ${plural(open.length, 'task')}`;
  return run_at === null || Date.parse(run_at) <= Date.now() ? 'ready' : 'ready later';
}

/** Projects of all workspaces that can be seen. */
function ProjectChoice({ chosen }: { chosen: string }) {
  const projects = useProjects();
  return (
    <label class="choice">
      <span class="visually-hidden">Project</span>
      <select value={chosen} onChange={(event) => setQuery({ project: event.currentTarget.value })}>
        <option value="">All projects</option>
        {projects.map(({ id, text }) => (
          <option key={id} value={id}>
            {visible(text)}
          </option>
        ))}
      </select>
    </label>
  );
}
