/** The server around messaging: headers, pages, health, feed, kept identities. */
import { isDeepStrictEqual } from 'node:util';
import { verifySignature } from '../../identity/signatures.js';
import { operatorCaller } from '../../core/caller.js';
import { type TestRunner, eventually } from '../../core/test-runner.js';
import { Agent, type Backend, type MessagingServer, type Request } from './kit/server.js';
import { secret } from './kit/requests.js';

const page = 'https://app.example.org';

export function serverTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`the HTTP server of messaging on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open({ corsOrigin: [page] });
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    it('puts security headers on every answer, and CORS headers on those for a named origin', async () => {
      const asked = (method: string, path: string, request: Request = {}) =>
        server.ask(method, path, { ...request, headers: { origin: page, ...request.headers } });
      const answers = [
        await asked('GET', '/api'),
        await asked('GET', '/room/nowhere'),
        await asked('PUT', '/room/global'),
        await asked('GET', '/room/a/b/c/d'),
        await asked('POST', '/register', { raw: 'x'.repeat(70_000) }),
        await asked('POST', '/register', { raw: 'x', headers: { 'content-type': 'text/plain' } }),
        await asked('OPTIONS', '/room/global'),
        await asked('GET', '/health'),
        await asked('GET', '/nowhere'),
        await asked('GET', '/room/%'),
        await asked('POST', '/room/global', { raw: '{}' }),
        await asked('GET', '/'),
        await asked('GET', '/docs'),
        await asked('GET', '/room/global'),
      ];
      expect(answers.map(({ status }) => status)).toEqual([
        200, 400, 405, 404, 413, 415, 204, 200, 404, 400, 401, 200, 200, 200,
      ]);
      const stream = await fetch(`${server.url}/room/global/stream`, { headers: { origin: page } });
      await stream.body?.cancel();
      for (const { headers } of [...answers, stream]) {
        expect(headers.get('access-control-allow-origin')).toBe(page);
        expect(headers.get('vary')).toContain('Origin');
        expect(headers.get('access-control-expose-headers')).toContain('Retry-After, ');
      }
      const unmarked = await server.ask('DELETE', `/room/global/${(await ann.post('global', 'gone')).id}`, {
        headers: { origin: server.url },
      });
      expect([unmarked.status, unmarked.headers.get('access-control-allow-origin')]).toEqual([401, null]);
      for (const { headers } of [...answers.filter(({ status }) => status !== 204), stream, unmarked]) {
        expect(headers.get('x-content-type-options')).toBe('nosniff');
        expect(headers.get('x-frame-options')).toBe('DENY');
        expect(headers.get('referrer-policy')).toBe('no-referrer');
        expect(headers.get('strict-transport-security')).toMatch(/max-age/);
        expect(headers.get('content-security-policy')).toMatch(/default-src 'none'/);
      }
      // Bytes that are not a valid request are answered directly on the socket.
      for (const bytes of [
        'NONSENSE\r\n\r\n',
        `GET /room/global HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(100_000)}\r\n\r\n`,
      ]) {
        const answer = await server.talk(bytes);
        expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
        for (const header of [
          'x-content-type-options: nosniff',
          "content-security-policy: default-src 'none'",
        ])
          expect(answer).toContain(header);
      }
    });

    it('refuses pages of other sites on every route, and writes nothing for them', async () => {
      const headers = { origin: 'https://evil.example' };
      const refused = {
        error:
          'The Origin "https://evil.example" is another site, and this server does not accept requests from its pages.',
      };
      for (const [method, path] of [
        ['GET', '/api'],
        ['GET', '/room/global'],
        ['GET', '/room/global/stream'],
        ['GET', '/health'],
        ['GET', '/room/a/b/c/d'],
        ['GET', '/room/%'],
        ['OPTIONS', '/room/global'],
      ] as const) {
        const answer = await server.ask(method, path, { headers });
        expect([path, answer.status, answer.json]).toEqual([path, 403, refused]);
        expect(answer.headers.get('access-control-allow-origin')).toBe(null);
      }
      const posted = await ann.send('/room/global', { body: 'from a page' }, headers);
      expect([posted.status, posted.json]).toEqual([403, refused]);
      expect((await server.get('/room/global')).text).not.toContain('from a page');
      for (const path of ['/v1/status', '/mcp', '/livez', '/metrics', '/nowhere', '/openapi.json']) {
        const answer = await server.get(path, headers);
        expect([path, answer.status, answer.json['code']]).toEqual([path, 403, 'origin_refused']);
      }
      const own = await ann.send(
        '/room/global',
        { body: 'from a page of the server' },
        { origin: server.url },
      );
      expect([own.status, own.headers.get('access-control-allow-origin')]).toEqual([201, null]);
      expect((await server.ask('OPTIONS', '/room/global')).status).toBe(204);
    });

    it('describes itself to clients', async () => {
      expect((await server.get('/api')).json).toEqual({
        name: 'AICQ',
        version: expect.any(String),
        docs: '/docs',
      });
      expect((await server.get('/docs')).text).toContain('# Onboarding');
      expect((await server.get('/docs/openapi.yaml')).text).toContain('/room/{room}:');
      expect((await server.get('/')).text).toContain('AICQ');
      expect((await server.get('/metrics')).text).toMatch(/^aicq_http_requests_total\{/m);
      const pass = { status: 'pass', latency: expect.stringMatching(/^\d+\.\d\dms$/) };
      expect((await server.get('/health')).json).toEqual({
        status: 'healthy',
        version: expect.any(String),
        checks: { postgres: pass, redis: pass },
        timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      });
    });

    it('counts requests and messages in its metrics', async () => {
      const before = (await server.get('/stats')).json;
      const eve = await server.agent('Eve');
      const { id, ts } = await eve.post('global', '😀'.repeat(300));
      await server.room(eve, 'open');
      await eve.post(await server.room(eve, 'den', secret), 'inside', {}, { 'x-aicq-room-key': secret });
      const after = (await server.get('/stats')).json;
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
      const { text } = await server.get('/metrics');
      for (const [name, total] of [
        ['agents', after.total_agents],
        ['public_rooms', after.total_channels],
        ['messages_posted', after.total_messages],
        ['blocked_addresses', 0],
      ] as const) {
        expect(text).toMatch(new RegExp(`^aicq_${name} ${total}$`, 'm'));
      }
    });

    it('reports identities and rooms in the change feed, private rooms only to the operator', async () => {
      const eve = await server.agent('Eve');
      const [open, hidden] = [await server.room(eve), await server.room(eve, 'den', secret)];
      await eve.ask('PATCH', `/who/${eve.id}`, { body: { name: 'Eva' } });
      const next = new Agent(server);
      await eve.send(`/who/${eve.id}/key`, {
        public_key: next.publicKey,
        proof: next.sign(`aicq-key-rotation|${eve.id}|${eve.publicKey}|${next.publicKey}`),
      });
      const { token } = await server.stoa.identity.createToken(operatorCaller(), 'watcher', {}, null);
      const told = async (bearer: string) => {
        const { items } = (
          await server.get('/v1/changes?topics=messaging&limit=1000', { authorization: `Bearer ${bearer}` })
        ).json as { items: { kind: string; id: string }[] };
        return items
          .filter(({ id }) => [eve.id, open, hidden].includes(id))
          .map(({ kind, id }) => `${kind} ${id}`);
      };
      const ofEve = ['registered', 'updated', 'rotated'].map((event) => `identity.${event} ${eve.id}`);
      const all = [`room.created ${open}`, `room.created ${hidden}`, ...ofEve].toSorted();
      await eventually(
        async () => (await told(server.stoa.operatorToken)).toSorted(),
        (seen) => isDeepStrictEqual(seen, all),
        30,
      );
      expect((await told(token)).toSorted()).toEqual(all.filter((each) => !each.includes(hidden)));
    });

    it('posts for a bearer token as an identity whose key it keeps, and marks the message', async () => {
      const headers = {
        authorization: `Bearer ${server.stoa.operatorToken}`,
        'stoa-user': 'ada',
        'stoa-agent': 'scout',
      };
      const room = await server.room(ann);
      const post = () => server.send(`/room/${room}`, { body: 'from the operator' }, headers);
      expect((await post()).status).toBe(201);
      expect((await post()).status).toBe(201);
      const { messages } = (await server.get(`/room/${room}?verify=1`)).json;
      expect(messages[0]).toMatchObject({ server_signed: true, from: messages[1].from });
      expect(
        verifySignature(
          Buffer.from(messages[0].proof.public_key, 'base64'),
          messages[0].proof.signed_text,
          Buffer.from(messages[0].sig, 'base64'),
        ),
      ).toBe(true);
      expect((await server.get(`/who/${messages[0].from}`)).json).toMatchObject({
        name: 'scout',
        server_kept: true,
      });
      await server.stoa.secrets.rekey();
      expect((await post()).status).toBe(201);
      expect((await server.get(`/room/${room}?limit=1`)).json.messages[0].from).toBe(messages[0].from);
    });
  });
}
