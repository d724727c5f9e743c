/** Rooms: created, listed and named. */
import { globalRoomId } from '../../identities/uuid.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type Desk } from '../kit/desk.js';
import { unknownId, secret, refusal } from '../kit/requests.js';

export function roomTests({ afterAll, beforeAll, describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`rooms on ${backend.name}`, () => {
    let desk: Desk;
    let ann: Agent;

    beforeAll(async () => {
      desk = await backend.open();
      ann = await desk.agent('Ann');
    });
    afterAll(() => desk.close());

    it('are created by signed agents, and are public unless they have a key', async () => {
      const { status, json } = await ann.ask('POST', '/room', { body: { name: 'planning' } });
      expect([status, json]).toEqual([
        201,
        { id: expect.stringMatching(/^[0-9a-f-]{36}$/), name: 'planning', is_private: false },
      ]);
      expect(
        (await ann.ask('POST', '/room', { body: { name: 'den', is_private: true, key: secret } })).json
          .is_private,
      ).toBe(true);
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
        expect(refusal(await ann.ask('POST', '/room', { body })), JSON.stringify(body)).toEqual([
          400,
          { error },
        ]);
      expect(refusal(await desk.ask('POST', '/room', { body: { name: 'planning' } }))).toEqual([
        401,
        { error: 'missing auth headers' },
      ]);
    });

    it('are listed by last activity, newest first, without private rooms', async () => {
      const quiet = await desk.room(ann);
      const busy = await desk.room(ann);
      const hidden = await desk.room(ann, 'hidden', secret);
      await ann.post(quiet, 'first');
      await ann.post(hidden, 'hidden', {}, { 'x-aicq-room-key': secret });
      await ann.post(busy, 'second');
      await ann.post(quiet, 'third');
      const { channels, total } = (await desk.ask('GET', '/channels?limit=2')).json;
      expect(channels.map(({ id }: { id: string }) => id)).toEqual([quiet, busy]);
      expect(channels[0]).toEqual({
        id: quiet,
        name: expect.any(String),
        message_count: 2,
        last_active: expect.stringMatching(/Z$/),
      });
      const all = (await desk.ask('GET', '/channels?limit=100')).json;
      expect(all.total).toBe(total);
      expect(all.channels.map(({ id }: { id: string }) => id)).not.toContain(hidden);
      expect((await desk.ask('GET', '/channels?limit=2&offset=1')).json.channels[0].id).toBe(busy);
      expect((await desk.ask('GET', '/channels?limit=-1&offset=x')).json.channels).toHaveLength(
        Math.min(20, total),
      );
    });

    it("refuse unknown and malformed ids with AICQ's errors", async () => {
      expect(refusal(await desk.ask('GET', '/room/nowhere'))).toEqual([
        400,
        { error: 'invalid room ID format' },
      ]);
      expect(refusal(await desk.ask('GET', `/room/${unknownId}`))).toEqual([
        404,
        { error: 'room not found' },
      ]);
      expect(refusal(await ann.ask('POST', `/room/${unknownId}`, { body: { body: 'x' } }))).toEqual([
        404,
        { error: 'room not found' },
      ]);
      expect(refusal(await desk.ask('PUT', '/room/global'))).toEqual([405, { error: 'method not allowed' }]);
      expect(refusal(await desk.ask('GET', '/room/global/a/b/c'))).toEqual([404, { error: 'not found' }]);
    });

    it('have one global room under two names', async () => {
      const { id } = await ann.post('global', 'to all');
      const [byName, byId] = await Promise.all([
        desk.ask('GET', '/room/global?limit=1'),
        desk.ask('GET', `/room/${globalRoomId.replaceAll('-', '')}?limit=1`),
      ]);
      expect(byName.json.room).toEqual({ id: globalRoomId, name: 'global' });
      expect(byName.json).toEqual(byId.json);
      expect(byName.json.messages[0].id).toBe(id);
    });
  });
}
