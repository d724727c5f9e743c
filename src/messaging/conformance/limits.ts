/** Limits of messaging. */
import { operatorCaller } from '../../core/caller.js';
import { type TestRunner } from '../../core/test-runner.js';
import type { Limits } from '../../core/settings/limits.js';
import {
  type Backend,
  type MessagingServer,
  type MessagingServerOptions,
  roomy,
  onServer,
} from './kit/server.js';
import { Stream } from './kit/stream.js';
import { unknownId, secret, postOnce, forwardedFrom, refusals } from './kit/requests.js';

export function limitTests({ describe, expect, it }: TestRunner, backend: Backend): void {
  const isRefused = refusals(expect);

  describe(`limits of messaging on ${backend.name}`, () => {
    /** Behind a proxy on this machine, so that each caller has its own address. */
    const settings = { trustedProxies: ['127.0.0.0/8', '::1'] };
    /** A server with these limits, and no others. */
    const limited = (
      limits: Partial<Limits>,
      work: (server: MessagingServer) => Promise<void>,
      options: MessagingServerOptions = {},
    ) =>
      onServer(backend, { messagingSettings: settings, ...options, limits: { ...roomy, ...limits } }, work);

    it('count requests in a sliding window, show it in headers, and do not count refused requests', async () => {
      await limited({ postsPerMinuteMax: 3, directSendsPerMinuteMax: 1 }, async (server) => {
        const [ann, bob] = [await server.agent(), await server.agent()];
        const remaining = [];
        for (let index = 0; index < 3; index += 1)
          remaining.push((await postOnce(ann)).headers.get('x-ratelimit-remaining'));
        expect(remaining).toEqual(['2', '1', '0']);
        const refused = await postOnce(ann);
        isRefused(refused, 429, 'rate limit exceeded');
        expect(refused.headers.get('x-ratelimit-limit')).toBe('3');
        expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(30);
        const resetSeconds = Number(refused.headers.get('x-ratelimit-reset'));
        expect(resetSeconds - Date.now() / 1000).toBeGreaterThan(30);
        expect(resetSeconds - Date.now() / 1000).toBeLessThanOrEqual(61);
        expect((await postOnce(bob)).status).toBe(201);
        expect((await ann.get('/room/global')).status).toBe(200);
        // The longest pattern applies: acknowledging does not count as sending.
        const statuses = [];
        for (const [path, body] of [
          [`/dm/${bob.id}`, { body: 'x' }],
          [`/dm/${bob.id}`, { body: 'x' }],
          ['/dm/ack', { ids: ['x'] }],
        ] as const)
          statuses.push((await ann.send(path, body)).status);
        expect(statuses).toEqual([201, 429, 200]);
      });
    });

    it("give the agent names of one user's tokens a shared budget of a few agents", async () => {
      await limited({ postsPerMinuteMax: 2, namedAgentBudgetsMax: 2 }, async (server) => {
        const { token } = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
        const { token: second } = await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
        const { token: others } = await server.stoa.identity.createToken(
          operatorCaller(),
          'ada/one',
          {},
          null,
        );
        const post = async (name: string, bearer = token) => {
          const headers = { authorization: `Bearer ${bearer}`, 'stoa-agent': name };
          const answer = await server.send('/room/global', { body: 'x' }, headers);
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
        expect((await postOnce(await server.agent())).headers.get('x-ratelimit-limit')).toBe('2');
      });
    });

    it('free a request when its window has passed, and do not count refused requests', async () => {
      let nowMs = Date.now();
      await limited(
        { channelReadsPerMinuteMax: 2 },
        async (server) => {
          const from = { headers: { 'x-forwarded-for': '203.0.113.60' } };
          const read = async () => (await server.ask('GET', '/channels', from)).status;
          const statuses = [await read()];
          nowMs += 30_000;
          statuses.push(await read());
          // A database's clock is known to a few milliseconds.
          nowMs += 29_500;
          // As many as would block the address if blocking were not switched off.
          for (let count = 0; count < 11; count += 1) statuses.push(await read());
          nowMs += 1_000;
          statuses.push(await read(), await read());
          nowMs += 30_000;
          statuses.push(await read());
          expect(statuses).toEqual([200, 200, ...Array<number>(11).fill(429), 200, 429, 200]);
        },
        { messagingSettings: { ...settings, autoBlock: false }, clock: () => nowMs },
      );
    });

    it('count message bytes per agent exactly, also for concurrent posts', async () => {
      await limited(
        { messageBytesPerMinuteMax: 32_768 },
        async (server) => {
          const ann = await server.agent();
          const post = async (path: string, more = {}) =>
            (await ann.send(path, { body: 'x'.repeat(4096), ...more })).status;
          const closed = await server.room(ann, 'den', secret);
          // A request that is refused for another reason costs no bytes, and gets its own error even when no
          // bytes are left.
          const refusedAnyway = async () => [
            await post(`/room/${unknownId}`),
            await post(`/room/${closed}`),
            await post('/room/global', { pid: 'x' }),
          ];
          expect(await refusedAnyway()).toEqual([404, 403, 422]);
          const answers = await Promise.all(
            Array.from({ length: 12 }, () => ann.send('/room/global', { body: 'x'.repeat(4096) })),
          );
          expect(answers.filter(({ status }) => status === 201)).toHaveLength(8);
          for (const refused of answers.filter(({ status }) => status !== 201))
            isRefused(refused, 429, 'message byte rate limit exceeded (32KB/min)');
          expect((await ann.send(`/dm/${ann.id}`, { body: 'x'.repeat(8000) })).status).toBe(201);
          expect((await ann.send('/room/global', { body: 'x' })).headers.get('retry-after')).toMatch(/^\d+$/);
          expect(await refusedAnyway()).toEqual([404, 403, 422]);
        },
        { messagingSettings: { ...settings, rateLimitAllow: ['127.0.0.1'] } },
      );
    });

    it('block an address after ten refusals in an hour; the operator sees the reason and can lift the block', async () => {
      await limited({ channelReadsPerMinuteMax: 1 }, async (server) => {
        const from = (address: string, path = '/channels') =>
          server.get(path, { 'x-forwarded-for': address });
        expect((await from('203.0.113.7')).status).toBe(200);
        for (let count = 0; count < 10; count += 1) expect((await from('203.0.113.7')).status).toBe(429);
        const blocked = await from('203.0.113.7', '/room/global');
        isRefused(blocked, 403, 'temporarily blocked');
        expect((await from('203.0.113.8')).status).toBe(200);
        expect((await from('203.0.113.7', '/health')).status).toBe(200);
        const headers = { authorization: `Bearer ${server.stoa.operatorToken}` };
        const { items } = (await server.get('/v1/blocks', headers)).json;
        expect(items).toEqual([
          {
            ip: '203.0.113.7',
            reason: 'rate limit exceeded: GET /channels',
            expires_at: expect.stringMatching(/Z$/),
          },
        ]);
        const lifeSeconds = (Date.parse(items[0].expires_at) - Date.now()) / 1000;
        expect(lifeSeconds > 86_000 && lifeSeconds <= 86_400).toBe(true);
        expect((await server.ask('DELETE', '/v1/blocks?ip=203.0.113.7', { headers })).status).toBe(204);
        expect((await server.ask('DELETE', '/v1/blocks?ip=203.0.113.7', { headers })).status).toBe(404);
        expect((await from('203.0.113.7', '/room/global')).status).toBe(200);
        // A client with one IPv6 address can use every address of its network.
        expect((await from('2001:db8:1:2::')).status).toBe(200);
        for (let count = 1; count <= 10; count += 1)
          expect((await from(`2001:DB8:1:2:${count}::`)).status).toBe(429);
        expect([(await from('2001:db8:1:2::99')).status, (await from('2001:db8:1:3::')).status]).toEqual([
          403, 200,
        ]);
        expect((await server.get('/v1/blocks', headers)).json.items).toMatchObject([
          { ip: '2001:db8:1:2::/64' },
        ]);
        expect((await server.ask('DELETE', '/v1/blocks?ip=2001:db8:1:2::77', { headers })).status).toBe(204);
        expect((await server.ask('DELETE', '/v1/blocks?ip=2001:db8:1:2::/64', { headers })).status).toBe(404);
        for (const ip of ['%25', 'x', '%00', '203.0.113.7/64', '%25/64'])
          expect([ip, (await server.ask('DELETE', `/v1/blocks?ip=${ip}`, { headers })).status]).toEqual([
            ip,
            400,
          ]);
        const addresses = Array.from({ length: 5 }, (_, index) => `198.51.100.${index + 1}`);
        for (const address of addresses)
          await server.stoa.messaging.port.block({
            address,
            reason: 'load',
            expiresAtMs: Date.now() + 60_000,
          });
        const pages: string[][] = [];
        for (let cursor: string | null = ''; cursor !== null;) {
          const from: string = cursor === '' ? '' : `&cursor=${cursor}`;
          const { json } = await server.get(`/v1/blocks?limit=2${from}`, headers);
          pages.push(json.items.map(({ ip }) => ip));
          cursor = json.next_cursor;
        }
        expect(pages).toEqual([addresses.slice(0, 2), addresses.slice(2, 4), addresses.slice(4)]);
        expect((await server.get('/v1/blocks?cursor=other', headers)).status).toBe(400);
        // Loopback is never blocked, however often it is refused.
        for (let count = 0; count < 15; count += 1) await server.get('/channels');
        expect((await server.get('/room/global')).status).toBe(200);
      });
    });

    it('end only the streams and waits of the blocked address', async () => {
      await limited(
        { channelReadsPerMinuteMax: 1 },
        async (server) => {
          const ann = await server.agent();
          const [met, neighbour, exempt, other] = [
            '2001:db8:1:2::7',
            '2001:db8:1:2::8',
            '2001:db8:1:2::9',
            '203.0.113.7',
          ];
          const opened = await Promise.all([
            Stream.open(`${server.url}/room/global/stream`, forwardedFrom(met)),
            Stream.open(`${server.url}/stream?rooms=global`, forwardedFrom(neighbour)),
            Stream.open(`${server.url}/dm/stream`, { ...ann.headers(), ...forwardedFrom(met) }),
            Stream.open(`${server.url}/room/global/stream`, forwardedFrom(exempt)),
            Stream.open(`${server.url}/room/global/stream`, forwardedFrom(other)),
          ]);
          for (const stream of opened) await stream.until(1, ({ events }) => events);
          const waiting = server.get(`/room/global?after=${Date.now()}&wait=60`, forwardedFrom(met));
          for (let count = 0; count <= 10; count += 1) await server.get('/channels', forwardedFrom(met));
          const [ended, spared] = [opened.slice(0, 3), opened.slice(3)];
          while (!ended.every((stream) => stream.ended))
            await new Promise((resolve) => setTimeout(resolve, 5));
          await ann.post('global', 'not for the blocked');
          for (const stream of spared) await stream.until(1);
          isRefused(await waiting, 403, 'temporarily blocked');
          expect(ended.flatMap(({ messages }) => messages)).toEqual([]);
          for (const stream of spared) stream.close();
        },
        { messagingSettings: { ...settings, rateLimitAllow: ['2001:db8:1:2::9'] } },
      );
    });

    it('count every spelling of a path as the same path', async () => {
      await onServer(backend, { limits: { ...roomy, channelReadsPerMinuteMax: 2 } }, async (server) => {
        const statuses = [];
        for (const path of ['/channels', '/%63hannels', '/channel%73', '/channels?x', '/%63%68annels'])
          statuses.push((await server.get(path)).status);
        expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(2);
      });
    });

    it('ignore forwarding headers that do not come from a configured proxy', async () => {
      await onServer(backend, { limits: { ...roomy, channelReadsPerMinuteMax: 2 } }, async (server) => {
        const statuses = [];
        for (let index = 0; index < 4; index += 1) {
          const forged = {
            'x-forwarded-for': `198.51.100.${index}`,
            'x-real-ip': `198.51.100.${index}`,
            forwarded: `for=198.51.100.${index}`,
          };
          statuses.push((await server.get('/channels', forged)).status);
        }
        expect(statuses).toEqual([200, 200, 429, 429]);
      });
    });

    it('apply only the byte limit to addresses of the allow-list', async () => {
      await limited(
        { channelReadsPerMinuteMax: 1, messageBytesPerMinuteMax: 10 },
        async (server) => {
          const answers = [];
          for (let index = 0; index < 20; index += 1)
            answers.push(await server.get('/channels', { 'x-forwarded-for': '203.0.113.9' }));
          expect(
            answers.every(
              ({ status, headers }) => status === 200 && headers.get('x-ratelimit-limit') === null,
            ),
          ).toBe(true);
          const ann = await server.agent();
          expect((await ann.send('/room/global', { body: 'x'.repeat(11) })).status).toBe(429);
        },
        { messagingSettings: { ...settings, rateLimitAllow: ['203.0.113.0/24', '127.0.0.1'] } },
      );
    });

    it('count failed signatures and wrong room keys per address', async () => {
      await limited({ postsPerMinuteMax: 3, roomKeyGuessesPerMinuteMax: 2 }, async (server) => {
        const ann = await server.agent();
        const room = await server.room(ann, 'den', secret);
        const forged = () =>
          server.ask('POST', '/room/global', { raw: '{"body":"x"}', headers: ann.headers('{"body":"y"}') });
        const statuses = [];
        for (let index = 0; index < 5; index += 1) statuses.push((await forged()).status);
        expect(statuses).toEqual([401, 401, 401, 429, 429]);
        expect((await ann.send('/room/global', { body: 'x' })).status).toBe(201);
        const guess = (key: string) => server.get(`/room/${room}`, { 'x-aicq-room-key': key });
        const guesses = [];
        for (let index = 0; index < 4; index += 1)
          guesses.push((await guess(`wrong key number ${index}`)).status);
        expect(guesses).toEqual([403, 403, 429, 429]);
        const refused = await guess('yet another wrong key');
        expect([
          refused.headers.get('x-ratelimit-limit'),
          Number(refused.headers.get('retry-after')) > 30,
        ]).toEqual(['2', true]);
      });
    });
  });
}
