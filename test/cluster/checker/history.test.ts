import { expect, it } from 'vitest';
import {
  type Claim,
  type Report,
  type SeenChange,
  commitFaults,
  counterFaults,
  feedFaults,
  orderFaults,
  taskFaults,
  watcherFaults,
  writeFaults,
} from './history.js';

it('reports an accepted write that is lost, but not a write of unknown outcome', () => {
  const writes = [
    { name: 'a', outcome: 'accepted' },
    { name: 'b', outcome: 'unknown' },
    { name: 'c', outcome: 'refused' },
  ] as const;
  expect(writeFaults('Document', writes, ['a'])).toEqual([]);
  expect(writeFaults('Document', writes, ['a', 'b'])).toEqual([]);
  expect(writeFaults('Document', writes, ['b'])).toEqual(['Document "a" was accepted and is lost.']);
  expect(writeFaults('Document', writes, ['a', 'c'])).toEqual(['Document "c" was refused and is stored.']);
});

it('finds a write that is stored twice, and a stored write that was never sent', () => {
  const writes = [{ name: 'a', outcome: 'unknown' }] as const;
  expect(writeFaults('Message', writes, ['a', 'a', 'x'])).toEqual([
    'Message "a" was asked for once and is stored 2 times.',
    'Message "x" is stored, and nobody wrote it.',
  ]);
});

it('finds a commit of which only a part is stored', () => {
  const whole = new Map([
    ['document', ['one', 'two']],
    ['task', ['two', 'one']],
  ]);
  expect(commitFaults(whole)).toEqual([]);
  expect(commitFaults(new Map([...whole, ['message', ['one']]]))).toEqual([
    'The commit "two" is torn: its message is missing.',
  ]);
});

const claim = (holder: string, fence: number, calledAtMs: number, leaseMs = 100): Claim => ({
  task: 't',
  holder,
  fence,
  calledAtMs,
  returnedAtMs: calledAtMs + 1,
  leaseMs,
});
const report = (fence: number, outcome: Report['outcome'], calledAtMs: number): Report => ({
  task: 't',
  fence,
  output: `by ${fence}`,
  outcome,
  calledAtMs,
});
const completed = (fence: number) => [{ id: 't', status: 'completed', output: `by ${fence}` }];

it('accepts a task that passed on after its lease was over', () => {
  expect(
    taskFaults(
      [claim('a', 1, 0), claim('b', 2, 100)],
      [report(1, 'refused', 120), report(2, 'accepted', 130)],
      completed(2),
    ),
  ).toEqual([]);
});

it('finds a task that two held at the same time', () => {
  expect(
    taskFaults([claim('a', 1, 0), claim('b', 2, 50)], [report(2, 'accepted', 60)], completed(2)),
  ).toEqual(['Task t was held by a and b at the same time.']);
  expect(
    taskFaults([claim('a', 1, 0), claim('b', 1, 500)], [report(1, 'accepted', 510)], completed(1)),
  ).toEqual(['Task t gave the fencing number 1 to a and b.']);
});

it('finds a task that ended twice, never, or with the output of another', () => {
  const claims = [claim('a', 1, 0), claim('b', 2, 100)];
  expect(taskFaults(claims, [report(1, 'accepted', 90), report(2, 'accepted', 130)], completed(2))).toEqual([
    'Task t accepted the output "by 1" and has "by 2".',
    'Task t was completed under more than one fencing number.',
  ]);
  expect(taskFaults(claims, [report(2, 'unknown', 130)], completed(2))).toEqual([]);
  expect(taskFaults(claims, [report(2, 'refused', 130)], completed(2))).toEqual([
    'Task t has the output "by 2", which nobody reported.',
  ]);
  expect(taskFaults([], [], [{ id: 't', status: 'running', output: null }])).toEqual([
    'Task t is running at the end instead of completed.',
  ]);
});

const change = (seq: number, id: string, version: number): SeenChange => ({
  seq,
  kind: 'document.set',
  id,
  version,
});

it('finds a change that a watcher missed, saw twice or saw in another order', () => {
  const feed = [change(1, 'a', 1), change(2, 'b', 1), change(3, 'a', 2)];
  const [first, second, third] = feed as [SeenChange, SeenChange, SeenChange];
  const faults = (...seen: SeenChange[]) => watcherFaults(feed, new Map([['A', seen]]));
  expect(faults(first, second, third)).toEqual([]);
  expect(faults(first, third)).toEqual([
    'Watcher A saw 3 document.set a version 2 where the feed has 2 document.set b version 1 (change 2 of 3).',
  ]);
  expect(faults(first, second)).toEqual([
    'Watcher A saw nothing where the feed has 3 document.set a version 2 (change 3 of 3).',
  ]);
  expect(faults(first, second, third, third)).toHaveLength(1);
  expect(faults(second, first, third)).toHaveLength(1);
});

it('finds versions and positions of the feed that swap', () => {
  expect(feedFaults([change(1, 'a', 1), change(2, 'b', 1), change(2, 'a', 2)])).toEqual([]);
  expect(feedFaults([change(1, 'a', 2), change(2, 'a', 1)])).toEqual([
    'The feed has version 2 of a after version 0.',
    'The feed has version 1 of a after version 2.',
  ]);
  expect(feedFaults([change(2, 'a', 1), change(1, 'b', 1)])).toEqual(['The feed goes back from 2 to 1.']);
});

it('finds a counter that is not what there is', () => {
  expect(counterFaults([{ what: 'tasks', counter: 2, contents: 2 }])).toEqual([]);
  expect(counterFaults([{ what: 'tasks', counter: 2, contents: 3 }])).toEqual([
    'The counter of tasks says 2, and there are 3.',
  ]);
});

it('finds messages in another order than they were accepted in', () => {
  expect(orderFaults('Messages of a', ['1', '2', '3'], ['1', 'x', '3'])).toEqual([]);
  expect(orderFaults('Messages of a', ['1', '2'], ['2', '1'])).toEqual([
    'Messages of a are not stored in the order in which they were accepted.',
  ]);
});
