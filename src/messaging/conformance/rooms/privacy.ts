/** Private rooms stay private on every backend: every way to read a room is tried without its key. */
import { randomUUID } from 'node:crypto';
import type { TestRunner } from '../../../core/test-runner.js';
import { operatorCaller } from '../../../core/caller.js';
import { type Backend, type Agent, type MessagingServer } from '../kit/server.js';
import { Stream } from '../kit/stream.js';

const secret = 'a key of sixteen or more';
const withKey = { 'x-aicq-room-key': secret };

export function privacyTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`private rooms on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;
    let mallory: Agent;
    let room: string;
    let user: Record<string, string>;

    beforeAll(async () => {
      server = await backend.open();
      [ann, mallory] = [await server.agent('Ann'), await server.agent('Mallory')];
      room = await server.room(ann, 'den', secret);
      user = {
        authorization: `Bearer ${(await server.stoa.identity.createToken(operatorCaller(), 'ada', {}, null)).token}`,
      };
    });
    afterAll(() => server.close());

    it('need their key for pages, messages, threads and streams, for every kind of caller', async () => {
      const { id } = await ann.post(room, 'inside', {}, withKey);
      const paths = [
        `/room/${room}`,
        `/room/${room}?after=1&wait=5`,
        `/room/${room}?verify=1`,
        `/room/${room}/${id}`,
        `/room/${room}/${id}/thread`,
        `/room/${room}/stream?after=1`,
        `/stream?rooms=${room}`,
        `/stream?rooms=global,${room}&after=1`,
      ];
      for (const path of paths) {
        const ask = async (headers: Record<string, string>) => {
          const { status, json } = await server.get(path, headers);
          return [status, json];
        };
        for (const headers of [{}, user, mallory.headers(), ann.headers()])
          expect(await ask(headers), path).toEqual([403, { error: 'room key required for private rooms' }]);
      }
      for (const path of paths) {
        const answer = await fetch(server.url + path, { headers: withKey });
        expect(answer.status, path).toBe(200);
        await answer.body?.cancel();
      }
      expect((await mallory.send(`/room/${room}`, { body: 'x', pid: id })).status).toBe(403);
    });

    it('are not in the streams and feeds of others', async () => {
      const word = `whisper${randomUUID().replaceAll('-', '')}`;
      const streams = await Promise.all([
        Stream.open(`${server.url}/room/global/stream`),
        Stream.open(`${server.url}/stream?rooms=global`, mallory.headers()),
        Stream.open(`${server.url}/dm/stream`, mallory.headers()),
        Stream.open(`${server.url}/v1/changes`, { ...user, accept: 'text/event-stream' }),
      ]);
      await Promise.all(streams.map((stream) => stream.until(1, ({ events }) => events)));
      const { id } = await ann.post(room, word, {}, withKey);
      await ann.ask('DELETE', `/room/${room}/${id}`);
      await ann.post(room, word, {}, withKey);
      // A message that all readers get. When it has arrived, earlier messages have arrived too.
      const open = await ann.post('global', 'aloud');
      await ann.send(`/dm/${mallory.id}`, { body: 'a letter' });
      await Promise.all(streams.slice(0, 3).map((stream) => stream.until(1)));
      await streams[3]?.until(1, ({ events }) =>
        events.filter(({ data }) => JSON.stringify(data).includes(open.id)),
      );
      for (const stream of streams) {
        const heard = JSON.stringify(stream.events);
        for (const hidden of [word, room, id]) expect(heard).not.toContain(hidden);
        stream.close();
      }
    });

    it('have their key hash read once, not for each request', async () => {
      const { port } = server.stoa.messaging;
      const read = port.roomKeyHash.bind(port);
      let asked = 0;
      port.roomKeyHash = (id) => {
        asked += 1;
        return read(id);
      };
      const other = await server.room(ann, 'den2', secret);
      for (let count = 0; count < 3; count += 1)
        expect((await server.get(`/room/${other}`, withKey)).status).toBe(200);
      port.roomKeyHash = read;
      expect(asked).toBe(1);
    });
  });
}
