/** Limits that count over all servers and all doors: as many as allowed get in, however they come. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { secret } from '../../src/messaging/conformance/kit/requests.js';
import { MessagingServer, roomy } from '../../src/messaging/conformance/kit/server.js';
import { type Reply, Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';

const allowed = 5;
const attempts = 12;
const guessesAllowed = 3;
let a: Running;
let b: Running;

/** A signed agent calls one of the servers. */
class ServerOf extends MessagingServer {
  constructor(readonly running: Running) {
    super();
  }

  get stoa(): Running['stoa'] {
    return this.running.stoa;
  }

  get url(): string {
    return this.running.url;
  }

  async stop(): Promise<void> {}
}

beforeAll(async () => {
  const { options } = await sharedHome();
  const limits = {
    ...roomy,
    dataDocumentsPerUserMax: allowed,
    dataNamespacesPerUserMax: allowed,
    agentsPerUserMax: allowed,
    locksPerUserMax: allowed,
    ownRoomsMax: allowed,
    tokensPerUserMax: allowed,
    postsPerMinuteMax: allowed,
    directSendsPerMinuteMax: allowed,
    roomKeyGuessesPerMinuteMax: guessesAllowed,
  };
  a = await Running.start({ ...options, limits });
  b = await Running.start({ ...options, limits });
});
afterAll(async () => {
  await a?.stop();
  await b?.stop();
});

interface Door {
  method: string;
  path: string;
  body: unknown;
  headers?: Record<string, string>;
}

const commit = (operation: unknown): Door => ({
  method: 'POST',
  path: '/v1/commit',
  body: { operations: [operation] },
});

/** A tool that refuses answers 200. */
const hasDone = ({ status, json, text }: Reply): boolean =>
  status < 300 && json?.ok !== false && !text.includes('"isError":true');

function nth<Item>(items: readonly Item[], index: number): Item {
  const item = items[index % items.length];
  if (item === undefined) throw new Error('The list is empty.');
  return item;
}

const textsOf = (replies: readonly Reply[]): string => replies.map(({ text }) => text).join('\n');

type Doors = readonly ((index: number) => Door)[];

/** Each request through another server or door than the one before, all at the same moment. */
function askAtOnce(
  count: number,
  doors: Doors,
  as: string,
  caller: Record<string, string>,
): Promise<Reply[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => {
      const { method, path, body, headers } = nth(doors, index)(index);
      const server = Math.floor(index / doors.length) % 2 === 0 ? a : b;
      return server.ask(method, path, { as, body, headers: { ...caller, ...headers } });
    }),
  );
}

const askFor = (user: string, doors: Doors): Promise<Reply[]> =>
  askAtOnce(attempts, doors, a.operator, { 'stoa-user': user });

/** The operator's requests do not count against rates, so these are made with a token. */
const askAs = (agent: string, doors: Doors, count = attempts): Promise<Reply[]> =>
  askAtOnce(count, doors, a.alice, { 'stoa-agent': agent });

const quotas: Record<string, Doors> = {
  documents: [
    (index) => ({ method: 'PUT', path: `/v1/data/n/key-${index}`, body: { value: index } }),
    (index) => commit({ op: 'data.set', namespace: 'n', key: `key-${index}`, value: index }),
    (index) => commit({ op: 'data.increment', namespace: 'n', key: `key-${index}` }),
  ],
  namespaces: [
    (index) => ({ method: 'PUT', path: `/v1/data/n${index}/key`, body: { value: index } }),
    (index) => commit({ op: 'data.set', namespace: `n${index}`, key: 'key', value: index }),
  ],
  agents: [
    (index) => ({ method: 'POST', path: '/v1/agents', body: { name: `agent-${index}` } }),
    (index) => commit({ op: 'agent.create', name: `agent-${index}` }),
  ],
  locks: [
    (index) => ({
      method: 'PUT',
      path: `/v1/locks/lock-${index}`,
      body: { ttl: 60 },
      headers: { 'stoa-agent': 'holder' },
    }),
    (index) => ({
      ...commit({ op: 'lock.acquire', name: `lock-${index}`, ttl: 60 }),
      headers: { 'stoa-agent': 'holder' },
    }),
  ],
  rooms: [
    (index) => ({ method: 'POST', path: '/v1/rooms', body: { name: `room-${index}` } }),
    (index) => commit({ op: 'room.post', room: `room-${index}`, body: 'the first message' }),
  ],
};

describe('of requests at once through two servers and all doors, as many as the quota allows get in:', () => {
  it.each(Object.keys(quotas))('%s', async (name) => {
    const replies = await askFor(`user of ${name}`, quotas[name] ?? []);
    expect(replies.filter(({ status }) => status >= 500).map(({ text }) => text)).toEqual([]);
    expect(replies.filter(hasDone), textsOf(replies)).toHaveLength(allowed);
  });

  it('tokens', async () => {
    const replies = await askFor('carol', [
      () => ({ method: 'POST', path: '/v1/users/carol/tokens', body: {} }),
    ]);
    expect(replies.filter(hasDone)).toHaveLength(allowed);
  });
});

const tool = (input: unknown): Door => ({
  method: 'POST',
  path: '/mcp',
  body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'post', arguments: input } },
  headers: { accept: 'application/json, text/event-stream' },
});

describe('rates count together over two servers and all doors:', () => {
  it.each([
    { name: 'messages to rooms', path: '/v1/rooms/rates/messages', op: 'room.post', to: { room: 'rates' } },
    { name: 'direct messages', path: '/v1/inbox', op: 'dm.send', to: { to: 'reader' } },
  ])('$name', async ({ name, path, op, to }) => {
    await a.ask('POST', '/v1/rooms', { as: a.alice, body: { name: 'rates' } });
    await a.ask('POST', '/v1/agents', { as: a.alice, body: { name: 'reader' } });
    const doors = [
      (index: number) => ({
        method: 'POST',
        path,
        body: { body: `message ${index}`, ...(op === 'dm.send' && to) },
      }),
      (index: number) => commit({ op, body: `message ${index}`, ...to }),
      (index: number) => tool({ text: `message ${index}`, ...to }),
    ];
    const replies = await askAs(`author of ${name}`, doors);
    expect(replies.filter(hasDone), textsOf(replies)).toHaveLength(allowed);
    for (const { text } of replies.filter((reply) => !hasDone(reply))) expect(text).toContain('rate_limited');
  });

  it('a message counts once, also if its commit is prepared again', async () => {
    // Each commit makes the room with a hash of its own, so all but the first are outdated when they are written.
    const replies = await askAs(
      'maker',
      [(index) => commit({ op: 'room.post', room: 'vault', body: `message ${index}`, key: secret })],
      allowed,
    );
    expect(replies.filter(hasDone), textsOf(replies)).toHaveLength(allowed);
  });

  it('wrong keys of a room', async () => {
    await a.ask('POST', '/v1/rooms', { as: a.alice, body: { name: 'den', key: secret } });
    const doors = [
      (index: number) => commit({ op: 'room.post', room: 'den', body: 'hello', key: `${secret} ${index}` }),
      (index: number) => tool({ room: 'den', text: 'hello', key: `${secret} ${index}` }),
      (index: number) => ({
        method: 'GET',
        path: '/v1/rooms/den/messages',
        body: undefined,
        headers: { 'x-aicq-room-key': `${secret} ${index}` },
      }),
    ];
    const replies = await askAs('guesser', doors);
    expect(replies.filter(hasDone), textsOf(replies)).toEqual([]);
    const tried = replies.filter(({ text }) => !text.includes('rate_limited'));
    expect(tried, textsOf(replies)).toHaveLength(guessesAllowed);
  });
});

it('a signed request that is sent to both servers at once is accepted once', async () => {
  const ann = await new ServerOf(a).agent();
  for (let round = 0; round < 4; round += 1) {
    const body = JSON.stringify({ body: `once ${round}` });
    const headers = { ...ann.headers(body), 'content-type': 'application/json' };
    const replies = await Promise.all(
      [a, b, a, b].map((server) => server.ask('POST', '/room/global', { raw: body, headers })),
    );
    expect(
      replies.filter(({ status }) => status === 201),
      textsOf(replies),
    ).toHaveLength(1);
  }
});

it('a key that two servers get at once with different requests belongs to one of them', async () => {
  for (let round = 0; round < 4; round += 1) {
    const replies = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        (index % 2 === 0 ? a : b).ask('PATCH', '/v1/data/keys/count', {
          as: a.bob,
          body: { increment: 10 ** (index % 2) },
          headers: { 'idempotency-key': `raced ${round}` },
        }),
      ),
    );
    const done = replies.filter(hasDone);
    expect(new Set(done.map(({ text }) => text)).size).toBe(1);
    expect(done.length, textsOf(replies)).toBe(3);
    for (const { status } of replies.filter((reply) => !hasDone(reply))) expect(status).toBe(422);
  }
});
