import { expect, it } from 'vitest';
import { SharedRuns } from '../../../src/core/waiting/shared-runs.js';
import { until } from '../../until.js';

/** Runs that end when they are told to. */
function heldRuns() {
  const begun: { name: string; end: () => void; fail: () => void }[] = [];
  const runs = new SharedRuns(
    (name) =>
      new Promise<number>((resolve, reject) => {
        const number = begun.length;
        begun.push({ name, end: () => resolve(number), fail: () => reject(new Error(`run ${number}`)) });
      }),
  );
  return { runs, begun };
}

it('calls of one turn share a run, and calls during it share the next, which begins when it has ended', async () => {
  const { runs, begun } = heldRuns();
  const first = [runs.run('a'), runs.run('a')];
  await until(() => begun.length === 1);
  const second = [runs.run('a'), runs.run('a')];
  const other = runs.run('b');
  await until(() => begun.length === 2);
  expect(begun.map(({ name }) => name)).toEqual(['a', 'b']);
  begun[0]?.end();
  expect(await Promise.all(first)).toEqual([0, 0]);
  await until(() => begun.length === 3);
  begun[2]?.end();
  expect(await Promise.all(second)).toEqual([2, 2]);
  begun[1]?.end();
  expect(await other).toBe(1);
});

it('a run that fails does not stop the next, and settled waits for both', async () => {
  const { runs, begun } = heldRuns();
  const first = runs.run('a');
  await until(() => begun.length === 1);
  const second = runs.run('a');
  let isSettled = false;
  const settled = runs.settled().then(() => (isSettled = true));
  begun[0]?.fail();
  await expect(first).rejects.toThrow('run 0');
  await until(() => begun.length === 2);
  expect(isSettled).toBe(false);
  begun[1]?.end();
  expect(await second).toBe(1);
  await settled;
});
