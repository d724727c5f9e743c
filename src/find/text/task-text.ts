/** The text of a task and of a message. */
import type { EntryText } from '../model.js';
import { LimitedText } from './limited-text.js';
import { withoutSecrets } from './secrets-in-text.js';

export interface IndexedTask {
  readonly command: string;
  readonly labels: readonly string[];
  readonly output: string | null;
  readonly error: string | null;
  readonly question: string | null;
  readonly answer: string | null;
}

/** Characters of a command's first line that count as the title of the task. */
const titleCharactersMax = 120;
/** So much of the line is searched for secrets, because one that is cut cannot be seen to be one. */
const titleSourceCharactersMax = 1_000;

export function taskText(task: IndexedTask): EntryText {
  const text = new LimitedText();
  const firstLine = task.command.trimStart().split('\n', 1)[0] ?? '';
  const shown = withoutSecrets(firstLine.slice(0, titleSourceCharactersMax));
  text.addTitle(shown.slice(0, titleCharactersMax));
  for (const label of task.labels) text.addTitle(label);
  // A long command must not leave out the short texts after it, so it comes last but one.
  for (const part of [task.question, task.answer, task.error, task.command, task.output])
    text.addBody(part ?? '');
  return text;
}

/** Whether both tasks have the same text, without making it. */
export function hasSameText(a: IndexedTask, b: IndexedTask): boolean {
  return (
    a.command === b.command &&
    a.output === b.output &&
    a.error === b.error &&
    a.question === b.question &&
    a.answer === b.answer &&
    a.labels.length === b.labels.length &&
    a.labels.every((label, index) => label === b.labels[index])
  );
}

export function messageText(body: string): EntryText {
  const text = new LimitedText();
  text.addBody(body);
  return text;
}
