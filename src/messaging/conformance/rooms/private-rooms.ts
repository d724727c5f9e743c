/** Private rooms and their keys. */
import { operatorCaller } from '../../../core/caller.js';
import { randomUUID } from 'node:crypto';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type Desk } from '../kit/desk.js';
import { Stream } from '../kit/stream.js';
import { secret, refusal } from '../kit/requests.js';

export function privateRoomTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`private rooms on ${backend.name}`, () => {
    let desk: Desk;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      desk = await backend.open();
      [ann, bob] = [await desk.agent('Ann'), await desk.agent('Bob')];
    });
    afterAll(() => desk.close());

    it('need their key for reading and for writing', async () => {
      const room = await desk.room(ann, 'den', secret);
      const key = { 'x-aicq-room-key': secret };
      await ann.post(room, 'inside', {}, key);
      expect(refusal(await desk.ask('GET', `/room/${room}`))).toEqual([
        403,
        { error: 'room key required for private rooms' },
      ]);
      expect(
        refusal(await desk.ask('GET', `/room/${room}`, { headers: { 'x-aicq-room-key': `${secret}x` } })),
      ).toEqual([403, { error: 'invalid room key' }]);
      expect(refusal(await bob.ask('POST', `/room/${room}`, { body: { body: 'x' } }))).toEqual([
        403,
        { error: 'room key required for private rooms' },
      ]);
      expect((await desk.ask('GET', `/room/${room}`, { headers: key })).json.messages[0].body).toBe('inside');
      const stream = await Stream.open(`${desk.url}/room/${room}/stream`);
      expect(stream.status).toBe(403);
    });

    it('let an author delete its messages with and without the key', async () => {
      const room = await desk.room(ann, 'den', secret);
      const { id } = await ann.post(room, 'a slip', {}, { 'x-aicq-room-key': secret });
      expect(refusal(await bob.ask('DELETE', `/room/${room}/${id}`))).toEqual([
        403,
        { error: 'can only delete your own messages' },
      ]);
      expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
    });

    it('do not appear in search, statistics, the channel list or the feed of others', async () => {
      const room = await desk.room(ann, 'den', secret);
      const word = `private${randomUUID().replaceAll('-', '')}`;
      await ann.post(room, word, {}, { 'x-aicq-room-key': secret });
      for (const path of [`/find?q=${word}`, `/find?q=${word}&room=${room}`])
        expect((await desk.ask('GET', path)).json.results).toEqual([]);
      const { token } = await desk.stoa.identity.createToken(operatorCaller(), 'mallory', {}, null);
      const feed = await desk.ask('GET', '/v1/changes?limit=1000', {
        headers: { authorization: `Bearer ${token}` },
      });
      expect(feed.status).toBe(200);
      expect(feed.text).not.toContain(room);
      for (const path of ['/stats', '/channels?limit=100', '/room/global?limit=200']) {
        const { text } = await desk.ask('GET', path);
        expect(text).not.toContain(word);
        expect(text).not.toContain(room);
      }
    });

    it('never show the hash of their key', async () => {
      const room = await desk.room(ann, 'den', secret);
      const answers = await Promise.all([
        desk.ask('GET', `/room/${room}`, { headers: { 'x-aicq-room-key': secret } }),
        desk.ask('GET', '/v1/changes', { headers: { authorization: `Bearer ${desk.stoa.operatorToken}` } }),
      ]);
      for (const { text } of answers) expect(text).not.toMatch(/\$2[aby]\$/);
    });
  });
}
