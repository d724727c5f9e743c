import { expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { NewestPages } from '../../../../src/server/routes/messaging/newest-pages.js';
import { openStoa } from '../../../../src/index.js';
import { MessagingServer } from '../../../messaging/kit.js';

/** The limits of the pages that are not read a second time, after one of each size was read. */
async function keptOf(sizes: readonly number[]): Promise<number[]> {
  const stoa = await openStoa({ data: '', engine: 'memory' });
  const { port } = stoa.messaging;
  const pages = new NewestPages();
  const topic = { kind: 'room', id: '00000000-0000-0000-0000-000000000001' } as const;
  const ask = async (limit: number, size: number): Promise<boolean> => {
    let isRead = false;
    const span = { beforeMs: null, limit };
    const revision = port.revision(topic);
    await pages.page(port, { topic, span, retentionSeconds: 60, revision }, async () => {
      isRead = true;
      return { messages: [{ ts: port.nowMs(), body: 'x'.repeat(size) }] };
    });
    return isRead;
  };
  for (const [index, size] of sizes.entries()) await ask(index + 1, size);
  const kept: number[] = [];
  // From the last one, because a page that is read again takes the place of others.
  for (let limit = sizes.length; limit > 0; limit -= 1) if (!(await ask(limit, 0))) kept.unshift(limit);
  await stoa.close();
  return kept;
}

it('cached pages have a total size limit, and a larger page is not kept', async () => {
  expect(await keptOf([10, 15_000_000, 10, 15_000_000, 10])).toEqual([1, 2, 3, 4, 5]);
  expect(await keptOf([10, 15_000_000, 10, 20_000_000, 10])).toEqual([3, 4, 5]);
  expect(await keptOf([10, 40_000_000])).toEqual([1]);
});

it('a page is not cached if its room changes while the key of the room is checked', async () => {
  let nowMs = Date.now();
  const server = await MessagingServer.open({ clock: () => nowMs });
  const { messaging, operatorToken } = server.stoa;
  const key = 'a key of sixteen or more';
  const operator = { authorization: `Bearer ${operatorToken}`, 'stoa-user': 'ada' };
  const room = { name: 'before', is_private: true, key };
  const { id } = (await server.ask('POST', '/room', { body: room, headers: operator })).json;
  await server.ask('POST', `/room/${id}`, { body: { body: 'short-lived' }, headers: operator });
  const { port, rooms } = messaging;
  const keyHash = port.roomKeyHash.bind(port);
  vi.spyOn(port, 'roomKeyHash').mockImplementationOnce(async (roomId) => {
    await rooms.update(operatorCaller('ada'), id, { name: 'after', retentionSeconds: 60 });
    return keyHash(roomId);
  });
  const read = () => server.ask('GET', `/room/${id}`, { headers: { ...operator, 'x-aicq-room-key': key } });
  expect((await read()).json.messages).toHaveLength(1);
  nowMs += 61_000;
  expect((await read()).json).toMatchObject({ room: { name: 'after' }, messages: [] });
  await server.close();
});
