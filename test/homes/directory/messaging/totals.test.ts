/** The busiest rooms, against all rooms sorted. */
import { randomInt } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import type { Identity } from '../../../../src/messaging/model.js';
import { type WrittenPort, writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { openMessaging } from './open-messaging.js';

let nowMs: number;
let kernel: Kernel;
let port: WrittenPort;
let identity: Identity;

beforeEach(async () => {
  nowMs = Date.UTC(2026, 0, 1);
  const limits = limitsWith({ messageBytesPerMinuteMax: 1e15 });
  kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: directoryFamilies,
    limits,
    clock: () => nowMs,
  });
  const { messaging } = await openMessaging(kernel);
  port = writtenPort({ writer: new DirectoryWriter(kernel), port: messaging });
  ({ identity } = await port.register({
    publicKey: `${'A'.repeat(43)}=`,
    name: 'author',
    email: null,
    proven: true,
  }));
});

afterEach(async () => {
  await port.close();
  await kernel.close();
});

it('names the five public rooms with the most messages, the more recently active first among equals', async () => {
  const rooms = [];
  for (let index = 0; index < 12; index += 1) {
    // No two are active at the same moment: nothing says which of those is first.
    nowMs += 1;
    rooms.push(
      await port.createRoom({
        name: `room-${index}`,
        isPrivate: index % 6 === 5,
        keyHash: null,
        createdBy: identity.id,
        owner: null,
        retentionSeconds: null,
      }),
    );
  }
  for (let round = 0; round < 40; round += 1) {
    for (let posts = 0; posts < 10; posts += 1) {
      nowMs += 1;
      // Some rooms are busier than others, so that they overtake each other.
      const room = rooms[Math.min(randomInt(12), randomInt(12))];
      await port.post({
        roomId: room?.id ?? '',
        from: identity.id,
        body: 'x',
        parentId: null,
        proof: null,
        serverSigned: false,
      });
    }
    const { rooms: all } = await port.publicRooms(100, 0);
    const ranked = all.toSorted(
      (a, b) => b.messageCount - a.messageCount || b.lastActiveAtMs - a.lastActiveAtMs,
    );
    const { top, messages } = await port.totals();
    expect(top).toEqual(ranked.slice(0, 5).map(({ id, name, messageCount }) => ({ id, name, messageCount })));
    expect(messages).toBe((round + 1) * 10);
  }
});

it('lists rooms in the order of their last activity, also under fast alternation', async () => {
  const ids: string[] = [];
  for (let step = 0; step < 1_500; step += 1) {
    nowMs += randomInt(1, randomInt(10) === 0 ? 3_000 : 30);
    const isPrivate = randomInt(5) === 0;
    if (ids.length < 3 || randomInt(100) === 0)
      ids.push(
        (
          await port.createRoom({
            name: `room-${step}`,
            isPrivate,
            keyHash: null,
            createdBy: identity.id,
            owner: null,
            retentionSeconds: null,
          })
        ).id,
      );
    // The same room again and again, now and then another.
    const roomId = ids[randomInt(4) === 0 ? randomInt(ids.length) : ids.length - 1] as string;
    await port.post({
      roomId,
      from: identity.id,
      body: 'x',
      parentId: null,
      proof: null,
      serverSigned: false,
    });
    const { rooms } = await port.publicRooms(100, 0);
    const times = rooms.map(({ lastActiveAtMs }) => lastActiveAtMs);
    if (times.some((time, at) => time > (times[at - 1] ?? Infinity)))
      expect.fail(`Step ${step}: ${times.join(', ')}`);
  }
  expect([...kernel.root.range('messaging/rooms_by_activity', {})].length).toBe(
    (await port.publicRooms(100, 0)).total,
  );
});
