import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/operations/model.js';
import { Agent, type Answer, MessagingServer, Stream, roomy } from './kit.js';

const yearMs = 365 * 24 * 3_600_000;

const bodiesOf = ({ json }: Answer): string[] => json.messages.map(({ body }: { body: string }) => body);

describe.each(['lmdb', 'rocksdb'] as const)(
  'messages that a clock a year ahead has stamped, on %s',
  (engine) => {
    let data: string;
    let offsetMs: number;
    let server: MessagingServer;
    let ann: Agent;
    const clock = () => Date.now() + offsetMs;

    beforeEach(async () => {
      data = await mkdtemp(join(tmpdir(), 'stoa-clock-'));
      offsetMs = 0;
      // A sweep while the clock is ahead would remove the messages of the present.
      server = await MessagingServer.open({ data, engine, limits: roomy, clock, sweepIntervalMs: 3_600_000 });
      ann = await server.agent('Ann');
    });
    afterEach(async () => {
      await server.close();
      await rm(data, { recursive: true, force: true });
    });

    function ask(method: string, path: string, body?: object): Promise<Answer> {
      const raw = body === undefined ? '' : JSON.stringify(body);
      return server.ask(method, path, {
        ...(raw !== '' && { raw }),
        headers: ann.headers(raw, { timestamp: clock() }),
      });
    }

    async function post(path: string, body: string, pid?: string): Promise<{ id: string; ts: number }> {
      const { status, json } = await ask('POST', path, { body, ...(pid !== undefined && { pid }) });
      expect(status).toBe(201);
      return json;
    }

    async function doctor(repair: boolean): Promise<(Finding & { repaired: boolean })[]> {
      const { status, text } = await server.ask('POST', '/v1/doctor', {
        body: { repair },
        headers: { authorization: `Bearer ${server.stoa.operatorToken}` },
      });
      expect(status).toBe(200);
      return JSON.parse(text).findings;
    }

    it('are reported and repaired, with their order, threads, search, streams and expiry', async () => {
      const room = await server.room(ann);
      const quiet = await server.room(ann);
      await post(`/room/${room}`, 'early words');
      await post(`/dm/${ann.id}`, 'early letter');
      expect(await doctor(false)).toEqual([]);
      offsetMs = yearMs;
      const first = await post(`/room/${room}`, 'ahead words');
      const letter = await post(`/dm/${ann.id}`, 'ahead letter');
      offsetMs = 0;
      const answer = await post(`/room/${room}`, 'answer words', first.id);
      await post(`/dm/${ann.id}`, 'answer letter');
      await post(`/room/${quiet}`, 'busy again');
      const reader = await Stream.open(`${server.url}/room/${room}/stream?after=0`);
      await reader.until(3);

      const found = await doctor(false);
      expect(found.map(({ problem }) => problem).join('\n')).toContain('has a time in the future');
      expect(found.every(({ repaired }) => !repaired)).toBe(true);
      expect((await doctor(true)).every(({ repaired }) => repaired)).toBe(true);
      expect(await doctor(false)).toEqual([]);

      const page = await ask('GET', `/room/${room}`);
      expect(bodiesOf(page)).toEqual(['answer words', 'ahead words', 'early words']);
      for (const { ts } of page.json.messages) expect(ts).toBeLessThanOrEqual(Date.now() + 60_000);
      expect((await ask('GET', `/room/${room}/${first.id}`)).json.body).toBe('ahead words');
      expect(bodiesOf(await ask('GET', `/room/${room}/${answer.id}/thread`))).toEqual([
        'ahead words',
        'answer words',
      ]);
      const results = (await server.ask('GET', '/find?q=words')).json.results;
      expect(results.map(({ body }: { body: string }) => body)).toEqual([
        'answer words',
        'ahead words',
        'early words',
      ]);
      expect(bodiesOf(await ask('GET', '/dm'))).toEqual(['answer letter', 'ahead letter', 'early letter']);
      expect((await ask('POST', '/dm/ack', { ids: [letter.id] })).json).toEqual({ acknowledged: 1 });
      expect(bodiesOf(await ask('GET', '/dm?pending=1'))).toEqual(['early letter', 'answer letter']);
      // The reader was a year ahead; it continues with the next message.
      const next = await post(`/room/${room}`, 'later words');
      expect(next.ts).toBeLessThanOrEqual(Date.now() + 60_000);
      await reader.until(4);
      expect(reader.messages.at(-1)?.data.body).toBe('later words');
      reader.close();
      const [busiest] = (await server.ask('GET', '/channels')).json.channels;
      expect(busiest.id).toBe(room);
      expect((await ask('DELETE', `/room/${room}/${first.id}`)).status).toBe(204);

      offsetMs = 25 * 3_600_000;
      expect(bodiesOf(await ask('GET', `/room/${room}`))).toEqual([]);
    });
  },
);

it('requests and bytes that were counted a year ahead count for a minute, not for a year', async () => {
  let offsetMs = yearMs;
  const clock = () => Date.now() + offsetMs;
  const server = await MessagingServer.open({
    limits: { ...roomy, messageBytesPerMinuteMax: 10, postsPerMinuteMax: 2 },
    clock,
  });
  try {
    const ann = await server.agent();
    const post = async (body: string) => {
      const raw = JSON.stringify({ body });
      const headers = ann.headers(raw, { timestamp: clock() });
      return (await server.ask('POST', '/room/global', { raw, headers })).status;
    };
    expect(await post('ten bytes.')).toBe(201);
    offsetMs = 0;
    expect(await post('ten bytes.')).toBe(201);
    expect(await post('x')).toBe(429);
    offsetMs = 61_000;
    expect(await post('ten bytes.')).toBe(201);
  } finally {
    await server.close();
  }
});
