/** Watches of rooms, and readers that return late or read slowly. */
import { kernelOf } from '../../kernel-of.js';
import { expect, test } from 'vitest';
import { AgentKeys, Stoa } from '../../../src/client/index.js';
import { Running } from '../../server/running.js';
import { Watched } from './watched.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';
import { useWatchedServer } from './watched-server.js';
import { eventually } from '../../until.js';

const server = useWatchedServer();

test('a room: its newest messages, then new and deleted ones, also of the time without a connection', async () => {
  const author = new Stoa({ url: server.running.url }).agent(await AgentKeys.generate());
  await author.register({ name: 'author' });
  const { id } = await author.rooms.create({ name: 'watched-room', public: true });
  const room = author.room(id);
  const posted = [await room.post('one'), await room.post('two')];
  const through = await server.clientOf('ada', { url: server.gate.url });
  const watched = await new Watched((signal) => through.watch({ room: { id }, signal })).live();
  expect(watched.snapshot.map(({ body }) => body)).toEqual(['one', 'two']);
  await room.post('three');
  await eventually(() =>
    expect(watched.changes).toMatchObject([{ kind: 'message', message: { body: 'three' } }]),
  );
  await server.gate.close();
  await room.delete(posted[0]?.id ?? '');
  await room.post('four');
  await server.gate.open();
  await eventually(() => expect(watched.changes).toHaveLength(3));
  expect(watched.changes.slice(1)).toEqual(
    expect.arrayContaining([
      { kind: 'deleted', id: posted[0]?.id },
      { kind: 'message', message: expect.objectContaining({ body: 'four' }) },
    ]),
  );
  await room.delete(posted[1]?.id ?? '');
  await eventually(() => expect(watched.changes.at(-1)).toEqual({ kind: 'deleted', id: posted[1]?.id }));
  const { position } = watched.events.findLast((event) => event.kind === 'changes') ?? {};
  await watched.stop();
  await room.post('five');
  const resumed = await new Watched((signal) =>
    through.watch({ room: { id }, since: position, signal }),
  ).live();
  await eventually(() =>
    expect(resumed.changes).toMatchObject([{ kind: 'message', message: { body: 'five' } }]),
  );
  expect(resumed.snapshot).toEqual([]);
  await resumed.stop();
});

test('a reader that returns too late, or was too slow, gets a resync and a new snapshot', async () => {
  const small = await Running.start({
    limits: { feedBytesMax: 20_000, streamHeartbeatSeconds: 0.05, streamStallSecondsMax: 0.2 },
  });
  try {
    const stoa = new Stoa({ url: small.url, token: small.alice, retryDelayMs: 5 });
    const data = stoa.data<number>('n');
    await data.set('k', 1);
    const old = await small.stoa.changes.newest();
    const flood = async () => {
      const id = 'x'.repeat(1_000);
      for (let made = 0; made < 40; made += 1) {
        await kernelOf(small.stoa).root.transact((tx) => {
          for (let change = 0; change < 1_000; change += 1)
            tx.change({
              domain: 'data',
              kind: 'document.set',
              id,
              user: 'alice',
              version: 1,
              facts: { namespace: 'n', key: 'flood' },
            });
        });
      }
      await kernelOf(small.stoa).trim();
    };
    await flood();
    const late = new Watched((signal) => stoa.watch({ data: { namespace: 'n' }, since: old, signal }));
    await late.live();
    expect(late.events.slice(0, 3)).toMatchObject([
      { kind: 'resync' },
      { kind: 'snapshot', items: [{ key: 'k' }] },
      { kind: 'live' },
    ]);
    await late.stop();

    // This reader stops reading; the server keeps neither its events nor its stream.
    const stop = new AbortController();
    const slow = stoa.watch({ data: { namespace: 'n' }, signal: stop.signal });
    const kinds: string[] = [];
    while (kinds.at(-1) !== 'live') kinds.push(String((await slow.next()).value?.kind));
    await data.set('k', 2);
    expect((await slow.next()).value).toMatchObject({ kind: 'changes', items: [{ key: 'k', version: 2 }] });
    expect(small.app.stoaServer.streams.count).toBe(1);
    while (small.app.stoaServer.streams.count > 0) await flood();
    while (kinds.at(-1) !== 'resync') kinds.push(String((await slow.next()).value?.kind));
    expect((await slow.next()).value).toMatchObject({ kind: 'snapshot', items: [{ key: 'k' }] });
    stop.abort();
    await slow.return(undefined);
  } finally {
    await small.stop();
  }
}, 60_000);

test('a reader of a room learns which of its messages were deleted while it was disconnected', async () => {
  const author = new Stoa({ url: server.running.url }).agent(await AgentKeys.generate());
  await author.register({ name: 'author' });
  const { id: roomId } = await author.rooms.create({ name: 'long', public: true });
  const post = async (count: number) => {
    const ids: string[] = [];
    for (let made = 0; made < count; made += 1)
      ids.push(
        (
          await writtenPort(server.running.stoa.messaging).post({
            roomId,
            from: author.id,
            body: String(made),
            parentId: null,
            proof: null,
            serverSigned: false,
          })
        ).id,
      );
    return ids;
  };
  const early = await post(50);
  const through = await server.clientOf('ada', { url: server.gate.url });
  const watched = await new Watched((signal) => through.watch({ room: { id: roomId }, signal })).live();
  const later = await post(650);
  await eventually(() => expect(watched.changes).toHaveLength(650));
  await server.gate.close();
  const gone = [early[3], later[0], later[300], later.at(-1)].map(String);
  for (const id of gone) await author.room(roomId).delete(id);
  await server.gate.open();
  await eventually(() =>
    expect(watched.changes.slice(650)).toEqual(gone.map((id) => ({ kind: 'deleted', id }))),
  );
  await watched.stop();
}, 60_000);

test('a reader of a room that is far behind gets everything over one connection', async () => {
  const small = await Running.start({
    limits: { messageBytesMax: 60_000, messageBytesPerMinuteMax: 1e9, streamBufferBytesMax: 100_000 },
  });
  try {
    const author = new Stoa({ url: small.url }).agent(await AgentKeys.generate());
    await author.register({ name: 'author' });
    const { id: roomId } = await author.rooms.create({ name: 'far', public: true });
    for (let made = 0; made < 250; made += 1)
      await writtenPort(small.stoa.messaging).post({
        roomId,
        from: author.id,
        body: `${made} ${'x'.repeat(20_000)}`,
        parentId: null,
        proof: null,
        serverSigned: false,
      });
    let connections = 0;
    const counted: typeof fetch = (input, init) => {
      if (String(input).includes('/messages')) connections += 1;
      return fetch(input, init);
    };
    const behind = new Watched((signal) =>
      new Stoa({ url: small.url, token: small.alice, fetch: counted }).watch({
        room: { id: roomId },
        since: '1',
        signal,
      }),
    );
    await eventually(() => expect(behind.changes).toHaveLength(250));
    expect(
      behind.changes.map((change) =>
        change.kind === 'message' ? Number.parseInt(change.message.body, 10) : change.kind,
      ),
    ).toEqual(Array.from({ length: 250 }, (_, index) => index));
    expect(connections).toBe(1);
    await behind.stop();
  } finally {
    await small.stop();
  }
}, 60_000);

test('a reader of a room that stops reading is disconnected, and still gets every message once', async () => {
  const small = await Running.start({
    limits: {
      messageBytesMax: 60_000,
      messageBytesPerMinuteMax: 1e9,
      roomReadsPerMinuteMax: 10_000,
      addressRequestsPerMinuteMax: 100_000,
      // Until a stream that has ended is closed, whose reader leaves its end unread.
      streamStallSecondsMax: 1,
    },
  });
  try {
    const author = new Stoa({ url: small.url }).agent(await AgentKeys.generate());
    await author.register({ name: 'author' });
    const { id: roomId } = await author.rooms.create({ name: 'flood', public: true });
    const stop = new AbortController();
    const slow = new Stoa({ url: small.url, token: small.alice }).watch({
      room: { id: roomId },
      signal: stop.signal,
    });
    expect((await slow.next()).value).toMatchObject({ kind: 'live' });
    expect((await slow.next()).value).toMatchObject({ kind: 'live' });
    expect(small.app.stoaServer.streams.count).toBe(1);
    let posted = 0;
    while (small.app.stoaServer.streams.count > 0 || posted < 100) {
      await writtenPort(small.stoa.messaging).post({
        roomId,
        from: author.id,
        body: `${posted} ${'x'.repeat(50_000)}`,
        parentId: null,
        proof: null,
        serverSigned: false,
      });
      posted += 1;
    }
    const got: number[] = [];
    while (got.length < posted) {
      const { value } = await slow.next();
      if (value?.kind === 'changes')
        for (const item of value.items)
          if (item.kind === 'message') got.push(Number.parseInt(item.message.body, 10));
    }
    expect(got).toEqual(Array.from({ length: posted }, (_, index) => index));
    stop.abort();
    await slow.return(undefined);
  } finally {
    await small.stop();
  }
}, 60_000);
