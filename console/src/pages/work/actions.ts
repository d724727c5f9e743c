/** What a person does with tasks. */
import type { ListedTask, World } from '../../live/world.js';
import { ask, attempt, say } from '../../ui/dialog.js';

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

export { attempt };
