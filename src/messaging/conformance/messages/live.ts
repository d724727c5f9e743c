/** Streams and waits on every backend, from any position, and while messages are deleted. */
import { type TestRunner, eventually } from '../../../core/test-runner.js';
import { type Backend, type Agent, MessagingServer, roomy, onServer } from '../kit/server.js';
import { Stream } from '../kit/stream.js';

/** Later than any time that fits into six bytes. */
const farFuture = 999_999_999_999_999;

export function liveTests({ afterAll, beforeAll, describe, expect, it }: TestRunner, backend: Backend): void {
  describe(`streams and waits on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    /** The server answers, several times in a row. */
    async function answers(): Promise<void> {
      for (let count = 0; count < 5; count += 1) expect((await server.get('/livez')).status).toBe(200);
    }

    function stream(path: string, headers: Record<string, string> = {}): Promise<Stream> {
      return Stream.open(`${server.url}${path}`, headers);
    }

    it('a position in the far future stops neither the server nor other readers', async () => {
      const room = await server.room(ann);
      await ann.post(room, 'one');
      const ahead = await stream(`/room/${room}/stream?after=${farFuture}`);
      const waiting = server.get(`/room/${room}?after=${farFuture}&wait=1`);
      const beside = await stream(`/room/${room}/stream?after=1`);
      await beside.until(1);
      await answers();
      const { ts } = await ann.post(room, 'two');
      await beside.until(2);
      expect(beside.messages.map(({ data }) => data.body)).toEqual(['one', 'two']);
      expect((await waiting).json.messages).toEqual([]);
      // No message can be after such a position, so the stream begins with the next message.
      await ahead.until(1);
      expect(ahead.messages.map(({ id }) => id)).toEqual([String(ts)]);
      ahead.close();
      beside.close();
    });

    it('a position in the far future stops no other reader of an inbox', async () => {
      const bob = await server.agent('Bob');
      const send = (body: string) => ann.send(`/dm/${bob.id}`, { body });
      await send('one');
      const ahead = await stream(`/dm/stream?after=${farFuture}`, bob.headers());
      const waiting = bob.get(`/dm?after=${farFuture}&wait=1`);
      const beside = await stream('/dm/stream?after=1', bob.headers());
      await beside.until(1);
      await answers();
      await send('two');
      await beside.until(2);
      await ahead.until(1);
      expect((await waiting).json.messages).toEqual([]);
      expect(beside.messages.map(({ data }) => data.body)).toEqual(['one', 'two']);
      ahead.close();
      beside.close();
    });

    it('a second reader can start after the newest message was deleted', async () => {
      const room = await server.room(ann);
      await ann.post(room, 'stays');
      const first = await stream(`/room/${room}/stream?after=1`);
      const { id } = await ann.post(room, 'goes');
      await first.until(2);
      expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
      const second = await stream(`/room/${room}/stream?after=1`);
      const third = await stream(`/room/${room}/stream`);
      const waiting = server.get(`/room/${room}?after=${farFuture}&wait=1`);
      await second.until(1);
      await answers();
      await ann.post(room, 'comes');
      await Promise.all([first.until(3), second.until(2), third.until(1)]);
      expect(second.messages.map(({ data }) => data.body)).toEqual(['stays', 'comes']);
      expect(third.messages.map(({ data }) => data.body)).toEqual(['comes']);
      await waiting;
      for (const each of [first, second, third]) each.close();
    });

    it('a stop ends waits for rooms, inboxes and pending messages at once', async () => {
      const own = await backend.open({ limits: { ...roomy, longPollSecondsMax: 3_600 } });
      const eve = await own.agent();
      const room = await own.room(eve);
      const waits = [
        own.get(`/room/${room}?after=1&wait=3600`),
        eve.get('/dm?after=1&wait=3600'),
        eve.get('/dm?pending=1&wait=3600'),
      ];
      await eventually(
        () => own.stoa.messaging.hub.waiting,
        (waiting) => waiting === 3,
      );
      await own.stop(3_600);
      for (const { status, json } of await Promise.all(waits)) {
        expect(status).toBe(200);
        expect(json.messages).toEqual([]);
      }
      await own.stoa.close();
    });
  });

  describe(`streams while messages expire on ${backend.name}`, () => {
    it('an open stream continues after its last message has expired', async () => {
      let offsetMs = 0;
      const clock = () => Date.now() + offsetMs;
      await onServer(
        backend,
        {
          limits: { ...roomy, messageRetentionSeconds: 3_600, directRetentionSeconds: 3_600 },
          clock,
        },
        async (server) => {
          const ann = await server.agent();
          const post = (path: string, text: string) => {
            const raw = JSON.stringify({ body: text });
            return server.ask('POST', path, { raw, headers: ann.headers(raw, { timestamp: clock() }) });
          };
          const follow = (path: string) =>
            Stream.open(`${server.url}${path}`, ann.headers('', { timestamp: clock() }));
          for (const [place, path] of [
            [`/room/${await server.room(ann)}`, undefined],
            [`/dm/${ann.id}`, '/dm/stream'],
          ] as const) {
            const streamPath = path ?? `${place}/stream`;
            const first = await follow(streamPath);
            expect((await post(place, 'old')).status).toBe(201);
            await first.until(1);
            offsetMs += 7_200_000;
            const second = await follow(streamPath);
            expect((await server.get('/livez')).status).toBe(200);
            expect((await post(place, 'new')).status).toBe(201);
            await Promise.all([first.until(2), second.until(1)]);
            first.close();
            second.close();
          }
        },
      );
    });
  });
}
