import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { Output } from '../../../src/cli/output/output.js';

function printed(write: (output: Output) => void): string {
  const stdout = new PassThrough();
  write(new Output({ json: false, stdout, stderr: new PassThrough(), environment: {} }));
  return String(stdout.read());
}

test('times are shown as dates in every column and field', () => {
  const at = Date.UTC(2026, 0, 31, 12);
  const headings = ['AT', 'CREATED', 'UPDATED', 'EXPIRES', 'CLOSED_AT', 'LAST_USED_AT', 'LAST_SEEN'];
  const table = printed((output) =>
    output.list(
      { items: [at] },
      headings.map((heading) => [heading, (item: number) => item] as const),
      '',
    ),
  );
  expect(table.split('\n')[1]?.split(/ +/)).toEqual(headings.map(() => '2026-01-31T12:00:00.000Z'));
  expect(printed((output) => output.value({ closed_at: at }))).toBe('closed_at  2026-01-31T12:00:00.000Z\n');
});
