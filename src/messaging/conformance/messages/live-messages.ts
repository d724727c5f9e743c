/** Streams and long polls. */
import { type TestRunner, eventually } from '../../../core/test-runner.js';
import { type Agent, type Backend, type MessagingServer } from '../kit/server.js';
import { Stream } from '../kit/stream.js';
import { credentials, refusals, bodiesOf } from '../kit/requests.js';

export function liveMessageTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  const isRefused = refusals(expect);

  describe(`streams of messages on ${backend.name}`, () => {
    let server: MessagingServer;
    let ann: Agent;

    beforeAll(async () => {
      server = await backend.open();
      ann = await server.agent('Ann');
    });
    afterAll(() => server.close());

    it('a room stream continues from Last-Event-ID without a gap and without a repeat', async () => {
      const room = await server.room(ann);
      await ann.post(room, 'before');
      const first = await Stream.open(`${server.url}/room/${room}/stream`);
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
      const second = await Stream.open(`${server.url}/room/${room}/stream`, { 'last-event-id': lastId });
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
      const room = await server.room(ann);
      const { id } = await ann.post(room, 'soon gone');
      const stream = await Stream.open(`${server.url}/room/${room}/stream?after=1`);
      await stream.until(1);
      await ann.ask('DELETE', `/room/${room}/${id}`);
      await stream.until(1, ({ events }) => events.filter(({ event }) => event === 'deleted'));
      expect(stream.events.find(({ event }) => event === 'deleted')?.data).toEqual({ room_id: room, id });
      stream.close();
    });

    it('several rooms share a stream that can be resumed', async () => {
      const [one, two] = [await server.room(ann), await server.room(ann)];
      const stream = await Stream.open(`${server.url}/stream?rooms=${one},${two}&after=1`);
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
      const again = await Stream.open(`${server.url}/stream?rooms=${one},${two}`, {
        'last-event-id': stream.messages[1]?.id as string,
      });
      await again.until(2);
      expect(again.messages.map(({ data }) => data.body).toSorted()).toEqual(['c', 'd']);
      again.close();
      isRefused(await server.get('/stream'), 400, "query parameter 'rooms' is required");
    });

    it('a stream of several rooms names the room of each message, also while others read that room', async () => {
      const room = await server.room(ann);
      const urls = [
        `/room/${room}/stream?after=1`,
        `/stream?rooms=${room}&after=1`,
        `/room/${room}/stream?after=1&verify=1`,
        `/stream?rooms=${room}&after=1&verify=1`,
      ];
      const streams = await Promise.all([...urls, ...urls].map((path) => Stream.open(server.url + path)));
      await Promise.all(streams.map((stream) => stream.until(1, ({ events }) => events)));
      const { id, ts } = await ann.post(room, 'to all of them');
      await Promise.all(streams.map((stream) => stream.until(1)));
      const said = { id, from: ann.id, body: 'to all of them', ts };
      const verified = { ...said, sig: expect.any(String), proof: expect.any(Object) };
      const expected = [said, { room_id: room, ...said }, verified, { room_id: room, ...verified }];
      expect(streams.map(({ messages }) => messages[0]?.data)).toEqual([...expected, ...expected]);
      for (const stream of streams) stream.close();
    });

    it('an inbox stream starts with the pending messages, and only its owner can open it', async () => {
      const eve = await server.agent();
      await ann.send(`/dm/${eve.id}`, { body: 'waiting' });
      const stream = await Stream.open(`${server.url}/dm/stream?pending=1`, eve.headers());
      await stream.until(1);
      await ann.send(`/dm/${eve.id}`, { body: 'fresh' });
      await stream.until(2);
      expect(stream.messages.map(({ data }) => data.body)).toEqual(['waiting', 'fresh']);
      stream.close();
      expect((await Stream.open(`${server.url}/dm/stream`)).status).toBe(401);
    });

    it('a long poll returns as soon as a message arrives', async () => {
      const room = await server.room(ann);
      const { ts } = await ann.post(room, 'known');
      const waiting = server.get(`/room/${room}?after=${ts}&wait=30`);
      await ann.post(room, 'news');
      expect(bodiesOf(await waiting)).toEqual(['news']);
      const eve = await server.agent();
      const inbox = eve.get('/dm?pending=1&wait=30');
      await ann.send(`/dm/${eve.id}`, { body: 'for you' });
      expect(bodiesOf(await inbox)).toEqual(['for you']);
      expect((await server.get(`/room/${room}?after=${Date.now() + 50_000}&wait=1`)).json.messages).toEqual(
        [],
      );
      // A caller that has disconnected is not waited for.
      expect(
        await server.stoa.messaging.hub.wait(
          { kind: 'room', id: room, room: { id: room, owner: null, retentionSeconds: null } },
          Date.now() + 50_000,
          3_600_000,
          AbortSignal.abort(),
        ),
      ).toBe(false);
    });

    it('an agent that waits before it has an inbox gets its first message', async () => {
      const as = (agent: string) => credentials(server, 'ada', agent);
      const [sender, ...names] = ['sender', 'reads', 'pends', 'streams'];
      for (const agent of names)
        await server.ask('PUT', `/v1/data/notes/${agent}`, { headers: await as(agent), body: { value: 1 } });
      const reads = server.get('/v1/inbox?after=1970-01-01T00:00:00Z&wait=30', await as('reads'));
      const pends = server.get('/v1/inbox?pending=true&wait=30', await as('pends'));
      const events = { ...(await as('streams')), accept: 'text/event-stream' };
      const stream = await Stream.open(`${server.url}/v1/inbox`, events);
      await stream.until(1, ({ events: got }) => got);
      for (const to of names) await server.send('/v1/inbox', { to, body: 'the first' }, await as(sender!));
      for (const answer of [await reads, await pends])
        expect(answer.json.items.map(({ body }) => body)).toEqual(['the first']);
      // The stream ends, and its reader connects again from its position.
      await eventually(() => stream.ended, Boolean);
      const again = await Stream.open(`${server.url}/v1/inbox`, {
        ...events,
        'last-event-id': stream.events.at(-1)!.id!,
      });
      await again.until(1);
      expect(again.messages.map(({ data }) => data.body)).toEqual(['the first']);
      again.close();
    });
  });
}
