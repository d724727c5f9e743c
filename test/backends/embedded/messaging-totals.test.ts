/** The busiest rooms, against all rooms sorted. */
import { randomInt } from 'node:crypto';
import { expect, it } from 'vitest';
import { embeddedFamilies } from '../../../src/backends/embedded/families.js';
import { openEmbeddedMessaging } from '../../../src/backends/embedded/messaging.js';
import { openKernel } from '../../../src/kernel/kernel.js';
import { limitsWith } from '../../../src/limits.js';

it('names the five public rooms with the most messages, the more recently active first among equals', async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const limits = limitsWith({ messageBytesPerMinuteMax: 1e15 });
  const kernel = await openKernel({ dataDir: '', engine: 'memory', families: embeddedFamilies, limits, clock: () => nowMs });
  const port = await openEmbeddedMessaging(kernel);
  try {
    const { identity } = await port.register({ publicKey: `${'A'.repeat(43)}=`, name: 'author', email: null, proven: true });
    const rooms = [];
    for (let index = 0; index < 12; index += 1) {
      // No two are active at the same moment: nothing says which of those is first.
      nowMs += 1;
      rooms.push(await port.createRoom({ name: `room-${index}`, isPrivate: index % 6 === 5, keyHash: null, createdBy: identity.id }));
    }
    for (let round = 0; round < 40; round += 1) {
      for (let posts = 0; posts < 10; posts += 1) {
        nowMs += 1;
        // Some rooms are busier than others, so that they overtake each other.
        const room = rooms[Math.min(randomInt(12), randomInt(12))];
        await port.post({ roomId: room?.id ?? '', from: identity.id, body: 'x', parentId: null, proof: null, serverSigned: false });
      }
      const { rooms: all } = await port.publicRooms(100, 0);
      const ranked = all.toSorted((a, b) => b.messageCount - a.messageCount || b.lastActiveAtMs - a.lastActiveAtMs);
      const { top, messages } = await port.totals();
      expect(top).toEqual(ranked.slice(0, 5).map(({ id, name, messageCount }) => ({ id, name, messageCount })));
      expect(messages).toBe((round + 1) * 10);
    }
  } finally {
    await port.close();
    await kernel.close();
  }
});
