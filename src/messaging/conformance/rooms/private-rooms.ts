/** Private rooms and their keys. */
import { operatorCaller } from '../../../core/caller.js';
import { randomUUID } from 'node:crypto';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { Stream } from '../kit/stream.js';
import { secret, refusals } from '../kit/requests.js';

export function privateRoomTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`private rooms on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    });
    afterAll(() => server.close());

    it('need their key for reading and for writing', async () => {
      const room = await server.room(ann, 'den', secret);
      const key = { 'x-aicq-room-key': secret };
      await ann.post(room, 'inside', {}, key);
      isRefused(await server.get(`/room/${room}`), 403, 'room key required for private rooms');
      isRefused(
        await server.get(`/room/${room}`, { 'x-aicq-room-key': `${secret}x` }),
        403,
        'invalid room key',
      );
      isRefused(await bob.send(`/room/${room}`, { body: 'x' }), 403, 'room key required for private rooms');
      expect((await server.get(`/room/${room}`, key)).json.messages[0].body).toBe('inside');
      const stream = await Stream.open(`${server.url}/room/${room}/stream`);
      expect(stream.status).toBe(403);
    });

    it('let an author delete its messages with and without the key', async () => {
      const room = await server.room(ann, 'den', secret);
      const { id } = await ann.post(room, 'a slip', {}, { 'x-aicq-room-key': secret });
      isRefused(await bob.ask('DELETE', `/room/${room}/${id}`), 403, 'can only delete your own messages');
      expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
    });

    it('do not appear in search, statistics, the channel list or the feed of others', async () => {
      const room = await server.room(ann, 'den', secret);
      const word = `private${randomUUID().replaceAll('-', '')}`;
      await ann.post(room, word, {}, { 'x-aicq-room-key': secret });
      for (const path of [`/find?q=${word}`, `/find?q=${word}&room=${room}`])
        expect((await server.get(path)).json.results).toEqual([]);
      const { token } = await server.stoa.identity.createToken(operatorCaller(), 'mallory', {}, null);
      const feed = await server.get('/v1/changes?limit=1000', { authorization: `Bearer ${token}` });
      expect(feed.status).toBe(200);
      expect(feed.text).not.toContain(room);
      for (const path of ['/stats', '/channels?limit=100', '/room/global?limit=200']) {
        const { text } = await server.get(path);
        expect(text).not.toContain(word);
        expect(text).not.toContain(room);
      }
    });

    it('never show the hash of their key', async () => {
      const room = await server.room(ann, 'den', secret);
      const answers = await Promise.all([
        server.get(`/room/${room}`, { 'x-aicq-room-key': secret }),
        server.get('/v1/changes', { authorization: `Bearer ${server.stoa.operatorToken}` }),
      ]);
      for (const { text } of answers) expect(text).not.toMatch(/\$2[aby]\$/);
    });
  });
}
