/** Search. */
import { randomUUID } from 'node:crypto';
import { type TestRunner } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { refusal, refusals } from '../kit/requests.js';

export function searchTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`search on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    it('finds messages that contain all words, newest first, in every script', async () => {
      const tag = `t${randomUUID().slice(0, 8)}`;
      const room = await server.room(ann);
      const one = await ann.post(room, `${tag} Hello, WORLD`);
      const two = await ann.post('global', `${tag} hello again`);
      const three = await ann.post(room, `${tag} 機械学習のモデル привет_мир`);
      const find = async (query: string) => (await server.get(`/find?q=${encodeURIComponent(query)}`)).json;
      const ids = async (query: string) => (await find(query)).results.map(({ id }) => id);
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
      const [here, there] = [await server.room(ann), await server.room(ann)];
      const old = await ann.post(here, `${tag} old`);
      const wanted = await ann.post(here, `${tag} wanted`);
      for (let index = 0; index < 5; index += 1) await ann.post(there, `${tag} elsewhere ${index}`);
      const ids = async (query: string) =>
        (await server.get(`/find?q=${tag}&${query}`)).json.results.map(({ id }) => id);
      expect(await ids(`room=${here}&limit=1`)).toEqual([wanted.id]);
      expect(await ids(`room=${here}`)).toEqual([wanted.id, old.id]);
      expect(await ids(`room=${here}&after=${old.ts}`)).toEqual([wanted.id]);
      expect(await ids(`after=${wanted.ts}&limit=3`)).toHaveLength(3);
      expect(await ids('room=global')).toEqual([]);
    });

    it('refuses invalid queries, and finds nothing without an indexed word', async () => {
      isRefused(await server.get('/find'), 400, "query parameter 'q' is required");
      isRefused(await server.get(`/find?q=${'x'.repeat(101)}`), 400, 'query too long (max 100 chars)');
      isRefused(await server.get('/find?q=hello&room=x'), 400, 'invalid room ID format');
      expect(refusal(await server.get('/find?q=a+b'))).toEqual([
        200,
        { query: 'a b', results: [], total: 0 },
      ]);
    });
  });
}
