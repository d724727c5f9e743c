import { kernelOf } from '../../kernel-of.js';
import { once } from 'node:events';
import { type Socket, createConnection } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { Running } from '../running.js';
import { eventually } from '../../until.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start({
    limits: { agentsPerUserMax: 100_000, streamHeartbeatSeconds: 0.05, feedBytesMax: 20_000 },
  });
});
afterAll(() => running.stop());

interface Event {
  event: string;
  id: string | undefined;
  data: { items: AnnouncedChange[]; position: string; code?: string };
}

interface AnnouncedChange {
  seq: number;
  kind: string;
  id: string;
  user: string | null;
}

/** A stream of events, read until it is closed. */
class Stream {
  readonly events: Event[] = [];
  ended = false;
  readonly #stop = new AbortController();
  status = 0;

  async open(path: string, token: string, headers: Record<string, string> = {}): Promise<this> {
    const response = await fetch(running.url + path, {
      headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers },
      signal: this.#stop.signal,
    });
    this.status = response.status;
    expect(response.headers.get('request-id')).toBeTruthy();
    if (response.status === 200) {
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
      void this.#read(response);
    }
    return this;
  }

  get changes() {
    return this.events.filter(({ event }) => event === 'changes').flatMap(({ data }) => data.items);
  }

  close(): void {
    this.#stop.abort();
  }

  async #read(response: Response): Promise<void> {
    let text = '';
    try {
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        text += Buffer.from(chunk).toString();
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          this.#take(text.slice(0, end));
          text = text.slice(end + 2);
        }
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
    this.ended = true;
  }

  #take(block: string): void {
    const fields = new Map(
      block
        .split('\n')
        .filter((line) => !line.startsWith(':'))
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    );
    const data = fields.get('data');
    if (data !== undefined)
      this.events.push({
        event: fields.get('event') ?? 'message',
        id: fields.get('id'),
        data: JSON.parse(data),
      });
  }
}

const create = (user: string, name: string) =>
  running.stoa.registry.createAgent(operatorCaller(user), { name });

test('pages go through everything once, in order', async () => {
  for (let made = 0; made < 7; made += 1) await create('alice', `page ${made}`);
  const seen: number[] = [];
  let since: string | null = '';
  while (since !== null) {
    const { json } = await running.ask(
      'GET',
      `/v1/changes?topics=agent.created&limit=2${since === '' ? '' : `&since=${since}`}`,
      { as: running.alice },
    );
    seen.push(...json.items.map(({ seq }: { seq: number }) => seq));
    since = json.next_cursor;
  }
  expect(seen.length).toBeGreaterThanOrEqual(7);
  expect(seen).toEqual([...new Set(seen)].toSorted((a, b) => a - b));
});

test('a page contains its end position, also when nothing matches', async () => {
  const { json } = await running.ask('GET', '/v1/changes?topics=workspaces', { as: running.alice });
  expect(json).toMatchObject({ items: [], next_cursor: null, position: await running.stoa.changes.newest() });
});

test('a caller sees only its own changes; the operator sees all', async () => {
  const since = await running.stoa.changes.newest();
  const mine = await create('alice', 'mine');
  const theirs = await create('bob', 'theirs');
  const idsFor = async (as: string, headers = {}) =>
    (
      await running.ask('GET', `/v1/changes?since=${since}&topics=agent.created`, { as, headers })
    ).json.items.map(({ id }: { id: string }) => id);
  expect(await idsFor(running.alice)).toEqual([mine.agent_id]);
  expect(await idsFor(running.bob)).toEqual([theirs.agent_id]);
  expect(await idsFor(running.operator)).toEqual([mine.agent_id, theirs.agent_id]);
  expect(await idsFor(running.operator, { 'stoa-user': 'bob' })).toEqual([theirs.agent_id]);
});

test('a change names the agent that made it to its owner, and to nobody else', async () => {
  const since = await running.stoa.changes.newest();
  const scout = operatorCaller('alice', 'scout');
  await running.stoa.data.set(scout, 'notes', 'a', 1);
  await running.stoa.data.set(operatorCaller('alice'), 'notes', 'a', 2);
  const headers = { 'stoa-agent': 'scout' };
  const body = { body: 'hello' };
  expect((await running.ask('POST', '/room/global', { as: running.alice, headers, body })).status).toBe(201);
  const { json } = await running.ask('GET', `/v1/changes?since=${since}&topics=data,message`, {
    as: running.bob,
  });
  expect(json.items).toMatchObject([{ kind: 'message.posted', agent: null }]);
  const own = await running.ask('GET', `/v1/changes?since=${since}&topics=data`, { as: running.alice });
  expect(own.json.items).toMatchObject([{ agent: 'scout' }, { agent: null }]);
});

test('tokens are announced to the operator only', async () => {
  const topics = '/v1/changes?topics=token';
  expect((await running.ask('GET', topics, { as: running.operator })).json.items.length).toBeGreaterThan(0);
  expect((await running.ask('GET', topics, { as: running.alice })).json.items).toEqual([]);
});

test('a stream resumes after a disconnect without a gap or a repeat', async () => {
  const since = await running.stoa.changes.newest();
  const expected: string[] = [];
  const writer = (async () => {
    for (let made = 0; made < 150; made += 1)
      expected.push((await create('alice', `resume ${made}`)).agent_id);
  })();
  const got: string[] = [];
  let last = since;
  for (let cuts = 0; got.length < 150; cuts += 1) {
    const stream = await new Stream().open('/v1/changes?topics=agent.created', running.alice, {
      'last-event-id': last,
    });
    const wanted = Math.min(150, got.length + 10 * (cuts % 3));
    await eventually(() => expect(got.length + stream.changes.length).toBeGreaterThanOrEqual(wanted));
    stream.close();
    got.push(...stream.changes.map(({ id }) => id));
    last = stream.events.findLast(({ id }) => id !== undefined)?.id ?? last;
  }
  await writer;
  expect(got).toEqual(expected);
});

test('a stream without a position starts at the newest one, and sends its position while idle', async () => {
  const stream = await new Stream().open('/v1/changes?topics=workspaces', running.alice);
  const before = await running.stoa.changes.newest();
  await create('alice', 'unseen');
  const after = await running.stoa.changes.newest();
  expect(after).not.toBe(before);
  await eventually(() =>
    expect(stream.events.at(-1)).toEqual({ event: 'position', id: after, data: { position: after } }),
  );
  expect(stream.changes).toEqual([]);
  stream.close();
});

test('one event is one commit', async () => {
  const stream = await new Stream().open('/v1/changes', running.alice);
  const agent = await create('alice', 'restarted');
  const alice = operatorCaller('alice');
  await running.stoa.registry.start(alice, agent.agent_id);
  await running.stoa.registry.restart(alice, agent.agent_id);
  await eventually(() =>
    expect(stream.changes.filter(({ id }) => id === agent.agent_id).length).toBeGreaterThanOrEqual(3),
  );
  for (const { event, data } of stream.events)
    if (event === 'changes') expect(new Set(data.items.map(({ seq }: { seq: number }) => seq)).size).toBe(1);
  stream.close();
});

test('a stream ends when its token is revoked or expires, and other streams continue', async () => {
  const tokens = [
    await running.stoa.identity.createToken(operatorCaller(), 'alice', {}, null),
    await running.stoa.identity.createToken(operatorCaller(), 'alice', { expires_in: 1 }, null),
  ];
  const streams = await Promise.all(tokens.map(({ token }) => new Stream().open('/v1/changes', token)));
  const other = await new Stream().open('/v1/changes', running.alice);
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  await running.stoa.identity.revokeTokens(operatorCaller(), 'alice', tokens[0]?.token_id);
  const secret = await create('alice', 'after the revocation');
  await eventually(() => expect(streams.map(({ ended }) => ended)).toEqual([true, true]));
  expect(streams[0]?.changes).toEqual([]);
  await eventually(() => expect(other.changes.map(({ id }) => id)).toContain(secret.agent_id));
  expect(other.ended).toBe(false);
  other.close();
});

test('a page can be limited to one namespace, prefix, project or id, and to an end position', async () => {
  const alice = operatorCaller('alice');
  const since = await running.stoa.changes.newest();
  await running.stoa.data.set(alice, 'n', 'a/1', 1);
  const until = await running.stoa.changes.newest();
  await running.stoa.data.set(alice, 'n', 'b', 1);
  await running.stoa.data.set(alice, 'other', 'a/1', 1);
  await running.stoa.data.set(operatorCaller('bob'), 'n', 'a/1', 1);
  const agent = await create('alice', 'alone');
  const read = async (query: string, as = running.alice) =>
    (await running.ask('GET', `/v1/changes?since=${since}&${query}`, { as })).json;
  const idsOf = async (query: string, as?: string) =>
    (await read(query, as)).items.map(({ id }: { id: string }) => id);
  expect(await idsOf('namespace=n')).toEqual(['n/~YS8x', 'n/b']);
  expect(await idsOf('namespace=n&prefix=a/')).toEqual(['n/~YS8x']);
  expect(await idsOf(`id=${agent.agent_id}`)).toEqual([agent.agent_id]);
  expect(await idsOf(`namespace=n&until=${until}`)).toEqual(['n/~YS8x']);
  expect(await read(`until=${until}`)).toMatchObject({ position: until, next_cursor: null });
  expect(await idsOf(`until=${since}`)).toEqual([]);
  // Without a user, the operator acts for "default" in the data store, here too.
  expect(await idsOf('namespace=n', running.operator)).toEqual([]);
  expect(await idsOf('namespace=n', running.bob)).toEqual(['n/~YS8x']);
  expect(
    (await running.ask('GET', `/v1/changes?since=${since}&until=nonsense`, { as: running.alice })).status,
  ).toBe(400);
  const page = await running.ask('GET', '/v1/data/n', { as: running.alice });
  expect(page.headers.get('stoa-position')).toBe(await running.stoa.changes.newest());
});

test('a bad position is refused before the stream begins', async () => {
  expect((await new Stream().open('/v1/changes?since=nonsense', running.alice)).status).toBe(400);
  expect(
    (await new Stream().open('/v1/changes', running.alice, { 'last-event-id': '0123456789ab-99999999' }))
      .status,
  ).toBe(410);
});

test('a position that has left the feed is 410 resync, for pages and streams', async () => {
  const old = await running.stoa.changes.newest();
  // More than the feed keeps in memory for readers that are near its end.
  for (let made = 0; made < 40; made += 1) {
    await kernelOf(running.stoa).root.transact((tx) => {
      for (let change = 0; change < 1_000; change += 1)
        tx.change({ domain: 'data', kind: 'document.set', id: 'flood', user: 'bob', version: 1 });
    });
  }
  await kernelOf(running.stoa).trim();
  const page = await running.ask('GET', `/v1/changes?since=${old}`, { as: running.alice });
  expect(page.json).toMatchObject({
    code: 'resync',
    status: 410,
    details: { position: await running.stoa.changes.newest() },
  });
  expect((await new Stream().open('/v1/changes', running.alice, { 'last-event-id': old })).status).toBe(410);
});

test('a reader that reads nothing costs no memory and is disconnected', async () => {
  const slow = await Running.start({ limits: { streamHeartbeatSeconds: 0.05, streamStallSecondsMax: 0.2 } });
  try {
    const socket = createConnection({ port: slow.port, host: '127.0.0.1' });
    socket.pause();
    socket.write(
      `GET /v1/changes?since=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${slow.operator}\r\n\r\n`,
    );
    await eventually(() => expect(slow.app.stoaServer.streams.count).toBe(1));
    const id = 'x'.repeat(1_000);
    while (slow.app.stoaServer.streams.count > 0) {
      await kernelOf(slow.stoa).root.transact((tx) => {
        for (let made = 0; made < 500; made += 1)
          tx.change({ domain: 'data', kind: 'document.set', id, user: 'alice', version: 1 });
      });
    }
    expect(slow.app.stoaServer.streams.count).toBe(0);
    socket.destroy();
  } finally {
    await slow.stop();
  }
});

test('a reader that reads nothing is disconnected also when its stream has ended', async () => {
  const slow = await Running.start({ limits: { streamStallSecondsMax: 0.2 } });
  const sockets: Socket[] = [];
  slow.app.server.on('connection', (socket) => sockets.push(socket));
  const reader = createConnection({ port: slow.port, host: '127.0.0.1' });
  try {
    reader.pause();
    reader.write(
      `GET /v1/changes?since=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${slow.alice}\r\n\r\n`,
    );
    const { streams } = slow.app.stoaServer;
    await eventually(() => expect(streams.count).toBe(1));
    const id = 'x'.repeat(1_000);
    for (let round = 0; round < 40; round += 1)
      await kernelOf(slow.stoa).root.transact((tx) => {
        for (let made = 0; made < 500; made += 1)
          tx.change({ domain: 'data', kind: 'document.set', id, user: 'alice', version: 1 });
      });
    await eventually(() => expect(sockets[0]?.writableLength).toBeGreaterThan(0));
    streams.endOf(() => true);
    await eventually(() => expect([sockets[0]?.destroyed, streams.count]).toEqual([true, 0]));
  } finally {
    reader.destroy();
    await slow.stop();
  }
});

test('streams beyond the limit are refused', async () => {
  const few = await Running.start({ limits: { streamsMax: 1 } });
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${few.alice}`, accept: 'text/event-stream' };
  const first = await fetch(`${few.url}/v1/changes`, { headers, signal: stop.signal });
  expect(first.status).toBe(200);
  expect((await fetch(`${few.url}/v1/changes`, { headers })).status).toBe(503);
  stop.abort();
  await eventually(() => expect(few.app.stoaServer.streams.count).toBe(0));
  await few.stop();
});

test('HEAD of a stream does not count as an open stream', async () => {
  const few = await Running.start({ limits: { streamsMax: 1 } });
  // A client that sends nothing else and leaves its connection open, as a probe does.
  const probe = createConnection(Number(new URL(few.url).port), '127.0.0.1');
  probe.write(`HEAD /room/global/stream HTTP/1.1\r\nHost: ${new URL(few.url).host}\r\n\r\n`);
  const [head] = (await once(probe, 'data')) as [Buffer];
  expect(head.toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*text\/event-stream/);
  await eventually(() => expect(few.app.stoaServer.streams.count).toBe(0));
  probe.destroy();
  await few.stop();
});

test('one caller cannot use all streams: each user, and each address without credentials, has its own limit', async () => {
  const few = await Running.start({ limits: { streamsPerCallerMax: 1 } });
  const stop = new AbortController();
  const open = (path: string, token?: string) =>
    fetch(few.url + path, {
      headers: {
        accept: 'text/event-stream',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      signal: stop.signal,
    });
  const statuses = async (path: string, token?: string) => [
    (await open(path, token)).status,
    (await open(path, token)).status,
  ];
  expect(await statuses('/v1/changes', few.alice)).toEqual([200, 503]);
  expect(await statuses('/v1/changes', few.bob)).toEqual([200, 503]);
  expect(await statuses('/room/global/stream')).toEqual([200, 503]);
  expect(await statuses('/v1/changes', few.operator)).toEqual([200, 200]);
  stop.abort();
  await eventually(() => expect(few.app.stoaServer.streams.count).toBe(0));
  // After closing a stream, the caller may open another.
  const again = await fetch(`${few.url}/v1/changes`, {
    headers: { accept: 'text/event-stream', authorization: `Bearer ${few.alice}` },
  });
  expect(again.status).toBe(200);
  await again.body?.cancel();
  await few.stop();
});
