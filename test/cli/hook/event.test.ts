/** What a hook reads from its standard input. */
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { readEvent } from '../../../src/cli/hook/event.js';

test('an input that its program leaves open is read as far as it came', async () => {
  const input = new PassThrough();
  input.write('{"session_id": "s1"}');
  expect(await readEvent(input)).toEqual({ session_id: 's1' });
});

test('an input that is too long, or not JSON, has no event', async () => {
  const long = new PassThrough();
  long.end(Buffer.alloc(1024 * 1024 + 1, ' '));
  expect(await readEvent(long)).toEqual({});
  const text = new PassThrough();
  text.end('hello');
  expect(await readEvent(text)).toEqual({});
});
