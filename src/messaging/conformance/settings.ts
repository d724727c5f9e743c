/** Settings of messaging on every backend: AICQ's rates, pages and signatures by default. */
import type { TestRunner } from '../../core/test-runner.js';
import { globalRoomId } from '../identities/uuid.js';
import { type Backend, Agent, type Answer, type MessagingServer, roomy, withServer } from './kit/server.js';
import { writtenPort } from './kit/written-port.js';

/** The limits that AICQ's clients are written for. */
const defaults: readonly (readonly [
  endpoint: string,
  limit: string,
  window: 'minute' | 'hour',
  ask: (server: MessagingServer, agent: Agent) => Promise<Answer>,
])[] = [
  ['register', '10', 'hour', (server, agent) => server.send('/register', { public_key: agent.publicKey })],
  ['who', '100', 'minute', (server, agent) => server.get(`/who/${agent.id}`)],
  ['channels', '60', 'minute', (server) => server.get('/channels')],
  ['find', '30', 'minute', (server) => server.get('/find?q=word')],
  ['make a room', '10', 'hour', (_server, agent) => agent.send('/room', { name: 'den' })],
  ['read a room', '120', 'minute', (_server, agent) => agent.get('/room/global')],
  ['post', '30', 'minute', (_server, agent) => agent.send('/room/global', { body: 'x' })],
  ['send', '60', 'minute', (_server, agent) => agent.send(`/dm/${agent.id}`, { body: 'x' })],
  ['read letters', '60', 'minute', (_server, agent) => agent.get('/dm')],
  [
    'delete',
    '30',
    'minute',
    (_server, agent) => agent.ask('DELETE', '/room/global/01M7H68RNNJZ4WPEMP372KEKHH'),
  ],
];

export function settingsTests({ describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`settings of messaging on ${backend.name}`, () => {
    it("have AICQ's rates unless they say otherwise", async () => {
      await withServer(backend, { limits: {} }, async (server, agent) => {
        for (const [endpoint, limit, window, ask] of defaults) {
          const { headers } = await ask(server, agent);
          const seconds = Number(headers.get('x-ratelimit-reset')) - Date.now() / 1000;
          expect([endpoint, headers.get('x-ratelimit-limit'), seconds > 61 ? 'hour' : 'minute']).toEqual([
            endpoint,
            limit,
            window,
          ]);
        }
      });
    });

    it("have AICQ's pages unless a request says otherwise, and the busiest rooms in AICQ's order", async () => {
      await withServer(backend, {}, async (server, agent) => {
        const port = writtenPort(server.stoa.messaging);
        const post = (roomId: string, count: number) =>
          Promise.all(
            Array.from({ length: count }, () =>
              port.post({
                roomId,
                from: agent.id,
                body: 'many words',
                parentId: null,
                proof: null,
                serverSigned: false,
              }),
            ),
          );
        const rooms = await Promise.all(
          Array.from({ length: 100 }, (_, index) =>
            port.createRoom({
              name: `room${index}`,
              isPrivate: false,
              keyHash: null,
              owner: null,
              retentionSeconds: null,
              createdBy: agent.id,
            }),
          ),
        );
        await post(globalRoomId, 201);
        await Promise.all(
          Array.from({ length: 101 }, () =>
            port.send({ to: agent.id, from: agent.id, body: 'x', proof: null, serverSigned: false }),
          ),
        );
        const size = async (path: string, list: 'messages' | 'channels' | 'results') => {
          const { json } = await (path.startsWith('/dm') ? agent.get(path) : server.get(path));
          return [json[list].length, json.has_more];
        };
        expect([
          await size('/room/global', 'messages'),
          await size('/room/global?limit=9999', 'messages'),
        ]).toEqual([
          [50, true],
          [200, true],
        ]);
        expect([await size('/dm', 'messages'), await size('/dm?limit=9999', 'messages')]).toEqual([
          [100, true],
          [100, true],
        ]);
        expect([await size('/channels', 'channels'), await size('/channels?limit=9999', 'channels')]).toEqual(
          [
            [20, undefined],
            [100, undefined],
          ],
        );
        expect([
          await size('/find?q=words', 'results'),
          await size('/find?q=words&limit=9999', 'results'),
        ]).toEqual([
          [20, undefined],
          [100, undefined],
        ]);
        expect((await server.get('/find?q=many+words')).json.total).toBe(20);
        // Each message is a little later than the one before.
        for (const [index, room] of rooms.slice(0, 5).entries()) {
          await post(room.id, index === 2 ? 3 : 2);
          const postedMs = Date.now();
          while (Date.now() === postedMs) await new Promise((resolve) => setImmediate(resolve));
        }
        const { top_channels: top, recent_messages: recent } = (await server.get('/stats')).json;
        expect(top).toEqual([
          { id: globalRoomId, name: 'global', message_count: 201 },
          ...[2, 4, 3, 1].map((index) => ({
            id: rooms[index]?.id,
            name: `room${index}`,
            message_count: index === 2 ? 3 : 2,
          })),
        ]);
        expect(recent).toHaveLength(5);
      });
    });

    it('limit requests by address before a signature is verified', async () => {
      await withServer(
        backend,
        { limits: { ...roomy, addressRequestsPerMinuteMax: 4 } },
        async (server, agent) => {
          const forged = { ...agent.headers('{}'), 'x-aicq-signature': 'AAAA' };
          const statuses = [];
          for (let index = 0; index < 5; index += 1) statuses.push((await server.get('/dm', forged)).status);
          // The registration was the first of the four.
          expect(statuses).toEqual([401, 401, 401, 429, 429]);
          expect((await agent.get('/dm')).json).toEqual({ error: 'rate limit exceeded' });
          expect((await server.get('/health')).status).toBe(200);
        },
      );
    });

    it('can require RFC 9421 and then refuse other signatures', async () => {
      await withServer(
        backend,
        { messagingSettings: { requireMessageSignatures: true } },
        async (server, agent) => {
          const body = '{"body":"x"}';
          const post = async (headers: Record<string, string>) =>
            (await server.ask('POST', '/room/global', { raw: body, headers })).json;
          expect(await post(agent.headers(body))).toEqual({
            error: 'this server requires RFC 9421 message signatures',
          });
          expect(await post(agent.messageSignature('POST', '/room/global', body))).toMatchObject({
            ts: expect.any(Number),
          });
        },
      );
    });
  });
}
