/** Answers that are made in one turn of the event loop. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { Running } from '../running.js';

const documents = 12;
const textOf = (index: number): string => `${index}:${'x'.repeat(60_000)}`;

let running: Running;
beforeAll(async () => {
  running = await Running.start();
  const values = Array.from({ length: documents }, (_, index) => [`key-${index}`, textOf(index)] as const);
  await running.stoa.data.setMany(operatorCaller('alice'), 'notes', Object.fromEntries(values));
});
afterAll(() => running.stop());

/** The requests for all documents, as one text. */
function requests(last: 'close' | 'keep-alive'): string {
  return Array.from({ length: documents }, (_, index) =>
    [
      `GET /v1/data/notes/key-${index} HTTP/1.1`,
      'Host: 127.0.0.1',
      `Authorization: Bearer ${running.alice}`,
      `Connection: ${index === documents - 1 ? last : 'keep-alive'}`,
      '\r\n',
    ].join('\r\n'),
  ).join('');
}

test('pipelined answers of more than 256 KiB come whole and in order', async () => {
  const answers = await running.bytes(requests('close'));
  expect(answers.match(/HTTP\/1\.1 200/g)).toHaveLength(documents);
  expect(answers.match(/\d+:x{60000}/g)).toEqual(Array.from({ length: documents }, (_, at) => textOf(at)));
});

test('a client that is gone before its answers are written harms no other', async () => {
  // In the turn of the request, before its answer is written.
  running.app.server.once('request', ({ socket }) => socket.destroy());
  expect(await running.bytes(requests('keep-alive'))).toBe('');
  const answers = await running.bytes(requests('close'));
  expect(answers.match(/\d+:x{60000}/g)).toHaveLength(documents);
});
