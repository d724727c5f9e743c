import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { AnswerTime } from '../../../../src/homes/postgres/database/answer-time.js';

const server = createServer();
const serverSide: Socket[] = [];
server.on('connection', (socket) => serverSide.push(socket));

beforeEach(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(() => {
  vi.useRealTimers();
  for (const socket of serverSide.splice(0)) socket.destroy();
  server.close();
});

/** Both ends of a connection of the pool. */
async function connected(answerTime: AnswerTime): Promise<[ours: Socket, theirs: Socket]> {
  const ours = await answerTime.connect({
    host: ['127.0.0.1'],
    port: [(server.address() as AddressInfo).port],
    path: false,
    connect_timeout: 10,
  });
  ours.on('error', () => undefined).resume();
  const [theirs] = (await once(server, 'connection')) as [Socket];
  return [ours, theirs];
}

it('after a timeout only silent connections are closed, not those with slow statements', async () => {
  const answerTime = new AnswerTime(30);
  const [busy, itsServer] = await connected(answerTime);
  const [silent] = await connected(answerTime);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const onLate = vi.fn();
  answerTime.limit(onLate);
  await vi.advanceTimersByTimeAsync(20_000);
  // One of its statements has ended, and the next one began.
  itsServer.write('Z');
  await once(busy, 'data');
  await vi.advanceTimersByTimeAsync(9_900);
  expect(onLate).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(200);
  expect(onLate).toHaveBeenCalledOnce();
  expect([busy.destroyed, silent.destroyed]).toEqual([false, true]);
  // Nothing arrived on it since: a live server would have ended the statement.
  await vi.advanceTimersByTimeAsync(27_500);
  expect([busy.destroyed, onLate.mock.calls.length]).toEqual([true, 1]);
  answerTime.end();
});
