import { Writable } from 'node:stream';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Output } from '../../../src/cli/output/output.js';

// Time stands still: a millisecond would be a second left, rounded up.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'] }));
afterEach(() => void vi.useRealTimers());

function drawn({ json, isTTY }: { json: boolean; isTTY: boolean }): string {
  let written = '';
  const stderr: Writable & { isTTY?: boolean } = new Writable({
    write(chunk, _encoding, done) {
      written += String(chunk);
      done();
    },
  });
  stderr.isTTY = isTTY;
  const progress = new Output({ json, stderr }).progress('Backing up');
  progress.update({ done: 1, total: 4 });
  // Sooner than anybody could see it: it is not drawn.
  progress.update({ done: 2, total: 4 });
  progress.end();
  return written;
}

test('a bar is drawn on a terminal, and wiped at the end', () => {
  expect(drawn({ json: false, isTTY: true })).toBe(
    `\r\u001B[KBacking up [${'#'.repeat(8)}${'.'.repeat(22)}] 25% 0 s left\r\u001B[K`,
  );
});

test('programs and files get no progress bar', () => {
  expect(drawn({ json: true, isTTY: true })).toBe('');
  expect(drawn({ json: false, isTTY: false })).toBe('');
});
