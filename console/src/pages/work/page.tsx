/** The work: tasks by status, and one task with its timeline, dependencies and question. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { href, route, setQuery } from '../../router.js';
import { type ListedProject, useProjects } from '../../live/projects.js';
import { useRecords, useWorld } from '../../live/use-world.js';
import type { ListedTask } from '../../live/world.js';
import { userFlag } from '../../stoa.js';
import { countText, plural, sentenceCase, visible } from '../../ui/format.js';
import { Empty, Loading, Problem, Status } from '../../ui/parts.js';
import { Ago, Since } from '../../ui/time.js';
import { useIsNarrow } from '../../ui/narrow.js';
import { useHold } from '../../ui/hold.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { TaskLease, useTaskLeases } from './leases.js';
import { cardHeights, columns, noteOf, statusTones, tasksIn } from './model.js';
import { TaskDrawer } from './task-drawer.js';

export function WorkPage() {
  const { view, tasks: records } = useWorld();
  const tasks = useRecords(records);
  const state = useObservable(records.state);
  useTaskLeases();
  const { path, query } = useObservable(route);
  const [wanted, project] = [query.get('filter') ?? '', query.get('project') ?? ''];
  const projects = useProjects();
  const { isHeld, hold } = useHold();
  const shown = useHeldColumns(tasks, wanted, project, isHeld);
  const chosen = path[1];
  const task = chosen === undefined ? undefined : records.items.get(chosen);
  const column = query.get('status') ?? 'running';
  const isEmpty = state.isComplete && tasks.length === 0;
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Work">
        <header class="page-head">
          <h1>Work</h1>
          <p class="muted page-count">{plural(tasks.length, 'task')}</p>
          <ProjectChoice projects={projects} chosen={project} />
          <input
            type="search"
            class="filter"
            placeholder="Filter by command, holder, label"
            aria-label="Filter tasks"
            value={wanted}
            onInput={(event) => setQuery({ filter: event.currentTarget.value })}
          />
        </header>
        <Problem failure={state.failure} onRetry={() => void records.reload()} />
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
            <div class="board" data-lists onPointerMove={hold} onKeyDown={hold}>
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
          task={task}
          project={projects.find(({ id }) => id === task?.project_id)}
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
        rowHeight={cardHeights[status] - (isNarrow ? 18 : 0)}
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
    <a
      class={`card ${isChosen ? 'chosen' : ''} ${task.status}`}
      href={href(['work', task.id], kept)}
      data-row
      tabIndex={-1}
      aria-current={isChosen ? 'true' : undefined}
    >
      <span class="card-title">{visible(task.command)}</span>
      {task.status === 'running' ? null : (
        <span class="card-note">{visible(noteOf(task, tasks.items).slice(0, noteShown))}</span>
      )}
      <span class="card-line muted">
        <span class="clip">{visible(task.claimed_by ?? task.labels.join(' '))}</span>
        <span>
          {task.attempts > 0 ? `${task.attempts}/${task.max_attempts} · ` : ''}
          {task.status === 'running' && task.started_at !== null ? (
            <Since at={task.started_at} isShort />
          ) : (
            <Ago at={task.status === 'input_required' ? task.asked_at : task.updated_at} />
          )}
        </span>
      </span>
      {task.lease_expires_at === null ? null : (
        <span class="card-line muted">
          <span>lease</span>
          <TaskLease task={task} />
        </span>
      )}
    </a>
  );
}

/** More does not fit on a card, and an output can be long. */
const noteShown = 200;

type Columns = ReturnType<typeof tasksIn>;

/** While somebody moves on the board, cards change in place and stay in their column. */
function useHeldColumns(
  tasks: readonly ListedTask[],
  wanted: string,
  project: string,
  isHeld: boolean,
): Columns {
  const before = useRef<{ for: string; columns: Columns }>({ for: '', columns: new Map() });
  return useMemo(() => {
    const columnsFor = `${project} ${wanted}`;
    if (isHeld && before.current.for === columnsFor) {
      const byId = new Map(tasks.map((task) => [task.id, task]));
      return new Map(
        [...before.current.columns].map(([status, list]) => [
          status,
          list.flatMap(({ id }) => byId.get(id) ?? []),
        ]),
      );
    }
    const found = tasksIn(tasks, wanted, project);
    before.current = { for: columnsFor, columns: found };
    return found;
  }, [tasks, wanted, project, isHeld]);
}

/** Projects of all workspaces that can be seen. */
function ProjectChoice({ projects, chosen }: { projects: readonly ListedProject[]; chosen: string }) {
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
