/** What messaging promises on every backend, through HTTP. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifySignature } from '../../src/identity/signatures.js';
import { operatorCaller } from '../../src/core/caller.js';
import type { StoaOptions } from '../../src/index.js';
import { globalRoomId } from '../../src/messaging/uuid.js';
import { headerConformance } from './conformance-headers.js';
import { liveConformance } from './conformance-live.js';
import { privacyConformance } from './conformance-privacy.js';
import { messageSignatureConformance } from './conformance-signatures.js';
import { wireConformance } from './conformance-wire.js';
import { Agent, type Answer, Desk, Stream, roomy } from './kit.js';
import { writtenPort } from './written-port.js';

export interface Backend {
  name: string;
  /** Opens a server on a separate store, or on the one that `options` name. */
  open(options?: Partial<StoaOptions>): Promise<Desk>;
}

const unknownId = '11111111-2222-4333-8444-555555555555';
const secret = 'a key of sixteen or more';

function refusal(answer: Answer): [number, unknown] {
  return [answer.status, answer.json];
}

function postOnce(agent: Agent): Promise<Answer> {
  return agent.ask('POST', '/room/global', { body: { body: 'x' } });
}

async function send(from: Agent, to: string, body: unknown): Promise<[number, unknown]> {
  return refusal(await from.ask('POST', `/dm/${to}`, { body }));
}

function forwardedFrom(address: string): Record<string, string> {
  return { 'x-forwarded-for': address };
}

/** A new agent, without a request for it. */
async function registered(desk: Desk): Promise<Agent> {
  const agent = new Agent(desk);
  const { identity } = await writtenPort(desk.stoa.messaging).register({
    publicKey: agent.publicKey,
    name: null,
    email: null,
    proven: false,
  });
  return Object.assign(agent, { id: identity.id });
}

export function messagingConformance(backend: Backend): void {
  headerConformance(backend);
  liveConformance(backend);
  messageSignatureConformance(backend);
  privacyConformance(backend);
  wireConformance(backend);
  describe(`messaging on ${backend.name}`, () => {
    let desk: Desk;
    let ann: Agent;
    let bob: Agent;

    beforeAll(async () => {
      desk = await backend.open();
      ann = await desk.agent('Ann');
      bob = await desk.agent('Bob');
    });
    afterAll(() => desk.close());

    describe('registration', () => {
      it('creates one identity per key, and returns it unchanged for a repeat', async () => {
        const eve = new Agent(desk);
        const first = await desk.ask('POST', '/register', {
          body: { public_key: eve.publicKey, name: ' Eve\u0007 ', email: 'eve@example.org' },
        });
        expect(first.status).toBe(201);
        expect(first.json).toEqual({
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          profile_url: `/who/${first.json.id}`,
        });
        const again = await desk.ask('POST', '/register', {
          body: { public_key: eve.publicKey, name: 'Mallory' },
        });
        expect(refusal(again)).toEqual([200, first.json]);
        const who = await desk.ask('GET', `/who/${first.json.id}`);
        expect(who.json).toEqual({
          id: first.json.id,
          name: 'Eve',
          email: 'eve@example.org',
          public_key: eve.publicKey,
          joined_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        });
      });

      it('creates one identity for twenty concurrent registrations', async () => {
        const eve = new Agent(desk);
        const answers = await Promise.all(
          Array.from({ length: 20 }, () =>
            desk.ask('POST', '/register', { body: { public_key: eve.publicKey } }),
          ),
        );
        expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
        expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(19);
      });

      it("refuses bad input with AICQ's sentences", async () => {
        const bad = 'invalid public_key: must be base64-encoded Ed25519 public key (32 bytes)';
        const cases: [unknown, string][] = [
          [{}, 'public_key is required'],
          [{ public_key: '' }, 'public_key is required'],
          [{ public_key: 'AAAA' }, bad],
          [{ public_key: Buffer.alloc(32).toString('base64') }, bad],
          [{ public_key: ann.publicKey.replace('=', '') }, bad],
          [{ public_key: new Agent(desk).publicKey, email: 'nobody' }, 'invalid email format'],
          [{ public_key: 7 }, 'invalid JSON body'],
          [[], 'invalid JSON body'],
          ['text', 'invalid JSON body'],
        ];
        for (const [body, error] of cases)
          expect(refusal(await desk.ask('POST', '/register', { body })), JSON.stringify(body)).toEqual([
            400,
            { error },
          ]);
        expect(refusal(await desk.ask('POST', '/register', { raw: '{"public_key":' }))).toEqual([
          400,
          { error: 'invalid JSON body' },
        ]);
        expect(
          refusal(
            await desk.ask('POST', '/register', { raw: '{}', headers: { 'content-type': 'text/plain' } }),
          ),
        ).toEqual([415, { error: 'content-type must be application/json' }]);
        expect(
          refusal(await desk.ask('POST', '/register', { raw: `{"x":"${'x'.repeat(70_000)}"}` })),
        ).toEqual([413, { error: 'request body too large' }]);
        expect(refusal(await desk.ask('GET', '/who/nobody'))).toEqual([
          400,
          { error: 'invalid agent ID format' },
        ]);
        expect(refusal(await desk.ask('GET', `/who/${unknownId}`))).toEqual([
          404,
          { error: 'agent not found' },
        ]);
      });

      it('reads field names in any case and ignores unknown ones', async () => {
        const eve = new Agent(desk);
        const { status, json } = await desk.ask('POST', '/register', {
          body: { PUBLIC_KEY: eve.publicKey, Name: 'Eve', more: [1] },
        });
        expect(status).toBe(201);
        expect((await desk.ask('GET', `/who/${json.id}`)).json.name).toBe('Eve');
      });

      it('marks a registration signed with its key as proven, and refuses one signed with another key', async () => {
        const eve = new Agent(desk);
        const body = JSON.stringify({ public_key: eve.publicKey });
        const { 'x-aicq-agent': _, ...headers } = eve.headers(body);
        const { json } = await desk.ask('POST', '/register', { raw: body, headers });
        expect((await desk.ask('GET', `/who/${json.id}`)).json.proven).toBe(true);
        const { 'x-aicq-agent': __, ...forged } = bob.headers(body);
        expect(refusal(await desk.ask('POST', '/register', { raw: body, headers: forged }))).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
      });
    });

    describe('signatures', () => {
      const body = JSON.stringify({ body: 'signed' });
      const post = (headers: Record<string, string>, raw = body) =>
        desk.ask('POST', '/room/global', { raw, headers });
      const error = async (headers: Record<string, string>, raw?: string) =>
        refusal(await post(headers, raw));

      it("are refused in AICQ's order and with its sentences", async () => {
        const good = () => ann.headers(body);
        expect(await error({})).toEqual([401, { error: 'missing auth headers' }]);
        for (const name of ['x-aicq-agent', 'x-aicq-nonce', 'x-aicq-timestamp', 'x-aicq-signature']) {
          const { [name]: _, ...rest } = good();
          expect(await error(rest), name).toEqual([401, { error: 'missing auth headers' }]);
        }
        expect(await error({ ...good(), 'x-aicq-timestamp': 'soon' })).toEqual([
          401,
          { error: 'invalid timestamp format' },
        ]);
        expect(await error(ann.headers(body, { timestamp: Date.now() - 31_000 }))).toEqual([
          401,
          { error: 'timestamp expired or too far in future' },
        ]);
        expect(await error(ann.headers(body, { timestamp: Date.now() + 10_000 }))).toEqual([
          401,
          { error: 'timestamp expired or too far in future' },
        ]);
        expect(await error(ann.headers(body, { nonce: 'x'.repeat(23) }))).toEqual([
          401,
          { error: 'nonce must be at least 24 characters' },
        ]);
        expect(await error(ann.headers(body, { nonce: 'x'.repeat(129) }))).toEqual([
          401,
          { error: 'nonce must be at most 128 characters' },
        ]);
        expect(await error(ann.headers(body, { agent: 'ann' }))).toEqual([
          401,
          { error: 'invalid agent ID format' },
        ]);
        expect(await error(ann.headers(body, { agent: unknownId }))).toEqual([
          401,
          { error: 'agent not found' },
        ]);
        expect(await error(bob.headers(body, { agent: ann.id }))).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
        expect(await error(good(), JSON.stringify({ body: 'Signed' }))).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
        expect(await error({ ...good(), 'x-aicq-signature': 'AAAA' })).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
      });

      it('may come from a clock that is slightly fast or slow', async () => {
        expect((await post(ann.headers(body, { timestamp: Date.now() + 3_000 }))).status).toBe(201);
        expect((await post(ann.headers(body, { timestamp: Date.now() - 25_000 }))).status).toBe(201);
      });

      it('are accepted once: of fifty concurrent copies exactly one', async () => {
        const headers = ann.headers(body);
        const answers = await Promise.all(Array.from({ length: 50 }, () => post(headers)));
        expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
        for (const refused of answers.filter(({ status }) => status !== 201))
          expect(refusal(refused)).toEqual([401, { error: 'nonce already used' }]);
      });

      it('are accepted once under all spellings of the agent id', async () => {
        const headers = ann.headers(body);
        expect((await post(headers)).status).toBe(201);
        for (const spelling of [
          ann.id.toUpperCase(),
          ann.id.replaceAll('-', ''),
          `urn:uuid:${ann.id}`,
          `{${ann.id}}`,
        ]) {
          expect(refusal(await post({ ...headers, 'x-aicq-agent': spelling })), spelling).toEqual([
            401,
            { error: 'nonce already used' },
          ]);
          expect((await post(ann.headers(body, { agent: spelling }))).status, spelling).toBe(201);
        }
      });

      it('that are invalid use up no nonce', async () => {
        const nonce = randomUUID();
        expect(
          (await post({ ...ann.headers(body, { nonce }), 'x-aicq-signature': bob.sign('x') })).status,
        ).toBe(401);
        expect((await post(ann.headers(body, { nonce }))).status).toBe(201);
      });

      it('cover a request without a body as if it were {}', async () => {
        expect((await ann.ask('GET', '/dm')).status).toBe(200);
        expect(
          (
            await desk.ask('GET', '/dm', {
              headers: { ...ann.headers('{}'), 'content-type': 'application/json' },
            })
          ).status,
        ).toBe(200);
      });

      it('by RFC 9421 cover method, address and body', async () => {
        const signed = (method: string, path: string, options = {}) =>
          ann.messageSignature(method, path, body, options);
        expect((await post(signed('POST', '/room/global'))).status).toBe(201);
        expect(refusal(await post(signed('POST', `/room/${globalRoomId}`)))).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
        expect(refusal(await post(signed('PUT', '/room/global')))).toEqual([
          401,
          { error: 'invalid signature' },
        ]);
        expect(refusal(await post(signed('POST', '/room/global'), '{"body":"other"}'))).toEqual([
          401,
          { error: 'content-digest does not match the body' },
        ]);
        expect(
          refusal(await post(signed('POST', '/room/global', { components: ['@method', '@target-uri'] }))),
        ).toEqual([
          401,
          { error: 'signature must cover @method, @target-uri and the content-digest of a body' },
        ]);
        expect(
          refusal(await post({ ...signed('POST', '/room/global'), 'signature-input': 'nonsense' })),
        ).toEqual([401, { error: 'invalid signature-input header' }]);
        expect(
          refusal(
            await post(signed('POST', '/room/global', { created: Math.floor(Date.now() / 1000) - 40 })),
          ),
        ).toEqual([401, { error: 'timestamp expired or too far in future' }]);
        const once = signed('POST', '/room/global');
        const answers = await Promise.all([post(once), post(once), post(once)]);
        expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 401, 401]);
        expect(
          (
            await desk.ask('GET', '/dm', {
              headers: ann.messageSignature('GET', '/dm', '', { components: ['@method', '@target-uri'] }),
            })
          ).status,
        ).toBe(200);
      });
    });

    describe('profiles and keys', () => {
      it('can be changed only by their owner', async () => {
        const eve = await desk.agent('Eve');
        const changed = await eve.ask('PATCH', `/who/${eve.id}`, {
          body: { name: 'Eva', email: 'eva@example.org' },
        });
        expect(changed.status).toBe(200);
        expect((await desk.ask('GET', `/who/${eve.id}`)).json).toMatchObject({
          name: 'Eva',
          email: 'eva@example.org',
        });
        expect(refusal(await bob.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } }))).toEqual([
          403,
          { error: 'can only change your own profile' },
        ]);
        expect((await desk.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Mallory' } })).status).toBe(401);
      });

      it('have a history of bounded length', async () => {
        const bounded = await backend.open({ limits: { ...roomy, identityKeysMax: 2 } });
        try {
          let eve = await bounded.agent('Eve');
          const statuses: number[] = [];
          for (let rotation = 0; rotation < 2; rotation += 1) {
            const next = new Agent(bounded);
            next.id = eve.id;
            const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
            const body = { public_key: next.publicKey, proof };
            const { status } = await eve.ask('POST', `/who/${eve.id}/key`, { body });
            statuses.push(status);
            if (status === 200) eve = next;
          }
          expect(statuses).toEqual([200, 409]);
          expect((await bounded.ask('GET', `/who/${eve.id}/keys`)).json.keys).toHaveLength(2);
          expect((await eve.ask('GET', '/dm')).status).toBe(200);
        } finally {
          await bounded.close();
        }
      });

      it('rotate when old and new key agree, and keep their history', async () => {
        const eve = await desk.agent('Eve');
        const next = new Agent(desk);
        next.id = eve.id;
        const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
        const body = { public_key: next.publicKey, proof };
        expect(
          refusal(await eve.ask('POST', `/who/${eve.id}/key`, { body: { ...body, proof: eve.sign('x') } })),
        ).toEqual([400, { error: 'invalid proof: the new key must sign the rotation' }]);
        expect((await eve.ask('POST', `/who/${eve.id}/key`, { body })).status).toBe(200);
        expect((await desk.ask('GET', `/who/${eve.id}`)).json.public_key).toBe(next.publicKey);
        expect((await eve.ask('GET', '/dm')).json).toEqual({ error: 'invalid signature' });
        expect((await next.ask('GET', '/dm')).status).toBe(200);
        const { keys } = (await desk.ask('GET', `/who/${eve.id}/keys`)).json;
        expect(keys.map((key: { public_key: string }) => key.public_key)).toEqual([
          eve.publicKey,
          next.publicKey,
        ]);
        expect(
          verifySignature(
            Buffer.from(eve.publicKey, 'base64'),
            keys[1].proof.signed_text,
            Buffer.from(keys[1].sig, 'base64'),
          ),
        ).toBe(true);
        // A key that was in force once never becomes another identity.
        expect(refusal(await desk.ask('POST', '/register', { body: { public_key: eve.publicKey } }))).toEqual(
          [200, { id: eve.id, profile_url: `/who/${eve.id}` }],
        );
        const taken = {
          public_key: bob.publicKey,
          proof: bob.sign(`aicq-key-rotation|${eve.id}|${next.publicKey}|${bob.publicKey}`),
        };
        expect(refusal(await next.ask('POST', `/who/${eve.id}/key`, { body: taken }))).toEqual([
          409,
          { error: 'public key already registered' },
        ]);
      });
    });

    it('a stream that a key opened ends when the key is rotated', async () => {
      const eve = await desk.agent('Eve');
      const stream = await Stream.open(`${desk.url}/dm/stream`, eve.headers());
      await stream.until(1, ({ events }) => events);
      const next = new Agent(desk);
      const proof = next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`);
      expect(
        (await eve.ask('POST', `/who/${eve.id}/key`, { body: { public_key: next.publicKey, proof } })).status,
      ).toBe(200);
      while (!stream.ended) await new Promise((resolve) => setTimeout(resolve, 5));
    });

    describe('rooms', () => {
      it('are made by signed agents, public unless they have a key', async () => {
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

      it('are listed with the most recently active first, private ones never', async () => {
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

      it("answer unknown and malformed ids with AICQ's sentences", async () => {
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
        expect(refusal(await desk.ask('PUT', '/room/global'))).toEqual([
          405,
          { error: 'method not allowed' },
        ]);
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

    describe('messages', () => {
      it('are returned newest first, page by page, each once', async () => {
        const room = await desk.room(ann);
        const posted = await Promise.all(
          Array.from({ length: 25 }, (_, index) => ann.post(room, `message ${index}`)),
        );
        const expected = posted.toSorted((a, b) => b.ts - a.ts).map(({ id }) => id);
        const pages = async (next: (page: Answer['json']) => string) => {
          const ids: string[] = [];
          let query = '';
          for (;;) {
            const page = (await desk.ask('GET', `/room/${room}?limit=10${query}`)).json;
            ids.push(...page.messages.map(({ id }: { id: string }) => id));
            if (!page.has_more) return ids;
            query = next(page);
          }
        };
        expect(await pages((page) => `&before=${page.messages.at(-1)?.ts}`)).toEqual(expected);
        expect(await pages((page) => `&cursor=${page.next_cursor}`)).toEqual(expected);
        const forward: string[] = [];
        let after = 1;
        for (let page; page === undefined || page.has_more; after = page.messages[0].ts) {
          page = (await desk.ask('GET', `/room/${room}?limit=10&after=${after}`)).json;
          forward.push(...page.messages.map(({ id }: { id: string }) => id).toReversed());
        }
        expect(forward.toReversed()).toEqual(expected);
        expect((await desk.ask('GET', `/room/${room}?limit=nonsense&before=0`)).json.messages).toHaveLength(
          25,
        );
        expect(refusal(await desk.ask('GET', `/room/${room}?cursor=x`))).toEqual([
          400,
          { error: 'invalid cursor' },
        ]);
      });

      it('have strictly growing times under concurrent posts, with ids that contain the time', async () => {
        const room = await desk.room(ann);
        const posters = await Promise.all(Array.from({ length: 200 }, () => registered(desk)));
        const posted = await Promise.all(posters.map((poster, index) => poster.post(room, `from ${index}`)));
        expect(new Set(posted.map(({ ts }) => ts)).size).toBe(200);
        const page = (await desk.ask('GET', `/room/${room}?limit=200`)).json;
        const byTime = posted.toSorted((a, b) => b.ts - a.ts).map(({ id, ts }) => ({ id, ts }));
        expect(page.messages.map(({ id, ts }: { id: string; ts: number }) => ({ id, ts }))).toEqual(byTime);
        expect(posted.toSorted((a, b) => (a.id < b.id ? 1 : -1)).map(({ id }) => id)).toEqual(
          byTime.map(({ id }) => id),
        );
        expect(new Set(page.messages.map(({ body }: { body: string }) => body)).size).toBe(200);
      });

      it('are kept to the byte, in every script', async () => {
        const texts = [
          'plain',
          'ünïcödé 日本語 🎉',
          '<script>alert(1)</script>',
          '\u0000\u0001\n\t',
          '"\\/',
          '\ud83d'.padEnd(4, 'x'),
          'é'.repeat(2048),
        ];
        const room = await desk.room(ann);
        for (const text of texts) await ann.post(room, text);
        const page = (await desk.ask('GET', `/room/${room}`)).json;
        expect(page.messages.map(({ body }: { body: string }) => body).toReversed()).toEqual(
          texts.map((text) => Buffer.from(text).toString()),
        );
      });

      it('have 1 to 4096 bytes and a parent in the same room', async () => {
        const [room, other] = [await desk.room(ann), await desk.room(ann)];
        const elsewhere = await ann.post(other, 'elsewhere');
        const refused = async (body: unknown) => refusal(await ann.ask('POST', `/room/${room}`, { body }));
        expect(await refused({})).toEqual([400, { error: 'body is required' }]);
        expect(await refused({ body: '' })).toEqual([400, { error: 'body is required' }]);
        expect(await refused({ body: 'x'.repeat(4097) })).toEqual([
          422,
          { error: 'body too long (max 4096 bytes)' },
        ]);
        expect(await refused({ body: 'é'.repeat(2049) })).toEqual([
          422,
          { error: 'body too long (max 4096 bytes)' },
        ]);
        expect(await refused({ body: 'x', pid: elsewhere.id })).toEqual([
          422,
          { error: 'parent message not found in this room' },
        ]);
        expect(await refused({ body: 'x', pid: 'nonsense' })).toEqual([
          422,
          { error: 'parent message not found in this room' },
        ]);
        expect(
          (await ann.ask('POST', `/room/${room}`, { raw: `{"body":"${'\\u0041'.repeat(4096)}"}` })).status,
        ).toBe(201);
        const parent = await ann.post(room, 'question');
        const child = await ann.post(room, 'answer', { pid: parent.id });
        const page = (await desk.ask('GET', `/room/${room}?limit=2`)).json;
        expect(page.messages).toEqual([
          { id: child.id, from: ann.id, body: 'answer', pid: parent.id, ts: child.ts },
          { id: parent.id, from: ann.id, body: 'question', ts: parent.ts },
        ]);
      });

      it('form threads that can be read through any of their messages', async () => {
        const room = await desk.room(ann);
        const root = await ann.post(room, 'root');
        await ann.post(room, 'beside');
        const child = await bob.post(room, 'child', { pid: root.id });
        const grandchild = await ann.post(room, 'grandchild', { pid: child.id });
        for (const from of [root.id, child.id, grandchild.id]) {
          const thread = (await desk.ask('GET', `/room/${room}/${from}/thread`)).json;
          expect([thread.root, thread.messages.map(({ body }: { body: string }) => body)]).toEqual([
            root.id,
            ['root', 'child', 'grandchild'],
          ]);
        }
        const first = (await desk.ask('GET', `/room/${room}/${root.id}/thread?limit=2`)).json;
        const second = (
          await desk.ask('GET', `/room/${room}/${root.id}/thread?limit=2&cursor=${first.next_cursor}`)
        ).json;
        expect([first.has_more, second.messages.map(({ body }: { body: string }) => body)]).toEqual([
          true,
          ['grandchild'],
        ]);
        expect((await desk.ask('GET', `/room/${room}/${child.id}`)).json).toEqual({
          id: child.id,
          from: bob.id,
          body: 'child',
          pid: root.id,
          ts: child.ts,
        });
      });

      it('can be deleted only by their author, and disappear everywhere', async () => {
        const room = await desk.room(ann);
        const { id } = await ann.post(room, 'regrettable words');
        expect(refusal(await bob.ask('DELETE', `/room/${room}/${id}`))).toEqual([
          403,
          { error: 'can only delete your own messages' },
        ]);
        expect(refusal(await desk.ask('DELETE', `/room/${room}/${id}`))).toEqual([
          401,
          { error: 'missing auth headers' },
        ]);
        const deleted = await ann.ask('DELETE', `/room/${room}/${id}`, {
          headers: { 'content-type': 'application/json' },
        });
        expect([deleted.status, deleted.text]).toEqual([204, '']);
        expect(refusal(await ann.ask('DELETE', `/room/${room}/${id}`))).toEqual([
          404,
          { error: 'message not found' },
        ]);
        expect((await desk.ask('GET', `/room/${room}`)).json.messages).toEqual([]);
        expect((await desk.ask('GET', '/find?q=regrettable')).json.results).toEqual([]);
        const { channels } = (await desk.ask('GET', '/channels?limit=100')).json;
        expect(channels.find((channel: { id: string }) => channel.id === room)?.message_count).toBe(1);
      });

      it('carry the proof of who wrote them, in either scheme', async () => {
        const room = await desk.room(ann);
        const raw = '{ "pid": "",\n "body": "caf\\u00e9" }';
        await desk.ask('POST', `/room/${room}`, { raw, headers: ann.headers(raw) });
        const body = '{"body":"by RFC 9421"}';
        await desk.ask('POST', `/room/${room}`, {
          raw: body,
          headers: ann.messageSignature('POST', `/room/${room}`, body),
        });
        const page = (await desk.ask('GET', `/room/${room}?verify=1`)).json;
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
        expect(page.messages.map(({ proof }: { proof: { request: string } }) => proof.request)).toEqual([
          body,
          raw,
        ]);
        expect((await desk.ask('GET', `/room/${room}`)).json.messages[0]).not.toHaveProperty('sig');
      });

      it('never show a room key that a signature covered', async () => {
        const room = await desk.room(ann, 'den', secret);
        const body = '{"body":"covered"}';
        const headers = ann.messageSignature('POST', `/room/${room}`, body, {
          components: ['@method', '@target-uri', 'content-digest', 'x-aicq-room-key'],
          extra: { 'x-aicq-room-key': secret },
        });
        expect((await desk.ask('POST', `/room/${room}`, { raw: body, headers })).status).toBe(201);
        const page = await desk.ask('GET', `/room/${room}?verify=1`, {
          headers: { 'x-aicq-room-key': secret },
        });
        expect(page.json.messages[0].body).toBe('covered');
        expect(page.text).not.toContain(secret);
      });
    });

    describe('private rooms', () => {
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
        expect((await desk.ask('GET', `/room/${room}`, { headers: key })).json.messages[0].body).toBe(
          'inside',
        );
        const stream = await Stream.open(`${desk.url}/room/${room}/stream`);
        expect(stream.status).toBe(403);
      });

      it('let an author delete what it wrote, with the key or without', async () => {
        const room = await desk.room(ann, 'den', secret);
        const { id } = await ann.post(room, 'a slip', {}, { 'x-aicq-room-key': secret });
        expect(refusal(await bob.ask('DELETE', `/room/${room}/${id}`))).toEqual([
          403,
          { error: 'can only delete your own messages' },
        ]);
        expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
      });

      it('do not appear in search, statistics, channel list or the feed of others', async () => {
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

    describe('search', () => {
      it('finds messages that have all words, newest first, in every script', async () => {
        const tag = `t${randomUUID().slice(0, 8)}`;
        const room = await desk.room(ann);
        const one = await ann.post(room, `${tag} Hello, WORLD`);
        const two = await ann.post('global', `${tag} hello again`);
        const three = await ann.post(room, `${tag} 機械学習のモデル привет_мир`);
        const find = async (query: string) =>
          (await desk.ask('GET', `/find?q=${encodeURIComponent(query)}`)).json;
        const ids = async (query: string) => (await find(query)).results.map(({ id }: { id: string }) => id);
        expect(await ids(tag)).toEqual([three.id, two.id, one.id]);
        expect(await ids(`hello ${tag}`)).toEqual([two.id, one.id]);
        expect(await ids(`${tag} hello world`)).toEqual([one.id]);
        expect(await ids(`${tag} hell`)).toEqual([]);
        expect(await ids(`${tag} 学習`)).toEqual([three.id]);
        expect(await ids(`${tag} 機械学習のモデル`)).toEqual([three.id]);
        expect(await ids(`${tag} ПРИВЕТ_МИР`)).toEqual([three.id]);
        expect(await find(`world ${tag}`)).toEqual({
          query: `world ${tag}`,
          results: [
            {
              id: one.id,
              room_id: room,
              room_name: expect.any(String),
              from: ann.id,
              body: `${tag} Hello, WORLD`,
              ts: one.ts,
            },
          ],
          total: 1,
        });
      });

      it('filters by room and time before it counts', async () => {
        const tag = `t${randomUUID().slice(0, 8)}`;
        const [here, there] = [await desk.room(ann), await desk.room(ann)];
        const old = await ann.post(here, `${tag} old`);
        const wanted = await ann.post(here, `${tag} wanted`);
        for (let index = 0; index < 5; index += 1) await ann.post(there, `${tag} elsewhere ${index}`);
        const ids = async (query: string) =>
          (await desk.ask('GET', `/find?q=${tag}&${query}`)).json.results.map(({ id }: { id: string }) => id);
        expect(await ids(`room=${here}&limit=1`)).toEqual([wanted.id]);
        expect(await ids(`room=${here}`)).toEqual([wanted.id, old.id]);
        expect(await ids(`room=${here}&after=${old.ts}`)).toEqual([wanted.id]);
        expect(await ids(`after=${wanted.ts}&limit=3`)).toHaveLength(3);
        expect(await ids('room=global')).toEqual([]);
      });

      it('refuses bad queries, and finds nothing without a usable word', async () => {
        expect(refusal(await desk.ask('GET', '/find'))).toEqual([
          400,
          { error: "query parameter 'q' is required" },
        ]);
        expect(refusal(await desk.ask('GET', `/find?q=${'x'.repeat(101)}`))).toEqual([
          400,
          { error: 'query too long (max 100 chars)' },
        ]);
        expect(refusal(await desk.ask('GET', '/find?q=hello&room=x'))).toEqual([
          400,
          { error: 'invalid room ID format' },
        ]);
        expect(refusal(await desk.ask('GET', '/find?q=a+b'))).toEqual([
          200,
          { query: 'a b', results: [], total: 0 },
        ]);
      });
    });

    describe('direct messages', () => {
      it('reach only their recipient, newest first', async () => {
        const eve = await desk.agent();
        const first = await ann.ask('POST', `/dm/${eve.id}`, { body: { body: 'b3BhcXVl' } });
        expect([first.status, first.json]).toEqual([
          201,
          { id: expect.stringMatching(/^[0-9A-Z]{26}$/), ts: expect.any(Number) },
        ]);
        const second = (await bob.ask('POST', `/dm/${eve.id.toUpperCase()}`, { body: { body: 'second' } }))
          .json;
        const inbox = (await eve.ask('GET', '/dm')).json;
        expect(inbox.messages).toEqual([
          { id: second.id, from: bob.id, body: 'second', ts: second.ts },
          { id: first.json.id, from: ann.id, body: 'b3BhcXVl', ts: first.json.ts },
        ]);
        expect((await ann.ask('GET', '/dm')).json.messages).toEqual([]);
        expect(refusal(await desk.ask('GET', '/dm'))).toEqual([401, { error: 'missing auth headers' }]);
      });

      it("are refused with AICQ's sentences", async () => {
        expect(await send(ann, 'eve', { body: 'x' })).toEqual([
          400,
          { error: 'invalid recipient ID format' },
        ]);
        expect(await send(ann, unknownId, { body: 'x' })).toEqual([404, { error: 'recipient not found' }]);
        expect(await send(ann, bob.id, { body: '' })).toEqual([400, { error: 'body is required' }]);
        expect(await send(ann, bob.id, { body: 'x'.repeat(8193) })).toEqual([
          422,
          { error: 'body too long (max 8192 bytes)' },
        ]);
        expect((await send(ann, bob.id, { body: 'x'.repeat(8192) }))[0]).toBe(201);
      });

      it('are delivered again until they are acknowledged', async () => {
        const eve = await desk.agent();
        const ids: string[] = [];
        for (let index = 0; index < 3; index += 1)
          ids.push((await ann.ask('POST', `/dm/${eve.id}`, { body: { body: `m${index}` } })).json.id);
        const pending = async () =>
          (await eve.ask('GET', '/dm?pending=1')).json.messages.map(({ id }: { id: string }) => id);
        expect(await pending()).toEqual(ids);
        expect(await pending()).toEqual(ids);
        expect(
          (await eve.ask('POST', '/dm/ack', { body: { ids: [ids[0], ids[2], 'nonsense'] } })).json,
        ).toEqual({ acknowledged: 2 });
        expect((await eve.ask('POST', '/dm/ack', { body: { ids: [ids[0]] } })).json).toEqual({
          acknowledged: 0,
        });
        expect((await bob.ask('POST', '/dm/ack', { body: { ids: [ids[1]] } })).json).toEqual({
          acknowledged: 0,
        });
        expect(await pending()).toEqual([ids[1]]);
        expect(
          (await eve.ask('GET', '/dm')).json.messages.map(
            ({ acknowledged }: { acknowledged?: boolean }) => acknowledged ?? false,
          ),
        ).toEqual([true, false, true]);
      });

      it('are paged without loss', async () => {
        const eve = await desk.agent();
        for (let index = 0; index < 7; index += 1)
          await ann.ask('POST', `/dm/${eve.id}`, { body: { body: `m${index}` } });
        const bodies: string[] = [];
        for (let query = ''; ;) {
          const page = (await eve.ask('GET', `/dm?limit=3${query}`)).json;
          bodies.push(...page.messages.map(({ body }: { body: string }) => body));
          if (!page.has_more) break;
          query = `&cursor=${page.next_cursor}`;
        }
        expect(bodies).toEqual(['m6', 'm5', 'm4', 'm3', 'm2', 'm1', 'm0']);
      });
    });

    describe('live', () => {
      it('a room stream continues from Last-Event-ID without a gap or a repeat', async () => {
        const room = await desk.room(ann);
        await ann.post(room, 'before');
        const first = await Stream.open(`${desk.url}/room/${room}/stream`);
        await first.until(1, (stream) => stream.events);
        const early = await Promise.all(
          Array.from({ length: 10 }, (_, index) => ann.post(room, `early ${index}`)),
        );
        await first.until(10);
        expect(first.messages.map(({ data }) => data.id)).toEqual(
          early.toSorted((a, b) => a.ts - b.ts).map(({ id }) => id),
        );
        const lastId = first.messages[4]?.id as string;
        first.close();
        await ann.post(room, 'while away');
        const second = await Stream.open(`${desk.url}/room/${room}/stream`, { 'last-event-id': lastId });
        await ann.post(room, 'back again');
        await second.until(7);
        expect(second.messages.map(({ data }) => data.body)).toEqual([
          ...first.messages.slice(5).map(({ data }) => data.body),
          'while away',
          'back again',
        ]);
        second.close();
      });

      it('a stream shows deletions', async () => {
        const room = await desk.room(ann);
        const { id } = await ann.post(room, 'soon gone');
        const stream = await Stream.open(`${desk.url}/room/${room}/stream?after=1`);
        await stream.until(1);
        await ann.ask('DELETE', `/room/${room}/${id}`);
        await stream.until(1, ({ events }) => events.filter(({ event }) => event === 'deleted'));
        expect(stream.events.find(({ event }) => event === 'deleted')?.data).toEqual({ room_id: room, id });
        stream.close();
      });

      it('several rooms share a stream that can be resumed', async () => {
        const [one, two] = [await desk.room(ann), await desk.room(ann)];
        const stream = await Stream.open(`${desk.url}/stream?rooms=${one},${two}&after=1`);
        await ann.post(one, 'a');
        await ann.post(two, 'b');
        await stream.until(2);
        expect(stream.messages.map(({ data }) => [data.room_id, data.body]).toSorted()).toEqual(
          [
            [one, 'a'],
            [two, 'b'],
          ].toSorted(),
        );
        stream.close();
        await ann.post(one, 'c');
        await ann.post(two, 'd');
        const again = await Stream.open(`${desk.url}/stream?rooms=${one},${two}`, {
          'last-event-id': stream.messages[1]?.id as string,
        });
        await again.until(2);
        expect(again.messages.map(({ data }) => data.body).toSorted()).toEqual(['c', 'd']);
        again.close();
        expect(refusal(await desk.ask('GET', '/stream'))).toEqual([
          400,
          { error: "query parameter 'rooms' is required" },
        ]);
      });

      it("an event of /stream names its room, and an event of a room's own stream does not", async () => {
        const room = await desk.room(ann);
        const urls = [
          `/room/${room}/stream?after=1`,
          `/stream?rooms=${room}&after=1`,
          `/room/${room}/stream?after=1&verify=1`,
          `/stream?rooms=${room}&after=1&verify=1`,
        ];
        const streams = await Promise.all([...urls, ...urls].map((path) => Stream.open(desk.url + path)));
        await Promise.all(streams.map((stream) => stream.until(1, ({ events }) => events)));
        const { id, ts } = await ann.post(room, 'to all of them');
        await Promise.all(streams.map((stream) => stream.until(1)));
        const said = { id, from: ann.id, body: 'to all of them', ts };
        const verified = { ...said, sig: expect.any(String), proof: expect.any(Object) };
        const expected = [said, { room_id: room, ...said }, verified, { room_id: room, ...verified }];
        expect(streams.map(({ messages }) => messages[0]?.data)).toEqual([...expected, ...expected]);
        for (const stream of streams) stream.close();
      });

      it('an inbox stream starts with pending messages, and only its owner can read it', async () => {
        const eve = await desk.agent();
        await ann.ask('POST', `/dm/${eve.id}`, { body: { body: 'waiting' } });
        const stream = await Stream.open(`${desk.url}/dm/stream?pending=1`, eve.headers());
        await stream.until(1);
        await ann.ask('POST', `/dm/${eve.id}`, { body: { body: 'fresh' } });
        await stream.until(2);
        expect(stream.messages.map(({ data }) => data.body)).toEqual(['waiting', 'fresh']);
        stream.close();
        expect((await Stream.open(`${desk.url}/dm/stream`)).status).toBe(401);
      });

      it('a long poll answers as soon as a message arrives', async () => {
        const room = await desk.room(ann);
        const { ts } = await ann.post(room, 'known');
        const waiting = desk.ask('GET', `/room/${room}?after=${ts}&wait=30`);
        await ann.post(room, 'news');
        expect((await waiting).json.messages.map(({ body }: { body: string }) => body)).toEqual(['news']);
        const eve = await desk.agent();
        const inbox = eve.ask('GET', '/dm?pending=1&wait=30');
        await ann.ask('POST', `/dm/${eve.id}`, { body: { body: 'for you' } });
        expect((await inbox).json.messages.map(({ body }: { body: string }) => body)).toEqual(['for you']);
        expect(
          (await desk.ask('GET', `/room/${room}?after=${Date.now() + 50_000}&wait=1`)).json.messages,
        ).toEqual([]);
        // A disconnected caller is not waited for.
        expect(
          await desk.stoa.messaging.hub.wait(
            { kind: 'room', id: room },
            Date.now() + 50_000,
            3_600_000,
            AbortSignal.abort(),
          ),
        ).toBe(false);
      });
    });

    describe('the server around it', () => {
      it('puts CORS and security headers on every answer', async () => {
        const answers = [
          await desk.ask('GET', '/api'),
          await desk.ask('GET', '/room/nowhere'),
          await desk.ask('PUT', '/room/global'),
          await desk.ask('GET', '/room/a/b/c/d'),
          await desk.ask('POST', '/register', { raw: 'x'.repeat(70_000) }),
          await desk.ask('POST', '/register', { raw: 'x', headers: { 'content-type': 'text/plain' } }),
          await desk.ask('OPTIONS', '/room/global'),
          await desk.ask('GET', '/health'),
          await desk.ask('GET', '/nowhere'),
          await desk.ask('GET', '/room/%'),
          await desk.ask('POST', '/room/global', { raw: '{}' }),
          await desk.ask('GET', '/'),
          await desk.ask('GET', '/docs'),
          await ann.ask('DELETE', `/room/global/${(await ann.post('global', 'to be deleted')).id}`),
        ];
        expect(answers.map(({ status }) => status)).toEqual([
          200, 400, 405, 404, 413, 415, 204, 200, 404, 400, 401, 200, 200, 204,
        ]);
        for (const { headers } of answers) {
          expect(headers.get('access-control-allow-origin')).toBe('*');
          expect(headers.get('x-content-type-options')).toBe('nosniff');
          expect(headers.get('x-frame-options')).toBe('DENY');
          expect(headers.get('referrer-policy')).toBe('no-referrer');
          expect(headers.get('strict-transport-security')).toMatch(/max-age/);
          expect(headers.get('content-security-policy')).toMatch(/default-src 'none'/);
        }
        const stream = await fetch(`${desk.url}/room/global/stream`);
        await stream.body?.cancel();
        expect([
          stream.headers.get('access-control-allow-origin'),
          stream.headers.get('x-frame-options'),
        ]).toEqual(['*', 'DENY']);
        // What never became a request is answered on the bare socket.
        for (const bytes of [
          'NONSENSE\r\n\r\n',
          `GET /room/global HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(100_000)}\r\n\r\n`,
        ]) {
          const answer = await desk.talk(bytes);
          expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
          for (const header of [
            'access-control-allow-origin: *',
            'x-content-type-options: nosniff',
            "content-security-policy: default-src 'none'",
          ])
            expect(answer).toContain(header);
        }
      });

      it('tells clients what it is', async () => {
        expect((await desk.ask('GET', '/api')).json).toEqual({
          name: 'AICQ',
          version: expect.any(String),
          docs: '/docs',
        });
        expect((await desk.ask('GET', '/docs')).text).toContain('# Onboarding');
        expect((await desk.ask('GET', '/docs/openapi.yaml')).text).toContain('/room/{room}:');
        expect((await desk.ask('GET', '/')).text).toContain('AICQ');
        expect((await desk.ask('GET', '/metrics')).text).toMatch(/^aicq_http_requests_total\{/m);
        const pass = { status: 'pass', latency: expect.stringMatching(/^\d+\.\d\dms$/) };
        expect((await desk.ask('GET', '/health')).json).toEqual({
          status: 'healthy',
          version: expect.any(String),
          checks: { postgres: pass, redis: pass },
          timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
        });
      });

      it('counts what happened', async () => {
        const before = (await desk.ask('GET', '/stats')).json;
        const eve = await desk.agent('Eve');
        const { id, ts } = await eve.post('global', '😀'.repeat(300));
        await desk.room(eve, 'open');
        await eve.post(await desk.room(eve, 'den', secret), 'inside', {}, { 'x-aicq-room-key': secret });
        const after = (await desk.ask('GET', '/stats')).json;
        expect(Object.keys(after)).toEqual([
          'total_agents',
          'total_channels',
          'total_messages',
          'last_activity',
          'top_channels',
          'recent_messages',
        ]);
        expect([after.total_agents, after.total_messages, after.total_channels]).toEqual([
          before.total_agents + 1,
          before.total_messages + 2,
          before.total_channels + 1,
        ]);
        expect(after.last_activity).toBe('just now');
        expect(after.recent_messages[0]).toEqual({
          id,
          agent_id: eve.id,
          agent_name: 'Eve',
          body: '😀'.repeat(200),
          timestamp: ts,
        });
        const { text } = await desk.ask('GET', '/metrics');
        for (const [name, total] of [
          ['agents', after.total_agents],
          ['public_rooms', after.total_channels],
          ['messages_posted', after.total_messages],
          ['blocked_addresses', 0],
        ] as const) {
          expect(text).toMatch(new RegExp(`^aicq_${name} ${total}$`, 'm'));
        }
      });

      it('announces identities and rooms in the change feed, private rooms only to the operator', async () => {
        const eve = await desk.agent('Eve');
        const [open, hidden] = [await desk.room(eve), await desk.room(eve, 'den', secret)];
        await eve.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Eva' } });
        const next = new Agent(desk);
        await eve.ask('POST', `/who/${eve.id}/key`, {
          body: {
            public_key: next.publicKey,
            proof: next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`),
          },
        });
        const { token } = await desk.stoa.identity.createToken(operatorCaller(), 'watcher', {}, null);
        const told = async (bearer: string) => {
          const { items } = (
            await desk.ask('GET', '/v1/changes?topics=messaging&limit=1000', {
              headers: { authorization: `Bearer ${bearer}` },
            })
          ).json as { items: { kind: string; id: string }[] };
          return items
            .filter(({ id }) => [eve.id, open, hidden].includes(id))
            .map(({ kind, id }) => `${kind} ${id}`);
        };
        const ofEve = ['registered', 'updated', 'rotated'].map((event) => `identity.${event} ${eve.id}`);
        const all = [`room.created ${open}`, `room.created ${hidden}`, ...ofEve].toSorted();
        await expect
          .poll(async () => (await told(desk.stoa.operatorToken)).toSorted(), { timeout: 30_000 })
          .toEqual(all);
        expect((await told(token)).toSorted()).toEqual(all.filter((each) => !each.includes(hidden)));
      });

      it('posts for a bearer token as its kept identity, marked server_signed', async () => {
        const headers = {
          authorization: `Bearer ${desk.stoa.operatorToken}`,
          'stoa-user': 'ada',
          'stoa-agent': 'scout',
        };
        const room = await desk.room(ann);
        const post = () =>
          desk.ask('POST', `/room/${room}`, { body: { body: 'from the operator' }, headers });
        expect((await post()).status).toBe(201);
        expect((await post()).status).toBe(201);
        const { messages } = (await desk.ask('GET', `/room/${room}?verify=1`)).json;
        expect(messages[0]).toMatchObject({ server_signed: true, from: messages[1].from });
        expect(
          verifySignature(
            Buffer.from(messages[0].proof.public_key, 'base64'),
            messages[0].proof.signed_text,
            Buffer.from(messages[0].sig, 'base64'),
          ),
        ).toBe(true);
        expect((await desk.ask('GET', `/who/${messages[0].from}`)).json).toMatchObject({
          name: 'scout',
          server_kept: true,
        });
        await desk.stoa.secrets.rekey();
        expect((await post()).status).toBe(201);
        expect((await desk.ask('GET', `/room/${room}?limit=1`)).json.messages[0].from).toBe(messages[0].from);
      });
    });
  });

  it(`re-keying covers every kept identity on ${backend.name}, a few at a time`, async () => {
    const desk = await backend.open({ limits: { ...roomy, workspaceStepRowsMax: 2 } });
    try {
      const post = async (agent: string) =>
        (
          await desk.ask('POST', '/room/global', {
            body: { body: 'x' },
            headers: { authorization: `Bearer ${desk.stoa.operatorToken}`, 'stoa-agent': agent },
          })
        ).status;
      for (const agent of ['a', 'b', 'c', 'd', 'e']) expect(await post(agent)).toBe(201);
      for (let time = 0; time < 2; time += 1)
        expect((await desk.stoa.secrets.rekey()).resealed['messaging']).toBe(5);
    } finally {
      await desk.close();
    }
  });

  describe(`limits of messaging on ${backend.name}`, () => {
    /** Behind a proxy on this machine, so that callers have different addresses. */
    const settings = { trustedProxies: ['127.0.0.0/8', '::1'] };

    it('are sliding windows with their state in the headers, and refusals do not count', async () => {
      const desk = await backend.open({
        limits: { ...roomy, postsPerMinuteMax: 3, directSendsPerMinuteMax: 1 },
        messagingSettings: settings,
      });
      try {
        const [ann, bob] = [await desk.agent(), await desk.agent()];
        const remaining = [];
        for (let index = 0; index < 3; index += 1)
          remaining.push((await postOnce(ann)).headers.get('x-ratelimit-remaining'));
        expect(remaining).toEqual(['2', '1', '0']);
        const refused = await postOnce(ann);
        expect(refusal(refused)).toEqual([429, { error: 'rate limit exceeded' }]);
        expect(refused.headers.get('x-ratelimit-limit')).toBe('3');
        expect([
          refused.headers.get('access-control-allow-origin'),
          refused.headers.get('access-control-expose-headers'),
        ]).toEqual([
          '*',
          expect.stringContaining('Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset'),
        ]);
        expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(30);
        const resetSeconds = Number(refused.headers.get('x-ratelimit-reset'));
        expect(resetSeconds - Date.now() / 1000).toBeGreaterThan(30);
        expect(resetSeconds - Date.now() / 1000).toBeLessThanOrEqual(61);
        expect((await postOnce(bob)).status).toBe(201);
        expect((await ann.ask('GET', '/room/global')).status).toBe(200);
        // The longest pattern decides: to acknowledge is not to send.
        const statuses = [];
        for (const [path, body] of [
          [`/dm/${bob.id}`, { body: 'x' }],
          [`/dm/${bob.id}`, { body: 'x' }],
          ['/dm/ack', { ids: ['x'] }],
        ] as const)
          statuses.push((await ann.ask('POST', path, { body })).status);
        expect(statuses).toEqual([201, 429, 200]);
      } finally {
        await desk.close();
      }
    });

    it("are those of a few agents for all agent names used with a user's tokens", async () => {
      const desk = await backend.open({
        limits: { ...roomy, postsPerMinuteMax: 2, namedAgentBudgetsMax: 2 },
        messagingSettings: settings,
      });
      try {
        const { token } = await desk.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
        const { token: second } = await desk.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
        const { token: others } = await desk.stoa.identity.createToken(operatorCaller(), 'ada/one', {}, null);
        const post = async (name: string, bearer = token) => {
          const headers = { authorization: `Bearer ${bearer}`, 'stoa-agent': name };
          const answer = await desk.ask('POST', '/room/global', { body: { body: 'x' }, headers });
          return [
            answer.status,
            answer.headers.get('x-ratelimit-limit'),
            answer.headers.get('x-ratelimit-remaining'),
          ];
        };
        expect([await post('one/a'), await post('one/a'), await post('one/a')]).toEqual([
          [201, '2', '1'],
          [201, '2', '0'],
          [429, '2', '0'],
        ]);
        expect([await post('b'), await post('c', second)]).toEqual([
          [201, '2', '1'],
          [201, '4', '0'],
        ]);
        for (const name of ['b', 'c', 'd', 'e']) expect(await post(name)).toEqual([429, '4', '0']);
        expect(await post('a', others)).toEqual([201, '2', '1']);
        expect((await postOnce(await desk.agent())).headers.get('x-ratelimit-limit')).toBe('2');
      } finally {
        await desk.close();
      }
    });

    it('slide with the time, and forget refused requests', async () => {
      let nowMs = Date.now();
      const desk = await backend.open({
        limits: { ...roomy, channelReadsPerMinuteMax: 2 },
        messagingSettings: { ...settings, autoBlock: false },
        clock: () => nowMs,
      });
      try {
        const from = { headers: { 'x-forwarded-for': '203.0.113.60' } };
        const read = async () => (await desk.ask('GET', '/channels', from)).status;
        const statuses = [await read()];
        nowMs += 30_000;
        statuses.push(await read());
        nowMs += 29_999;
        // As many as would block the address, were it not switched off.
        for (let count = 0; count < 11; count += 1) statuses.push(await read());
        nowMs += 1;
        statuses.push(await read(), await read());
        nowMs += 30_000;
        statuses.push(await read());
        expect(statuses).toEqual([200, 200, ...Array<number>(11).fill(429), 200, 429, 200]);
      } finally {
        await desk.close();
      }
    });

    it('count message bytes per agent exactly under concurrent posts', async () => {
      const desk = await backend.open({
        limits: { ...roomy, messageBytesPerMinuteMax: 32_768 },
        messagingSettings: { ...settings, rateLimitAllow: ['127.0.0.1'] },
      });
      try {
        const ann = await desk.agent();
        const post = async (path: string, more = {}) =>
          (await ann.ask('POST', path, { body: { body: 'x'.repeat(4096), ...more } })).status;
        const closed = await desk.room(ann, 'den', secret);
        // A message refused for another reason costs no bytes, and gets that reason even when no bytes are
        // left.
        const refusedAnyway = async () => [
          await post(`/room/${unknownId}`),
          await post(`/room/${closed}`),
          await post('/room/global', { pid: 'x' }),
        ];
        expect(await refusedAnyway()).toEqual([404, 403, 422]);
        const answers = await Promise.all(
          Array.from({ length: 12 }, () =>
            ann.ask('POST', '/room/global', { body: { body: 'x'.repeat(4096) } }),
          ),
        );
        expect(answers.filter(({ status }) => status === 201)).toHaveLength(8);
        for (const refused of answers.filter(({ status }) => status !== 201))
          expect(refusal(refused)).toEqual([429, { error: 'message byte rate limit exceeded (32KB/min)' }]);
        expect((await ann.ask('POST', `/dm/${ann.id}`, { body: { body: 'x'.repeat(8000) } })).status).toBe(
          201,
        );
        expect(
          (await ann.ask('POST', '/room/global', { body: { body: 'x' } })).headers.get('retry-after'),
        ).toMatch(/^\d+$/);
        expect(await refusedAnyway()).toEqual([404, 403, 422]);
      } finally {
        await desk.close();
      }
    });

    it('block an address after ten refusals in an hour, show the operator the reason, and can be lifted', async () => {
      const desk = await backend.open({
        limits: { ...roomy, channelReadsPerMinuteMax: 1 },
        messagingSettings: settings,
      });
      try {
        const from = (address: string, path = '/channels') =>
          desk.ask('GET', path, { headers: { 'x-forwarded-for': address } });
        expect((await from('203.0.113.7')).status).toBe(200);
        for (let count = 0; count < 10; count += 1) expect((await from('203.0.113.7')).status).toBe(429);
        const blocked = await from('203.0.113.7', '/room/global');
        expect([refusal(blocked), blocked.headers.get('access-control-allow-origin')]).toEqual([
          [403, { error: 'temporarily blocked' }],
          '*',
        ]);
        expect((await from('203.0.113.8')).status).toBe(200);
        expect((await from('203.0.113.7', '/health')).status).toBe(200);
        const headers = { authorization: `Bearer ${desk.stoa.operatorToken}` };
        const { items } = (await desk.ask('GET', '/v1/blocks', { headers })).json;
        expect(items).toEqual([
          {
            ip: '203.0.113.7',
            reason: 'rate limit exceeded: GET /channels',
            expires_at: expect.stringMatching(/Z$/),
          },
        ]);
        const lifeSeconds = (Date.parse(items[0].expires_at) - Date.now()) / 1000;
        expect(lifeSeconds > 86_000 && lifeSeconds <= 86_400).toBe(true);
        expect((await desk.ask('DELETE', '/v1/blocks?ip=203.0.113.7', { headers })).status).toBe(204);
        expect((await desk.ask('DELETE', '/v1/blocks?ip=203.0.113.7', { headers })).status).toBe(404);
        expect((await from('203.0.113.7', '/room/global')).status).toBe(200);
        // An IPv6 client can use all addresses of its network.
        expect((await from('2001:db8:1:2::')).status).toBe(200);
        for (let count = 1; count <= 10; count += 1)
          expect((await from(`2001:DB8:1:2:${count}::`)).status).toBe(429);
        expect([(await from('2001:db8:1:2::99')).status, (await from('2001:db8:1:3::')).status]).toEqual([
          403, 200,
        ]);
        expect((await desk.ask('GET', '/v1/blocks', { headers })).json.items).toMatchObject([
          { ip: '2001:db8:1:2::/64' },
        ]);
        expect((await desk.ask('DELETE', '/v1/blocks?ip=2001:db8:1:2::77', { headers })).status).toBe(204);
        expect((await desk.ask('DELETE', '/v1/blocks?ip=2001:db8:1:2::/64', { headers })).status).toBe(404);
        for (const ip of ['%25', 'x', '%00', '203.0.113.7/64', '%25/64'])
          expect([ip, (await desk.ask('DELETE', `/v1/blocks?ip=${ip}`, { headers })).status]).toEqual([
            ip,
            400,
          ]);
        const addresses = Array.from({ length: 5 }, (_, index) => `198.51.100.${index + 1}`);
        for (const address of addresses)
          await desk.stoa.messaging.port.block({ address, reason: 'load', expiresAtMs: Date.now() + 60_000 });
        const pages: string[][] = [];
        for (let cursor: string | null = ''; cursor !== null;) {
          const from: string = cursor === '' ? '' : `&cursor=${cursor}`;
          const { json } = await desk.ask('GET', `/v1/blocks?limit=2${from}`, { headers });
          pages.push(json.items.map(({ ip }) => ip));
          cursor = json.next_cursor;
        }
        expect(pages).toEqual([addresses.slice(0, 2), addresses.slice(2, 4), addresses.slice(4)]);
        expect((await desk.ask('GET', '/v1/blocks?cursor=other', { headers })).status).toBe(400);
        // Loopback is never blocked, however often it is refused.
        for (let count = 0; count < 15; count += 1) await desk.ask('GET', '/channels');
        expect((await desk.ask('GET', '/room/global')).status).toBe(200);
      } finally {
        await desk.close();
      }
    });

    it('end the streams and waits of an address when it is blocked, and no others', async () => {
      const desk = await backend.open({
        limits: { ...roomy, channelReadsPerMinuteMax: 1 },
        messagingSettings: { ...settings, rateLimitAllow: ['2001:db8:1:2::9'] },
      });
      try {
        const ann = await desk.agent();
        const [met, neighbour, exempt, other] = [
          '2001:db8:1:2::7',
          '2001:db8:1:2::8',
          '2001:db8:1:2::9',
          '203.0.113.7',
        ];
        const opened = await Promise.all([
          Stream.open(`${desk.url}/room/global/stream`, forwardedFrom(met)),
          Stream.open(`${desk.url}/stream?rooms=global`, forwardedFrom(neighbour)),
          Stream.open(`${desk.url}/dm/stream`, { ...ann.headers(), ...forwardedFrom(met) }),
          Stream.open(`${desk.url}/room/global/stream`, forwardedFrom(exempt)),
          Stream.open(`${desk.url}/room/global/stream`, forwardedFrom(other)),
        ]);
        for (const stream of opened) await stream.until(1, ({ events }) => events);
        const waiting = desk.ask('GET', `/room/global?after=${Date.now()}&wait=60`, {
          headers: forwardedFrom(met),
        });
        for (let count = 0; count <= 10; count += 1)
          await desk.ask('GET', '/channels', { headers: forwardedFrom(met) });
        const [ended, spared] = [opened.slice(0, 3), opened.slice(3)];
        while (!ended.every((stream) => stream.ended)) await new Promise((resolve) => setTimeout(resolve, 5));
        await ann.post('global', 'not for the blocked');
        for (const stream of spared) await stream.until(1);
        expect(refusal(await waiting)).toEqual([403, { error: 'temporarily blocked' }]);
        expect(ended.flatMap(({ messages }) => messages)).toEqual([]);
        for (const stream of spared) stream.close();
      } finally {
        await desk.close();
      }
    });

    it('hold for every spelling of a path', async () => {
      const desk = await backend.open({ limits: { ...roomy, channelReadsPerMinuteMax: 2 } });
      try {
        const statuses = [];
        for (const path of ['/channels', '/%63hannels', '/channel%73', '/channels?x', '/%63%68annels'])
          statuses.push((await desk.ask('GET', path)).status);
        expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(2);
      } finally {
        await desk.close();
      }
    });

    it('use forwarding headers only from configured proxies', async () => {
      const desk = await backend.open({ limits: { ...roomy, channelReadsPerMinuteMax: 2 } });
      try {
        const statuses = [];
        for (let index = 0; index < 4; index += 1) {
          const forged = {
            'x-forwarded-for': `198.51.100.${index}`,
            'x-real-ip': `198.51.100.${index}`,
            forwarded: `for=198.51.100.${index}`,
          };
          statuses.push((await desk.ask('GET', '/channels', { headers: forged })).status);
        }
        expect(statuses).toEqual([200, 200, 429, 429]);
      } finally {
        await desk.close();
      }
    });

    it('exempt addresses of the allow-list, but not from the byte limit', async () => {
      const desk = await backend.open({
        limits: { ...roomy, channelReadsPerMinuteMax: 1, messageBytesPerMinuteMax: 10 },
        messagingSettings: { ...settings, rateLimitAllow: ['203.0.113.0/24', '127.0.0.1'] },
      });
      try {
        const answers = [];
        for (let index = 0; index < 20; index += 1)
          answers.push(await desk.ask('GET', '/channels', { headers: { 'x-forwarded-for': '203.0.113.9' } }));
        expect(
          answers.every(({ status, headers }) => status === 200 && headers.get('x-ratelimit-limit') === null),
        ).toBe(true);
        const ann = await desk.agent();
        expect((await ann.ask('POST', '/room/global', { body: { body: 'x'.repeat(11) } })).status).toBe(429);
      } finally {
        await desk.close();
      }
    });

    it('count failed signatures and wrong room keys by address', async () => {
      const desk = await backend.open({
        limits: { ...roomy, postsPerMinuteMax: 3, roomKeyGuessesPerMinuteMax: 2 },
        messagingSettings: settings,
      });
      try {
        const ann = await desk.agent();
        const room = await desk.room(ann, 'den', secret);
        const forged = () =>
          desk.ask('POST', '/room/global', { raw: '{"body":"x"}', headers: ann.headers('{"body":"y"}') });
        const statuses = [];
        for (let index = 0; index < 5; index += 1) statuses.push((await forged()).status);
        expect(statuses).toEqual([401, 401, 401, 429, 429]);
        expect((await ann.ask('POST', '/room/global', { body: { body: 'x' } })).status).toBe(201);
        const guess = (key: string) =>
          desk.ask('GET', `/room/${room}`, { headers: { 'x-aicq-room-key': key } });
        const guesses = [];
        for (let index = 0; index < 4; index += 1)
          guesses.push((await guess(`wrong key number ${index}`)).status);
        expect(guesses).toEqual([403, 403, 429, 429]);
        const refused = await guess('yet another wrong key');
        expect([
          refused.headers.get('x-ratelimit-limit'),
          Number(refused.headers.get('retry-after')) > 30,
        ]).toEqual(['2', true]);
      } finally {
        await desk.close();
      }
    });
  });

  describe(`room keys on ${backend.name}`, () => {
    it('cannot be guessed faster by concurrent requests, and right keys never count', async () => {
      const desk = await backend.open({ limits: { ...roomy, roomKeyGuessesPerMinuteMax: 3 } });
      try {
        const ann = await desk.agent();
        const rooms = await Promise.all(
          Array.from({ length: 5 }, (_, index) => desk.room(ann, `den${index}`, `${secret} ${index}`)),
        );
        const open = (room: number, key: string) =>
          desk.ask('GET', `/room/${rooms[room] as string}`, { headers: { 'x-aicq-room-key': key } });
        const right = await Promise.all(
          Array.from({ length: 20 }, (_, index) => open(index % 5, `${secret} ${index % 5}`)),
        );
        expect(right.map(({ status }) => status)).toEqual(right.map(() => 200));
        const wrong = await Promise.all(
          Array.from({ length: 20 }, (_, index) => open(index % 5, `${secret} number ${index}`)),
        );
        expect(wrong.filter(({ status }) => status === 403)).toHaveLength(3);
        expect(wrong.filter(({ status }) => status === 429)).toHaveLength(17);
      } finally {
        await desk.close();
      }
    });
  });

  describe(`retention of messaging on ${backend.name}`, () => {
    it('hides a message when it expires, and keeps the counters', async () => {
      let offsetMs = 0;
      const desk = await backend.open({
        limits: { ...roomy, messageRetentionSeconds: 3600, directRetentionSeconds: 7200 },
        clock: () => Date.now() + offsetMs,
      });
      const now = () => Date.now() + offsetMs;
      try {
        const [ann, bob] = [await desk.agent(), await desk.agent()];
        const room = await desk.room(ann);
        const ask = (agent: Agent, method: string, path: string, body?: unknown) => {
          const raw = body === undefined ? '' : JSON.stringify(body);
          return desk.ask(method, path, {
            ...(raw !== '' && { raw }),
            headers: agent.headers(raw, { timestamp: now() }),
          });
        };
        const { id } = (await ask(ann, 'POST', `/room/${room}`, { body: 'ephemeral words' })).json;
        await ask(ann, 'POST', '/room/global', { body: 'ephemeral too' });
        await ask(ann, 'POST', `/dm/${bob.id}`, { body: 'letter' });
        offsetMs = 1_800_000;
        await ask(ann, 'POST', `/room/${room}`, { body: 'later words', pid: id });
        const bodies = async () =>
          (await desk.ask('GET', `/room/${room}`)).json.messages.map(({ body }: { body: string }) => body);
        expect(await bodies()).toEqual(['later words', 'ephemeral words']);
        offsetMs = 3_601_000;
        expect(await bodies()).toEqual(['later words']);
        expect((await desk.ask('GET', `/room/${room}/${id}`)).status).toBe(404);
        expect(
          (await desk.ask('GET', `/room/${room}/${id}/thread`)).json.messages.map(
            ({ body }: { body: string }) => body,
          ),
        ).toEqual(['later words']);
        expect((await desk.ask('GET', '/stats')).json.recent_messages).toEqual([]);
        const stream = await Stream.open(`${desk.url}/room/${room}/stream`, { 'last-event-id': '1' });
        await stream.until(1);
        expect(stream.messages.map(({ data }) => data.body)).toEqual(['later words']);
        stream.close();
        expect((await desk.ask('GET', `/room/${room}?after=1`)).json.messages).toHaveLength(1);
        expect(
          (await desk.ask('GET', '/find?q=words')).json.results.map(({ body }: { body: string }) => body),
        ).toEqual(['later words']);
        expect((await ask(ann, 'POST', `/room/${room}`, { body: 'x', pid: id })).json).toEqual({
          error: 'parent message not found in this room',
        });
        expect((await ask(bob, 'GET', '/dm')).json.messages).toHaveLength(1);
        offsetMs = 7_201_000;
        expect(await bodies()).toEqual([]);
        expect((await ask(bob, 'GET', '/dm')).json.messages).toEqual([]);
        expect((await ask(bob, 'GET', '/dm?pending=1')).json.messages).toEqual([]);
        const { channels } = (await desk.ask('GET', '/channels')).json;
        expect(channels.find((channel: { id: string }) => channel.id === room)?.message_count).toBe(2);
      } finally {
        await desk.close();
      }
    });

    it('accepts messages after the clock was set back, with growing times', async () => {
      let offsetMs = 0;
      const clock = () => Date.now() + offsetMs;
      const year = 365 * 24 * 3_600_000;
      const desk = await backend.open({
        limits: roomy,
        clock,
      });
      try {
        const ann = await desk.agent();
        const room = await desk.room(ann);
        const ask = (method: string, path: string, body?: object) => {
          const raw = body === undefined ? '' : JSON.stringify(body);
          return desk.ask(method, path, {
            ...(raw !== '' && { raw }),
            headers: ann.headers(raw, { timestamp: clock() }),
          });
        };
        for (const path of [`/room/${room}`, `/dm/${ann.id}`]) {
          offsetMs = year;
          const ahead = await ask('POST', path, { body: 'ahead words' });
          expect(ahead.status).toBe(201);
          offsetMs = 0;
          const times: number[] = [ahead.json.ts];
          for (const body of ['one', 'two', 'three']) {
            const { status, json } = await ask('POST', path, { body });
            expect([body, status]).toEqual([body, 201]);
            times.push(json.ts);
          }
          expect(times).toEqual(Array.from(times, (_, index) => ahead.json.ts + index));
        }
        const page = await ask('GET', `/room/${room}?after=0`);
        expect(page.json.messages.map(({ body }: { body: string }) => body)).toEqual([
          'three',
          'two',
          'one',
          'ahead words',
        ]);
      } finally {
        await desk.close();
      }
    });
  });
}
