/** Messages expire after their time. */
import { bodiesOf } from '../kit/requests.js';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, roomy, onServer } from '../kit/server.js';
import { Stream } from '../kit/stream.js';

export function retentionTests({ describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`retention of messaging on ${backend.name}`, () => {
    it('hides a message as soon as it expires, and keeps the counters', async () => {
      let offsetMs = 0;
      const now = () => Date.now() + offsetMs;
      await onServer(
        backend,
        {
          limits: { ...roomy, messageRetentionSeconds: 3600, directRetentionSeconds: 7200 },
          clock: () => Date.now() + offsetMs,
        },
        async (server) => {
          const [ann, bob] = [await server.agent(), await server.agent()];
          const room = await server.room(ann);
          const ask = (agent: Agent, method: string, path: string, body?: unknown) => {
            const raw = body === undefined ? '' : JSON.stringify(body);
            return server.ask(method, path, {
              ...(raw !== '' && { raw }),
              headers: agent.headers(raw, { timestamp: now() }),
            });
          };
          const { id } = (await ask(ann, 'POST', `/room/${room}`, { body: 'ephemeral words' })).json;
          await ask(ann, 'POST', '/room/global', { body: 'ephemeral too' });
          await ask(ann, 'POST', `/dm/${bob.id}`, { body: 'letter' });
          offsetMs = 1_800_000;
          await ask(ann, 'POST', `/room/${room}`, { body: 'later words', pid: id });
          const bodies = async () => bodiesOf(await server.get(`/room/${room}`));
          expect(await bodies()).toEqual(['later words', 'ephemeral words']);
          offsetMs = 3_601_000;
          expect(await bodies()).toEqual(['later words']);
          expect((await server.get(`/room/${room}/${id}`)).status).toBe(404);
          expect(bodiesOf(await server.get(`/room/${room}/${id}/thread`))).toEqual(['later words']);
          expect((await server.get('/stats')).json.recent_messages).toEqual([]);
          const stream = await Stream.open(`${server.url}/room/${room}/stream`, { 'last-event-id': '1' });
          await stream.until(1);
          expect(stream.messages.map(({ data }) => data.body)).toEqual(['later words']);
          stream.close();
          expect((await server.get(`/room/${room}?after=1`)).json.messages).toHaveLength(1);
          expect((await server.get('/find?q=words')).json.results.map(({ body }) => body)).toEqual([
            'later words',
          ]);
          expect((await ask(ann, 'POST', `/room/${room}`, { body: 'x', pid: id })).json).toEqual({
            error: 'parent message not found in this room',
          });
          expect((await ask(bob, 'GET', '/dm')).json.messages).toHaveLength(1);
          offsetMs = 7_201_000;
          expect(await bodies()).toEqual([]);
          expect((await ask(bob, 'GET', '/dm')).json.messages).toEqual([]);
          expect((await ask(bob, 'GET', '/dm?pending=1')).json.messages).toEqual([]);
          const { channels } = (await server.get('/channels')).json;
          expect(channels.find((channel) => channel.id === room)?.message_count).toBe(2);
        },
      );
    });

    it('accepts messages after the clock was set back, with increasing times', async () => {
      let offsetMs = 0;
      const clock = () => Date.now() + offsetMs;
      const year = 365 * 24 * 3_600_000;
      let backMs = 0;
      await onServer(
        backend,
        {
          limits: roomy,
          clock,
        },
        async (server) => {
          const ann = await server.agent();
          const room = await server.room(ann);
          const ask = (method: string, path: string, body?: object) => {
            const raw = body === undefined ? '' : JSON.stringify(body);
            return server.ask(method, path, {
              ...(raw !== '' && { raw }),
              headers: ann.headers(raw, { timestamp: clock() }),
            });
          };
          for (const path of [`/room/${room}`, `/dm/${ann.id}`]) {
            offsetMs = year;
            const ahead = await ask('POST', path, { body: 'ahead words' });
            expect(ahead.status).toBe(201);
            // Not to the very time of earlier signatures, whose nonces may be forgotten now.
            offsetMs = backMs += 600_000;
            const times: number[] = [ahead.json.ts];
            for (const body of ['one', 'two', 'three']) {
              const { status, json } = await ask('POST', path, { body });
              expect([body, status]).toEqual([body, 201]);
              times.push(json.ts);
            }
            expect(times).toEqual(Array.from(times, (_, index) => ahead.json.ts + index));
          }
          const page = await ask('GET', `/room/${room}?after=0`);
          expect(page.json.messages.map(({ body }) => body)).toEqual(['three', 'two', 'one', 'ahead words']);
        },
      );
    });
  });

  it(`re-keying reaches every identity that the server keeps on ${backend.name}, a few at a time`, async () => {
    await onServer(backend, { limits: { ...roomy, workspaceStepRowsMax: 2 } }, async (server) => {
      const post = async (agent: string) =>
        (
          await server.send(
            '/room/global',
            { body: 'x' },
            { authorization: `Bearer ${server.stoa.operatorToken}`, 'stoa-agent': agent },
          )
        ).status;
      for (const agent of ['a', 'b', 'c', 'd', 'e']) expect(await post(agent)).toBe(201);
      const { messaging, secrets } = server.stoa;
      const resealed = await messaging.port.resealKept((sealed, owner) =>
        secrets.sealer.seal(secrets.sealer.open(sealed, owner), owner),
      );
      expect(resealed).toBe(5);
      for (const agent of ['a', 'b', 'c', 'd', 'e']) expect(await post(agent)).toBe(201);
    });
  });
}
