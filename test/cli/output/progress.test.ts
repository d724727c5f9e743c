import { Writable } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Output } from '../../../src/cli/output/output.js';

// Time goes on only where a test says so.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'] }));
afterEach(() => void vi.useRealTimers());

function drawn({ json, isTTY, unit }: { json: boolean; isTTY: boolean; unit?: string }): string {
  let written = '';
  const stderr: Writable & { isTTY?: boolean } = new Writable({
    write(chunk, _encoding, done) {
      written += String(chunk);
      done();
    },
  });
  stderr.isTTY = isTTY;
  const progress = new Output({ json, stderr }).progress('Backing up');
  vi.advanceTimersByTime(2_000);
  progress.update({ done: 1, total: 4 }, unit);
  // Sooner than anybody could see it: it is not drawn.
  progress.update({ done: 2, total: 4 }, unit);
  progress.end();
  return written;
}

test('a bar is drawn on a terminal, and wiped at the end', () => {
  expect(drawn({ json: false, isTTY: true })).toBe(
    `\r\u001B[KBacking up [${'#'.repeat(8)}${'.'.repeat(22)}] 25% 6 s left\r\u001B[K`,
  );
});

test('a bar of something that is counted shows how many a second', () => {
  expect(drawn({ json: false, isTTY: true, unit: 'records' })).toContain('25% 1 records/s 6 s left');
});

test('each phase has its own bar, and only the last seconds count for the time left', () => {
  let written = '';
  const stderr: Writable & { isTTY?: boolean } = new Writable({
    write(chunk, _encoding, done) {
      written = String(chunk);
      done();
    },
  });
  stderr.isTTY = true;
  const progress = new Output({ json: false, stderr }).progress('Importing');
  const after = (seconds: number, step: Parameters<typeof progress.update>[0]): string => {
    vi.advanceTimersByTime(seconds * 1_000);
    progress.update(step);
    return written.slice(written.indexOf('K') + 1);
  };
  after(1, { phase: 'checking', done: 0, total: 100 });
  expect(after(2, { phase: 'checking', done: 50, total: 100 })).toContain('Checking [');
  expect(written).toMatch(/50% 2 s left$/);
  // Checking was fast; that says nothing about writing.
  expect(after(1, { phase: 'writing', done: 0, total: 1_000 })).toMatch(/^Writing \[\.{30}\] 0%$/);
  expect(after(10, { phase: 'writing', done: 100, total: 1_000 })).toMatch(/10% 90 s left$/);
  // Ten times slower from here on.
  for (let seconds = 5, done = 105; seconds <= 20; seconds += 5, done += 5)
    after(5, { phase: 'writing', done, total: 1_000 });
  expect(after(1, { phase: 'writing', done: 121, total: 1_000 })).toMatch(/12% 15 min left$/);
});

test('programs and files get no progress bar', () => {
  expect(drawn({ json: true, isTTY: true })).toBe('');
  expect(drawn({ json: false, isTTY: false })).toBe('');
});
