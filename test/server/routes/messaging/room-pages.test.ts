import { expect, it } from 'vitest';
import type { Room } from '../../../../src/messaging/model.js';
import type { MessagingService } from '../../../../src/messaging/service.js';
import { RoomPages } from '../../../../src/server/routes/messaging/room-pages.js';
import { openStoa } from '../../../../src/index.js';

/** The pages that are found again, by their limits, after one of each size was kept. */
async function foundOf(sizes: readonly number[]): Promise<number[]> {
  const stoa = await openStoa({ data: '', engine: 'memory' });
  const messaging: MessagingService = stoa.messaging;
  const { port } = messaging;
  const room = (await port.room('00000000-0000-0000-0000-000000000001')) as Room;
  const pages = new RoomPages();
  const page = (size: number) => ({ messages: [{ ts: port.nowMs(), body: 'x'.repeat(size) }] });
  for (const [index, size] of sizes.entries())
    pages.keep(messaging, room, { beforeMs: null, limit: index + 1 }, port.roomRevision(room.id), page(size));
  const found = sizes
    .map((_, index) => index + 1)
    .filter((limit) => pages.find(port, room, { beforeMs: null, limit }) !== undefined);
  await stoa.close();
  return found;
}

it('cached pages of rooms have a total size limit, and a larger page is not kept', async () => {
  expect(await foundOf([10, 15_000_000, 10, 15_000_000, 10])).toEqual([1, 2, 3, 4, 5]);
  expect(await foundOf([10, 15_000_000, 10, 20_000_000, 10])).toEqual([3, 4, 5]);
  expect(await foundOf([10, 40_000_000])).toEqual([1]);
});
