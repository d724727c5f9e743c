import { expect, test } from 'vitest';
import {
  type ReadyEntry,
  ReadyLines,
  readyLine,
} from '../../../../src/homes/directory/workspaces/tasks/ready-line.js';
import { anyTask } from '../../../../src/workspaces/tasks/claim-filter.js';

const part = (entries: ReadyEntry[]) => ({ entries, until: entries.at(-1)?.key });
const fourEntries = (project: string): ReadyEntry[] =>
  ['a', 'b', 'c', 'd'].map((key) => ({ key: `${project} ${key}`, taskId: `${project} ${key}` }));

test('the fronts of all projects and filters together have a limit', () => {
  const lines = new ReadyLines(12);
  const first = readyLine('first', anyTask);
  const second = readyLine('second', anyTask);
  const filtered = readyLine('second', { ...anyTask, without: ['slow'] });
  lines.found(first, undefined, part(fourEntries('first')), 0);
  lines.found(second, undefined, part(fourEntries('second')), 0);
  expect(lines.take(first, 0)?.taskId).toBe('first a');
  expect(lines.take(second, 0)?.taskId).toBe('second a');
  lines.found(filtered, undefined, part(fourEntries('second')), 0);
  expect(lines.take(first, 0)).toBeUndefined();
  expect(lines.take(second, 0)?.taskId).toBe('second b');
  expect(lines.take(filtered, 0)?.taskId).toBe('second a');
});
