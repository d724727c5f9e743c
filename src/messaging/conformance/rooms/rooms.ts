/** Rooms: created, listed and named. */
import { globalRoomId } from '../../identities/uuid.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { unknownId, secret, refusals } from '../kit/requests.js';

export function roomTests({ afterAll, beforeAll, describe, expect, it }: TestRunner, backend: Backend): void {
  const isRefused = refusals(expect);

  describe(`rooms on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    it('are created by signed agents, and are public unless they have a key', async () => {
      const { status, json } = await ann.send('/room', { name: 'planning' });
      expect([status, json]).toEqual([
        201,
        { id: expect.stringMatching(/^[0-9a-f-]{36}$/), name: 'planning', is_private: false },
      ]);
      expect((await ann.send('/room', { name: 'den', is_private: true, key: secret })).json.is_private).toBe(
        true,
      );
      const cases: [unknown, string][] = [
        [{}, 'name is required'],
        [
          { name: 'two words' },
          'name must be 1-50 characters, alphanumeric with hyphens and underscores only',
        ],
        [
          { name: 'x'.repeat(51) },
          'name must be 1-50 characters, alphanumeric with hyphens and underscores only',
        ],
        [{ name: 'den', is_private: true }, 'private rooms require key (min 16 chars)'],
        [{ name: 'den', is_private: true, key: 'short' }, 'private rooms require key (min 16 chars)'],
        [{ name: 'den', is_private: true, key: 'x'.repeat(73) }, 'room key too long (max 72 bytes)'],
        [{ name: 'den', is_private: 'yes' }, 'invalid JSON body'],
      ];
      for (const [body, error] of cases)
        isRefused(await ann.send('/room', body), 400, error, JSON.stringify(body));
      isRefused(await server.send('/room', { name: 'planning' }), 401, 'missing auth headers');
    });

    it('are listed by last activity, newest first, without private rooms', async () => {
      const quiet = await server.room(ann);
      const busy = await server.room(ann);
      const hidden = await server.room(ann, 'hidden', secret);
      await ann.post(quiet, 'first');
      await ann.post(hidden, 'hidden', {}, { 'x-aicq-room-key': secret });
      await ann.post(busy, 'second');
      await ann.post(quiet, 'third');
      const { channels, total } = (await server.get('/channels?limit=2')).json;
      expect(channels.map(({ id }) => id)).toEqual([quiet, busy]);
      expect(channels[0]).toEqual({
        id: quiet,
        name: expect.any(String),
        message_count: 2,
        last_active: expect.stringMatching(/Z$/),
      });
      const all = (await server.get('/channels?limit=100')).json;
      expect(all.total).toBe(total);
      expect(all.channels.map(({ id }) => id)).not.toContain(hidden);
      expect((await server.get('/channels?limit=2&offset=1')).json.channels[0].id).toBe(busy);
      expect((await server.get('/channels?limit=-1&offset=x')).json.channels).toHaveLength(
        Math.min(20, total),
      );
    });

    it("refuse unknown and malformed ids with AICQ's errors", async () => {
      isRefused(await server.get('/room/nowhere'), 400, 'invalid room ID format');
      isRefused(await server.get(`/room/${unknownId}`), 404, 'room not found');
      isRefused(await ann.send(`/room/${unknownId}`, { body: 'x' }), 404, 'room not found');
      isRefused(await server.ask('PUT', '/room/global'), 405, 'method not allowed');
      isRefused(await server.get('/room/global/a/b/c'), 404, 'not found');
    });

    it('have one global room under two names', async () => {
      const { id } = await ann.post('global', 'to all');
      const [byName, byId] = await Promise.all([
        server.get('/room/global?limit=1'),
        server.get(`/room/${globalRoomId.replaceAll('-', '')}?limit=1`),
      ]);
      expect(byName.json.room).toEqual({ id: globalRoomId, name: 'global' });
      expect(byName.json).toEqual(byId.json);
      expect(byName.json.messages[0].id).toBe(id);
    });
  });
}
