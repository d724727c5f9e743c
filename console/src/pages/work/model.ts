/** Tasks as the board shows them. */
import type { ListedTask } from '../../live/world.js';
import { shortId } from '../../ui/format.js';
import type { Tone } from '../../ui/parts.js';

export type TaskStatus = ListedTask['status'];

export const columns: readonly TaskStatus[] = [
  'pending',
  'running',
  'input_required',
  'completed',
  'failed',
  'cancelled',
];

/** In pixels: a title of two lines, then as many lines as a task of this status has to say. */
export const cardHeights: Readonly<Record<TaskStatus, number>> = {
  pending: 94,
  running: 94,
  input_required: 130,
  completed: 94,
  failed: 94,
  cancelled: 94,
};

export const statusTones: Readonly<Record<TaskStatus, Tone>> = {
  pending: 'calm',
  running: 'busy',
  input_required: 'warn',
  completed: 'good',
  failed: 'bad',
  cancelled: 'calm',
};

/** By status. Pending tasks in the order of claiming, the others with the newest first. */
export function tasksIn(
  tasks: readonly ListedTask[],
  wanted: string,
  project: string,
): ReadonlyMap<TaskStatus, readonly ListedTask[]> {
  const words = wanted.trim().toLowerCase();
  const lists = new Map<TaskStatus, ListedTask[]>(columns.map((status) => [status, []]));
  for (const task of tasks) {
    if (project !== '' && task.project_id !== project) continue;
    if (words !== '' && !textOf(task).includes(words)) continue;
    lists.get(task.status)?.push(task);
  }
  for (const [status, list] of lists) list.sort(status === 'pending' ? inClaimOrder : newestFirst);
  return lists;
}

function textOf({ command, claimed_by, labels, id }: ListedTask): string {
  return `${command} ${claimed_by ?? ''} ${labels.join(' ')} ${id}`.toLowerCase();
}

function inClaimOrder(a: ListedTask, b: ListedTask): number {
  return b.priority - a.priority || (a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0);
}

function newestFirst(a: ListedTask, b: ListedTask): number {
  return a.updated_at > b.updated_at ? -1 : a.updated_at < b.updated_at ? 1 : 0;
}

/** The tasks that have to complete before this one is ready. */
export function openDependencies(
  { depends_on }: ListedTask,
  tasks: ReadonlyMap<string, ListedTask>,
): { readonly id: string; readonly text: string }[] {
  return depends_on.flatMap((id) => {
    const task = tasks.get(id);
    return task?.status === 'completed' ? [] : [{ id, text: task?.command ?? shortId(id) }];
  });
}

/** What a card says below its title: what the task waits for, asks, or how it ended. */
export function noteOf(task: ListedTask, tasks: ReadonlyMap<string, ListedTask>): string {
  if (task.status === 'input_required') return task.question ?? '';
  if (task.status !== 'pending') return task.error ?? task.reason ?? task.output ?? '';
  const [first, ...others] = openDependencies(task, tasks);
  if (first !== undefined)
    return `after ${first.text}${others.length === 0 ? '' : ` and ${others.length} more`}`;
  return task.run_at === null || Date.parse(task.run_at) <= Date.now() ? 'ready' : 'ready later';
}

/** The task, what it waits for and what waits for it, in levels from first to last. */
export interface Graph {
  readonly levels: readonly (readonly ListedTask[])[];
  readonly edges: readonly { readonly from: string; readonly to: string }[];
}

const graphTasksMax = 40;

export function graphOf(id: string, tasks: ReadonlyMap<string, ListedTask>): Graph {
  const dependants = new Map<string, string[]>();
  for (const task of tasks.values())
    for (const dependency of task.depends_on)
      dependants.set(dependency, [...(dependants.get(dependency) ?? []), task.id]);
  const found = new Set<string>([id]);
  collect(id, found, (at) => tasks.get(at)?.depends_on ?? []);
  collect(id, found, (at) => dependants.get(at) ?? []);
  const depths = new Map<string, number>();
  const depthOf = (at: string, path: ReadonlySet<string>): number => {
    const known = depths.get(at);
    if (known !== undefined) return known;
    const before = (tasks.get(at)?.depends_on ?? []).filter((each) => found.has(each) && !path.has(each));
    const depth =
      before.length === 0 ? 0 : 1 + Math.max(...before.map((each) => depthOf(each, new Set([...path, at]))));
    depths.set(at, depth);
    return depth;
  };
  const levels: ListedTask[][] = [];
  for (const at of found) {
    const task = tasks.get(at);
    if (task !== undefined) (levels[depthOf(at, new Set())] ??= []).push(task);
  }
  const edges = [...found].flatMap((to) =>
    (tasks.get(to)?.depends_on ?? []).filter((from) => found.has(from)).map((from) => ({ from, to })),
  );
  return { levels: levels.filter((level) => level !== undefined), edges };
}

function collect(start: string, found: Set<string>, next: (id: string) => readonly string[]): void {
  const open = [start];
  for (let at = open.pop(); at !== undefined && found.size < graphTasksMax; at = open.pop())
    for (const id of next(at)) {
      if (found.has(id) || found.size >= graphTasksMax) continue;
      found.add(id);
      open.push(id);
    }
}
