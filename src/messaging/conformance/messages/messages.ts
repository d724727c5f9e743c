/** Messages: posted, read in pages, answered, deleted. */
import { verifySignature } from '../../../identity/signatures.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Answer, type Backend, type MessagingServer } from '../kit/server.js';
import { secret, registered, refusals } from '../kit/requests.js';

export function messageTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`messages on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      server = await backend.open();
      [ann, bob] = [await server.agent('Ann'), await server.agent('Bob')];
    });
    afterAll(() => server.close());

    it('are listed newest first, page by page, without gaps and repeats', async () => {
      const room = await server.room(ann);
      const posted = await Promise.all(
        Array.from({ length: 25 }, (_, index) => ann.post(room, `message ${index}`)),
      );
      const expected = posted.toSorted((a, b) => b.ts - a.ts).map(({ id }) => id);
      const pages = async (next: (page: Answer['json']) => string) => {
        const ids: string[] = [];
        let query = '';
        for (;;) {
          const page = (await server.get(`/room/${room}?limit=10${query}`)).json;
          ids.push(...page.messages.map(({ id }) => id));
          if (!page.has_more) return ids;
          query = next(page);
        }
      };
      expect(await pages((page) => `&before=${page.messages.at(-1)?.ts}`)).toEqual(expected);
      expect(await pages((page) => `&cursor=${page.next_cursor}`)).toEqual(expected);
      const forward: string[] = [];
      let after = 1;
      for (let page; page === undefined || page.has_more; after = page.messages[0].ts) {
        page = (await server.get(`/room/${room}?limit=10&after=${after}`)).json;
        forward.push(...page.messages.map(({ id }) => id).toReversed());
      }
      expect(forward.toReversed()).toEqual(expected);
      expect((await server.get(`/room/${room}?limit=nonsense&before=0`)).json.messages).toHaveLength(25);
      isRefused(await server.get(`/room/${room}?cursor=x`), 400, 'invalid cursor');
    });

    it('have strictly increasing times, also for concurrent posts, and ids that contain the time', async () => {
      const room = await server.room(ann);
      const posters = await Promise.all(Array.from({ length: 200 }, () => registered(server)));
      const posted = await Promise.all(posters.map((poster, index) => poster.post(room, `from ${index}`)));
      expect(new Set(posted.map(({ ts }) => ts)).size).toBe(200);
      const page = (await server.get(`/room/${room}?limit=200`)).json;
      const byTime = posted.toSorted((a, b) => b.ts - a.ts).map(({ id, ts }) => ({ id, ts }));
      expect(page.messages.map(({ id, ts }) => ({ id, ts }))).toEqual(byTime);
      expect(posted.toSorted((a, b) => (a.id < b.id ? 1 : -1)).map(({ id }) => id)).toEqual(
        byTime.map(({ id }) => id),
      );
      expect(new Set(page.messages.map(({ body }) => body)).size).toBe(200);
    });

    it('are stored exactly, in every script', async () => {
      const texts = [
        'plain',
        'ünïcödé 日本語 🎉',
        '<script>alert(1)</script>',
        '\u0000\u0001\n\t',
        '"\\/',
        '\ud83d'.padEnd(4, 'x'),
        'é'.repeat(2048),
      ];
      const room = await server.room(ann);
      for (const text of texts) await ann.post(room, text);
      const page = (await server.get(`/room/${room}`)).json;
      expect(page.messages.map(({ body }) => body).toReversed()).toEqual(
        texts.map((text) => Buffer.from(text).toString()),
      );
    });

    it('must have 1 to 4096 bytes and a parent in the same room', async () => {
      const [room, other] = [await server.room(ann), await server.room(ann)];
      const elsewhere = await ann.post(other, 'elsewhere');
      const tryPost = (body: unknown) => ann.send(`/room/${room}`, body);
      isRefused(await tryPost({}), 400, 'body is required');
      isRefused(await tryPost({ body: '' }), 400, 'body is required');
      isRefused(await tryPost({ body: 'x'.repeat(4097) }), 422, 'body too long (max 4096 bytes)');
      isRefused(await tryPost({ body: 'é'.repeat(2049) }), 422, 'body too long (max 4096 bytes)');
      isRefused(
        await tryPost({ body: 'x', pid: elsewhere.id }),
        422,
        'parent message not found in this room',
      );
      isRefused(await tryPost({ body: 'x', pid: 'nonsense' }), 422, 'parent message not found in this room');
      expect(
        (await ann.ask('POST', `/room/${room}`, { raw: `{"body":"${'\\u0041'.repeat(4096)}"}` })).status,
      ).toBe(201);
      const parent = await ann.post(room, 'question');
      const child = await ann.post(room, 'answer', { pid: parent.id });
      const page = (await server.get(`/room/${room}?limit=2`)).json;
      expect(page.messages).toEqual([
        { id: child.id, from: ann.id, body: 'answer', pid: parent.id, ts: child.ts },
        { id: parent.id, from: ann.id, body: 'question', ts: parent.ts },
      ]);
    });

    it('form threads that can be read from any of their messages', async () => {
      const room = await server.room(ann);
      const root = await ann.post(room, 'root');
      await ann.post(room, 'beside');
      const child = await bob.post(room, 'child', { pid: root.id });
      const grandchild = await ann.post(room, 'grandchild', { pid: child.id });
      for (const from of [root.id, child.id, grandchild.id]) {
        const thread = (await server.get(`/room/${room}/${from}/thread`)).json;
        expect([thread.root, thread.messages.map(({ body }) => body)]).toEqual([
          root.id,
          ['root', 'child', 'grandchild'],
        ]);
      }
      const first = (await server.get(`/room/${room}/${root.id}/thread?limit=2`)).json;
      const second = (await server.get(`/room/${room}/${root.id}/thread?limit=2&cursor=${first.next_cursor}`))
        .json;
      expect([first.has_more, second.messages.map(({ body }) => body)]).toEqual([true, ['grandchild']]);
      expect((await server.get(`/room/${room}/${child.id}`)).json).toEqual({
        id: child.id,
        from: bob.id,
        body: 'child',
        pid: root.id,
        ts: child.ts,
      });
    });

    it('can be deleted only by their author, and then appear nowhere', async () => {
      const room = await server.room(ann);
      const { id } = await ann.post(room, 'regrettable words');
      isRefused(await bob.ask('DELETE', `/room/${room}/${id}`), 403, 'can only delete your own messages');
      isRefused(await server.ask('DELETE', `/room/${room}/${id}`), 401, 'missing auth headers');
      const deleted = await ann.ask('DELETE', `/room/${room}/${id}`, {
        headers: { 'content-type': 'application/json' },
      });
      expect([deleted.status, deleted.text]).toEqual([204, '']);
      isRefused(await ann.ask('DELETE', `/room/${room}/${id}`), 404, 'message not found');
      expect((await server.get(`/room/${room}`)).json.messages).toEqual([]);
      expect((await server.get('/find?q=regrettable')).json.results).toEqual([]);
      const { channels } = (await server.get('/channels?limit=100')).json;
      expect(channels.find((channel) => channel.id === room)?.message_count).toBe(1);
    });

    it('contain the signature of their author, of either scheme', async () => {
      const room = await server.room(ann);
      const raw = '{ "pid": "",\n "body": "caf\\u00e9" }';
      await server.ask('POST', `/room/${room}`, { raw, headers: ann.headers(raw) });
      const body = '{"body":"by RFC 9421"}';
      await server.ask('POST', `/room/${room}`, {
        raw: body,
        headers: ann.messageSignature('POST', `/room/${room}`, body),
      });
      const page = (await server.get(`/room/${room}?verify=1`)).json;
      expect(page.messages).toHaveLength(2);
      for (const message of page.messages) {
        expect(message.proof.public_key).toBe(ann.publicKey);
        expect(
          verifySignature(
            Buffer.from(ann.publicKey, 'base64'),
            message.proof.signed_text,
            Buffer.from(message.sig, 'base64'),
          ),
        ).toBe(true);
        expect(JSON.parse(message.proof.request).body).toBe(message.body);
      }
      expect(page.messages.map(({ proof }) => proof.request)).toEqual([body, raw]);
      expect((await server.get(`/room/${room}`)).json.messages[0]).not.toHaveProperty('sig');
    });

    it('never show a room key that a signature covered', async () => {
      const room = await server.room(ann, 'den', secret);
      const body = '{"body":"covered"}';
      const headers = ann.messageSignature('POST', `/room/${room}`, body, {
        components: ['@method', '@target-uri', 'content-digest', 'x-aicq-room-key'],
        extra: { 'x-aicq-room-key': secret },
      });
      expect((await server.ask('POST', `/room/${room}`, { raw: body, headers })).status).toBe(201);
      const page = await server.get(`/room/${room}?verify=1`, { 'x-aicq-room-key': secret });
      expect(page.json.messages[0].body).toBe('covered');
      expect(page.text).not.toContain(secret);
    });
  });
}
