/** What a person does with tasks. */
import type { Task } from '../../../../src/workspaces/model.js';
import type { ListedTask, World } from '../../live/world.js';
import { ask, say } from '../../ui/dialog.js';
import { plural } from '../../ui/format.js';

export function answerQuestion({ view, tasks }: World, task: ListedTask): void {
  ask({
    title: 'Answer',
    text: task.question ?? '',
    input: { label: 'Answer', isLong: true },
    action: 'Send the answer',
    act: async (answer) => {
      const after = await view.stoa.tasks.answer(task.id, { answer });
      tasks.put(listed(task, after));
      say('The answer is with the task.');
    },
  });
}

export function cancelTask({ view, tasks }: World, task: ListedTask): void {
  ask({
    title: 'Cancel this task?',
    text: 'It ends without a result. Tasks that depend on it are cancelled too.',
    input: { label: 'Reason', optional: true },
    action: 'Cancel the task',
    isDangerous: true,
    act: async (reason) => {
      const after = await view.stoa.tasks.cancel(task.id, reason.trim() === '' ? {} : { reason });
      tasks.put(listed(task, after));
      say('The task is cancelled.');
    },
  });
}

export function deleteTask({ view }: World, task: ListedTask): void {
  ask({
    title: 'Delete this task?',
    text: 'Its record is removed.',
    action: 'Delete the task',
    isDangerous: true,
    act: async () => {
      await view.stoa.tasks.delete(task.id);
      say('The task is deleted.');
    },
  });
}

/** Takes the task from its holder, whose late results are refused. The next claim gets it. */
export function takeOver({ view, tasks }: World, task: ListedTask): void {
  ask({
    title: 'Take this task from its holder?',
    text: `${task.claimed_by ?? 'The holder'} loses the task, and its late results are refused. The task returns to the queue, and the attempt does not count.`,
    input: { label: 'Reason', optional: true },
    action: 'Take over',
    act: async (reason) => {
      const after = await view.stoa.tasks.release(task.id, reason.trim() === '' ? {} : { reason });
      tasks.put(listed(task, after));
      say('The task is back in the queue.');
    },
  });
}

/** The task returns to the queue with its id, and with it the tasks that were cancelled because of it. */
export function retryTask({ view, tasks }: World, task: ListedTask): void {
  const blocked = blockedBy(task, tasks.items);
  ask({
    title: 'Try this task again?',
    text:
      'The task returns to the queue with all its attempts. Late results of former holders stay refused.' +
      (blocked.length === 0
        ? ''
        : ` ${plural(blocked.length, 'task')} that depend on it and were cancelled return too.`),
    input: { label: 'Reason', optional: true },
    action: 'Retry',
    act: async (reason) => {
      for (const each of [task, ...blocked]) {
        const after = await view.stoa.tasks.retry(each.id, reason.trim() === '' ? {} : { reason });
        tasks.put(listed(each, after));
      }
      say('The task is in the queue again.');
    },
  });
}

/** Tasks that were cancelled because this one ended, in the order in which they depend on each other. */
function blockedBy(task: ListedTask, tasks: ReadonlyMap<string, ListedTask>): ListedTask[] {
  const found = new Map<string, ListedTask>();
  const open = [task.id];
  for (let id = open.shift(); id !== undefined; id = open.shift())
    for (const each of tasks.values()) {
      if (each.status !== 'cancelled' || found.has(each.id) || !each.depends_on.includes(id)) continue;
      if (each.reason?.startsWith(`It depends on ${id},`) !== true) continue;
      found.set(each.id, each);
      open.push(each.id);
    }
  return [...found.values()];
}

/** What a list would say about the task after an action: actions answer without the project, and end the lease. */
function listed({ project_id }: ListedTask, after: Task): ListedTask {
  return { ...after, project_id, lease_expires_at: null };
}
