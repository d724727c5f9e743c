/** Direct messages. */
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { unknownId, send, refusals, bodiesOf } from '../kit/requests.js';

export function directTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`direct messages on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    });
    afterAll(() => server.close());

    it('are shown only to their recipient, newest first', async () => {
      const eve = await server.agent();
      const first = await ann.send(`/dm/${eve.id}`, { body: 'b3BhcXVl' });
      expect([first.status, first.json]).toEqual([
        201,
        { id: expect.stringMatching(/^[0-9A-Z]{26}$/), ts: expect.any(Number) },
      ]);
      const second = (await bob.send(`/dm/${eve.id.toUpperCase()}`, { body: 'second' })).json;
      const inbox = (await eve.get('/dm')).json;
      expect(inbox.messages).toEqual([
        { id: second.id, from: bob.id, body: 'second', ts: second.ts },
        { id: first.json.id, from: ann.id, body: 'b3BhcXVl', ts: first.json.ts },
      ]);
      expect((await ann.get('/dm')).json.messages).toEqual([]);
      isRefused(await server.get('/dm'), 401, 'missing auth headers');
    });

    it("are refused with AICQ's errors", async () => {
      isRefused(await send(ann, 'eve', { body: 'x' }), 400, 'invalid recipient ID format');
      isRefused(await send(ann, unknownId, { body: 'x' }), 404, 'recipient not found');
      isRefused(await send(ann, bob.id, { body: '' }), 400, 'body is required');
      isRefused(await send(ann, bob.id, { body: 'x'.repeat(8193) }), 422, 'body too long (max 8192 bytes)');
      expect((await send(ann, bob.id, { body: 'x'.repeat(8192) })).status).toBe(201);
    });

    it('and posts are stored once under an Idempotency-Key, however often it is sent', async () => {
      const eve = await server.agent();
      const bearer = (key: string, body: object) => ({
        headers: { authorization: `Bearer ${server.stoa.operatorToken}`, 'idempotency-key': key },
        body,
      });
      const repeated = async (ask: () => Promise<{ status: number; text: string }>) => {
        const answers = await Promise.all(Array.from({ length: 5 }, ask));
        expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
        expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      };
      await repeated(() => server.ask('POST', `/dm/${eve.id}`, bearer('direct', { body: 'once' })));
      expect((await eve.get('/dm')).json.messages).toHaveLength(1);
      await repeated(() => server.ask('POST', '/room', bearer('room', { name: 'made-once' })));
      const { id: room } = (await ann.send('/room', { name: 'for-everyone' })).json;
      await repeated(() => server.ask('POST', `/room/${room}`, bearer('post', { body: 'once' })));
      // A new signature under the same key is a repeat too.
      const headers = { 'idempotency-key': 'signed' };
      await repeated(() => eve.send(`/room/${room}`, { body: 'signed once' }, headers));
      expect(bodiesOf(await server.get(`/room/${room}`))).toEqual(['signed once', 'once']);
      isRefused(
        await server.ask('POST', `/room/${room}`, bearer('post', { body: 'other' })),
        422,
        'The Idempotency-Key was used before with a different request.',
      );
    });

    it('are delivered again until they are acknowledged', async () => {
      const eve = await server.agent();
      const ids: string[] = [];
      for (let index = 0; index < 3; index += 1)
        ids.push((await ann.send(`/dm/${eve.id}`, { body: `m${index}` })).json.id);
      const pending = async () => (await eve.get('/dm?pending=1')).json.messages.map(({ id }) => id);
      expect(await pending()).toEqual(ids);
      expect(await pending()).toEqual(ids);
      expect((await eve.send('/dm/ack', { ids: [ids[0], ids[2], 'nonsense'] })).json).toEqual({
        acknowledged: 2,
      });
      expect((await eve.send('/dm/ack', { ids: [ids[0]] })).json).toEqual({
        acknowledged: 0,
      });
      expect((await bob.send('/dm/ack', { ids: [ids[1]] })).json).toEqual({
        acknowledged: 0,
      });
      expect(await pending()).toEqual([ids[1]]);
      expect((await eve.get('/dm')).json.messages.map(({ acknowledged }) => acknowledged ?? false)).toEqual([
        true,
        false,
        true,
      ]);
    });

    it('are shown as they are now, however often the inbox was read before', async () => {
      const eve = await server.agent();
      const inbox = async () =>
        (await eve.get('/dm')).json.messages.map(
          ({ body, acknowledged = false }: { body: string; acknowledged?: boolean }) => [body, acknowledged],
        );
      expect([await inbox(), await inbox()]).toEqual([[], []]);
      const { id } = (await ann.send(`/dm/${eve.id}`, { body: 'first' })).json;
      expect([await inbox(), await inbox()]).toEqual([[['first', false]], [['first', false]]]);
      await eve.send('/dm/ack', { ids: [id] });
      expect(await inbox()).toEqual([['first', true]]);
      await bob.send(`/dm/${eve.id}`, { body: 'second' });
      expect(await inbox()).toEqual([
        ['second', false],
        ['first', true],
      ]);
    });

    it('are listed page by page without a gap', async () => {
      const eve = await server.agent();
      for (let index = 0; index < 7; index += 1) await ann.send(`/dm/${eve.id}`, { body: `m${index}` });
      const bodies: string[] = [];
      for (let query = ''; ;) {
        const page = (await eve.get(`/dm?limit=3${query}`)).json;
        bodies.push(...page.messages.map(({ body }) => body));
        if (!page.has_more) break;
        query = `&cursor=${page.next_cursor}`;
      }
      expect(bodies).toEqual(['m6', 'm5', 'm4', 'm3', 'm2', 'm1', 'm0']);
    });
  });
}
