/** A change that thousands of readers want: other work runs while they get it. */
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';

const readers = 1_000;
const ada = operatorCaller('ada');

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

/** How many readers had got something at the end of each turn of the event loop, until all had. */
async function countsByTurn(got: () => number): Promise<number[]> {
  const counts: number[] = [];
  while (got() < readers) {
    await turn();
    counts.push(got());
  }
  return counts;
}

it('readers of changes are woken in several turns, and each gets the change', async () => {
  const { changes, data } = running.stoa;
  const stop = new AbortController();
  const commits: number[] = [];
  const since = await changes.newest();
  for (let index = 0; index < readers; index += 1) {
    const pages = await changes.follow(ada, { since, topics: ['data'] }, stop.signal);
    void pages.next().then(({ done, value }) => commits.push(done === true ? 0 : value.commits.length));
  }
  await turn();
  await data.set(ada, 'notes', 'today', { text: 'rain' });
  const counts = await countsByTurn(() => commits.length);
  expect(counts.filter((count) => count > 0 && count < readers).length).toBeGreaterThan(5);
  // A reader that missed the change gets an empty page after a while.
  expect(commits).toEqual(Array.from({ length: readers }, () => 1));
  stop.abort();
});

it('a message goes to the readers of a room in several turns, and its deletion after it', async () => {
  const { hub, port } = running.stoa.messaging;
  const ask = (method: string, path: string, body?: object) =>
    running.ask(method, path, { as: running.alice, ...(body && { body }) });
  const { json: made } = await ask('POST', '/v1/rooms', { name: 'crowded' });
  const room = await port.room(made['id']);
  if (room === undefined) throw new Error('The room is missing.');
  const seen: string[][] = [];
  let got = 0;
  let deleted = 0;
  const stops = Array.from({ length: readers }, (_, index) => {
    const events: string[] = (seen[index] = []);
    return hub.follow({ kind: 'room', id: room.id, room }, 0, {
      onMessage: () => {
        events.push('message');
        got += 1;
        // As long as it takes to send the message.
        for (const endMs = performance.now() + 0.05; performance.now() < endMs;);
      },
      onDeleted: () => {
        events.push('deleted');
        deleted += 1;
      },
      onFailure: () => undefined,
    });
  });
  await turn();
  const { json: message } = await ask('POST', `/v1/rooms/${room.id}/messages`, { body: 'to all' });
  const deleting = ask('DELETE', `/v1/rooms/${room.id}/messages/${String(message['id'])}`);
  const counts = await countsByTurn(() => Math.max(got, deleted));
  expect(counts.filter((count) => count > 0 && count < readers).length).toBeGreaterThan(2);
  expect((await deleting).status).toBe(204);
  await expect.poll(() => deleted).toBe(readers);
  for (const events of seen) expect(['message deleted', 'deleted']).toContain(events.join(' '));
  for (const stop of stops) stop();
});
