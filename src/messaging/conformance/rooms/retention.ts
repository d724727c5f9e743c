/** Messages expire after their time. */
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, roomy } from '../kit/desk.js';
import { Stream } from '../kit/stream.js';

export function retentionTests({ describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`retention of messaging on ${backend.name}`, () => {
    it('hides a message as soon as it expires, and keeps the counters', async () => {
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

    it('accepts messages after the clock was set back, with increasing times', async () => {
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

  it(`re-keying reaches every identity that the server keeps on ${backend.name}, a few at a time`, async () => {
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
      const { messaging, secrets } = desk.stoa;
      const resealed = await messaging.port.resealKept((sealed, owner) =>
        secrets.sealer.seal(secrets.sealer.open(sealed, owner), owner),
      );
      expect(resealed).toBe(5);
      for (const agent of ['a', 'b', 'c', 'd', 'e']) expect(await post(agent)).toBe(201);
    } finally {
      await desk.close();
    }
  });
}
