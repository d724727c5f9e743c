import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Periodic } from '../../../src/core/waiting/periodic.js';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('runs one at a time, and a close waits for the current run', async () => {
  const runs: (() => void)[] = [];
  const work = new Periodic({
    everyMs: 100,
    run: () => new Promise<void>((resolve) => runs.push(resolve)),
    onError: () => expect.fail('nothing fails'),
  });
  work.start();
  await vi.advanceTimersByTimeAsync(350);
  expect(runs).toHaveLength(1);
  runs[0]?.();
  await vi.advanceTimersByTimeAsync(100);
  expect(runs).toHaveLength(2);
  let isClosed = false;
  const closing = work.close().then(() => (isClosed = true));
  await vi.advanceTimersByTimeAsync(500);
  expect([isClosed, runs.length]).toEqual([false, 2]);
  runs[1]?.();
  await closing;
});

it('reports the first of several failures, and again after a success', async () => {
  const reported: unknown[] = [];
  const outcomes = ['a', 'b', null, 'c', 'd'];
  const work = new Periodic({
    everyMs: 100,
    run: async () => {
      const failure = outcomes.shift();
      if (failure !== null && failure !== undefined) throw new Error(failure);
    },
    onError: (error) => reported.push(String(error)),
  });
  work.start();
  await vi.advanceTimersByTimeAsync(520);
  await work.close();
  expect(reported).toEqual(['Error: a', 'Error: c']);
});
