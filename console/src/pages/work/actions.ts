/** What a person does with tasks. */
import type { ListedTask, World } from '../../live/world.js';
import { href, navigate } from '../../router.js';
import { ask, say } from '../../ui/dialog.js';

export function answerQuestion({ view, tasks }: World, task: ListedTask): void {
  ask({
    title: 'Answer',
    text: task.question ?? '',
    input: { label: 'Answer', isLong: true },
    action: 'Send the answer',
    act: async (answer) => {
      const after = await view.stoa.tasks.answer(task.id, { answer });
      tasks.put({ ...after, project_id: task.project_id });
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
      tasks.put({ ...after, project_id: task.project_id });
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
      tasks.put({ ...after, project_id: task.project_id });
      say('The task is back in the queue.');
    },
  });
}

/** A final status stays final: the same work is a new task. */
export function retryTask({ view, tasks }: World, task: ListedTask): void {
  ask({
    title: 'Try this task again?',
    text: 'A new task with the same command, labels, priority and attempts is created in the same session. This one stays as it is.',
    action: 'Create the task again',
    act: async () => {
      const { command, labels, priority, max_attempts, retry } = task;
      const after = await view.stoa.tasks.create(task.session_id, {
        command,
        labels,
        priority,
        max_attempts,
        ...(retry !== null && { retry }),
      });
      tasks.put({ ...after, project_id: task.project_id });
      navigate(href(['work', after.id]));
      say('The task is in the queue again.');
    },
  });
}
