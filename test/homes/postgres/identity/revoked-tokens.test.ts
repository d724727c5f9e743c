/**
 * A token that one server revokes is refused by the writes of all others, in every domain, heard of or not.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, operatorCaller } from '../../../../src/core/caller.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import type { Stoa } from '../../../../src/index.js';
import { fullScopes } from '../../../../src/core/caller.js';
import { MessagingServer, roomy } from '../../../messaging/kit.js';
import type { HaltingServer } from '../../../servers/child.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedKeys, emptyPostgres } from '../../../servers/shared.js';
import { eventually, until } from '../../../until.js';

const operator = operatorCaller('ada');
const gone = { code: 'unauthenticated' };
/** Longer than a server trusts a sign of life. */
const lateMs = 2_000;
let redis: HaltingServer;
let url: string;
let gate: Gate;
let here: MessagingServer;
let there: MessagingServer;
let place: { project: string; session: string; task: string; fence: number; room: string };

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
  ({ url } = await emptyPostgres());
  gate = await startGate(url);
  here = await open(gate.url);
  there = await open(url);
  place = await makePlace(there.stoa);
  // A server that knows the user writes plain sets in one statement.
  await here.stoa.data.set(operator, 'n', 'there', 1);
});
afterAll(async () => {
  gate?.speak();
  await here?.close();
  await there?.close();
  await gate?.close();
  await redis?.stop();
});

function open(postgres: string): Promise<MessagingServer> {
  return MessagingServer.open({
    limits: roomy,
    postgres,
    redis: redis.url,
    secretKeys: sharedKeys,
    onError: () => undefined,
  });
}

async function makePlace({ workspaces, messaging }: Stoa): Promise<typeof place> {
  const { id } = await workspaces.createWorkspace(operator, { name: 'w' });
  const { id: project } = await workspaces.createProject(operator, id, { name: 'p' });
  const { id: session } = await workspaces.createSession(operator, project, {});
  await workspaces.createTask(operator, session, { command: 'x' });
  const claimed = await workspaces.claimTask(operator, project);
  if (claimed === null) throw new Error('There is a task to claim.');
  const room = await messaging.rooms.create(
    operator,
    { name: 'room', is_private: false, key: '', owner: null },
    null,
  );
  return { project, session, task: claimed.task.id, fence: claimed.lease.fence, room: room.id };
}

/** A caller whose token was good when the request came in. */
async function revokedCaller(): Promise<Caller> {
  const { token_id: tokenId } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  await there.stoa.identity.revokeTokens(operatorCaller(), 'ada', tokenId);
  return { ...operator, kind: 'user', everyUser: false, scopes: fullScopes, agent: 'late', tokenId };
}

describe('a write whose token was revoked after its request came in', () => {
  const writes: Record<string, (stoa: Stoa, caller: Caller) => Promise<unknown>> = {
    'a set': ({ data }, caller) => data.set(caller, 'n', 'k', 1),
    'a set of several': ({ data }, caller) => data.setMany(caller, 'n', { a: 1, b: 2 }),
    'a conditional set': ({ data }, caller) => data.set(caller, 'n', 'k', 1, { ifVersion: 0 }),
    'an increment': ({ data }, caller) => data.increment(caller, 'n', 'k'),
    'a deletion': ({ data }, caller) => data.delete(caller, 'n', 'there'),
    'a set under a key': ({ data }, caller) =>
      data.set(caller, 'n', 'k', 1, {
        idempotency: { scope: 'all', key: randomUUID(), fingerprint: 'f', seconds: 60 },
      }),
    'a new agent': ({ registry }, caller) => registry.createAgent(caller, { name: 'agent' }),
    'a new task': ({ workspaces }, caller) => workspaces.createTask(caller, place.session, { command: 'y' }),
    'a claim': ({ workspaces }, caller) => workspaces.claimTask(caller, place.project),
    'a completion': ({ workspaces }, caller) =>
      workspaces.completeTask(caller, place.task, { fence: place.fence }),
    'a message': ({ messaging }, caller) =>
      messaging.rooms.post(caller, { room: place.room }, () => ({ body: 'late', pid: '' }), null),
    'a room': ({ messaging }, caller) =>
      messaging.rooms.create(caller, { name: 'late', is_private: false, key: '', owner: null }, null),
    'a commit': ({ commit }, caller) =>
      commit.commit(caller, {
        operations: [
          { op: 'data.set', namespace: 'n', key: 'k', value: 1 },
          { op: 'room.post', room: place.room, body: 'late' },
        ],
      }),
  };

  it.each(Object.keys(writes))('is refused, and nothing is stored: %s', async (name) => {
    const caller = await revokedCaller();
    await expect(writes[name]?.(here.stoa, caller)).rejects.toMatchObject(gone);
    const { stoa } = there;
    expect((await stoa.data.listKeys(operator, 'n')).items.map(({ key }) => key)).toEqual(['there']);
    expect((await stoa.registry.listAgents(operator)).items).toEqual([]);
    expect(await stoa.workspaces.getTask(operator, place.task)).toMatchObject({ status: 'running' });
    expect((await there.ask('GET', `/room/${place.room}`)).json.messages).toEqual([]);
  });

  it('is refused for its token and not for what it wrote', async () => {
    const caller = await revokedCaller();
    await expect(here.stoa.data.set(caller, 'n', 'there', 2, { ifVersion: 9 })).rejects.toMatchObject(gone);
    await expect(
      here.stoa.workspaces.completeTask(caller, place.task, { fence: place.fence + 1 }),
    ).rejects.toMatchObject(gone);
  });

  it('does not refuse the writes that share its statement', async () => {
    const { token_id: tokenId } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    const [late, good] = [await revokedCaller(), { ...(await revokedCaller()), tokenId }];
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, at) =>
        here.stoa.data.set(at % 2 === 0 ? late : good, 'shared', `k${at}`, at),
      ),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(
      outcomes.map((_, at) => (at % 2 === 0 ? 'rejected' : 'fulfilled')),
    );
    expect((await there.stoa.data.listKeys(operator, 'shared')).items).toHaveLength(10);
  });
});

it('a repeat of a stored write gets no answer after its token was revoked', async () => {
  const { token_id: tokenId } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const caller = { ...(await revokedCaller()), tokenId };
  const idempotency = { scope: 'all', key: randomUUID(), fingerprint: 'f', seconds: 60 };
  const set = () => here.stoa.data.set(caller, 'repeated', 'k', 1, { idempotency });
  expect(await set()).toEqual(await set());
  await there.stoa.identity.revokeTokens(operatorCaller(), 'ada', tokenId);
  await expect(set()).rejects.toMatchObject(gone);
});

it('a write whose token was revoked is refused alone among those that share its transaction', async () => {
  const { token_id: tokenId } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const [late, good] = [await revokedCaller(), { ...(await revokedCaller()), tokenId, agent: 'good' }];
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, at) =>
      here.stoa.workspaces.createTask(at % 2 === 0 ? late : good, place.session, { command: 'shared' }),
    ),
  );
  expect(outcomes.map(({ status }) => status)).toEqual(
    outcomes.map((_, at) => (at % 2 === 0 ? 'rejected' : 'fulfilled')),
  );
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(gone);
  expect(await there.stoa.workspaces.listReadyTasks(operator, place.project)).toMatchObject({
    items: { length: 10 },
  });
});

it('a read trusts no cached token while the notices of other servers arrive late', async () => {
  let [isLate, passed] = [false, 0];
  const late = await startGate(url, {
    holdAnswer: (_answer, sent) => {
      if (!isLate || !/listen "stoa_tokens_removed"/i.test(sent)) return undefined;
      return new Promise((resolve) => setTimeout(resolve, lateMs)).then(() => void (passed += 1));
    },
  });
  const server = await open(late.url);
  try {
    const { token, token_id } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
    const get = async (): Promise<number> =>
      (await server.ask('GET', '/v1/data/n/there', { headers: { authorization: `Bearer ${token}` } })).status;
    expect(await get()).toBe(200);
    isLate = true;
    await until(() => passed > 2);
    await get();
    await there.stoa.identity.revokeTokens(operatorCaller(), 'ada', token_id);
    expect(await get()).toBe(401);
  } finally {
    isLate = false;
    await server.close();
    await late.close();
  }
});

it('writes are refused at once, and reads within a second, while notices of other servers do not arrive', async () => {
  const { token, token_id } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const headers = { authorization: `Bearer ${token}` };
  const put = (): Promise<number> =>
    here.ask('PUT', '/v1/data/frozen/k', { headers, body: { value: 1 } }).then(({ status }) => status);
  const get = async (): Promise<number> => (await here.ask('GET', '/v1/data/frozen/k', { headers })).status;
  expect([await put(), await get()]).toEqual([201, 200]);
  gate.silence(/listen "/i);
  try {
    await there.stoa.identity.revokeTokens(operatorCaller(), 'ada', token_id);
    expect(await put()).toBe(401);
    await eventually(async () => expect(await get()).toBe(401));
    expect(here.stoa.home.identity.isCacheValid()).toBe(false);
  } finally {
    gate.speak();
  }
  await eventually(() => expect(here.stoa.home.identity.isCacheValid()).toBe(true));
});

it('while notices of other servers do not arrive, an open stream and a waiting read show nothing of what follows a revocation', async () => {
  const { token, token_id } = await there.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
  const streamed = await fetch(`${here.url}/v1/changes?namespace=streamed`, { headers });
  const read = here.ask('GET', `/room/${place.room}?after=${Date.now()}&wait=30`, { headers });
  const events = streamed.body?.pipeThrough(new TextDecoderStream()).getReader();
  expect((await events?.read())?.value).toContain('position');
  gate.silence(/listen "/i);
  try {
    await eventually(() => expect(here.stoa.home.identity.isCacheValid()).toBe(false));
    await there.stoa.identity.revokeTokens(operatorCaller(), 'ada', token_id);
    await there.stoa.data.set(operator, 'streamed', 'after', 1);
    await there.stoa.messaging.rooms.post(
      operator,
      { room: place.room },
      () => ({ body: 'after', pid: '' }),
      null,
    );
    expect(await events?.read()).toEqual({ done: true, value: undefined });
    expect((await read).status).toBe(401);
  } finally {
    gate.speak();
  }
  await eventually(() => expect(here.stoa.home.identity.isCacheValid()).toBe(true));
});

it('a server whose connections are all busy still shows that it is alive', async () => {
  const sql = await openPostgres(new URL(url), { connectionsMax: 2 });
  try {
    let reads: Promise<unknown> = Promise.resolve();
    await transaction(sql, async (tx) => {
      await query(tx, 'LOCK TABLE workspaces.workspaces IN ACCESS EXCLUSIVE MODE');
      reads = Promise.allSettled(
        Array.from({ length: 20 }, () => there.stoa.workspaces.listWorkspaces(operator)),
      );
      const busy = "wait_event_type = 'Lock' AND datname = current_database()";
      const blocked = `SELECT count(*)::integer AS count, clock_timestamp()::text AS since FROM pg_stat_activity WHERE ${busy}`;
      const [now] = await eventually(async () => {
        const rows = await query<{ count: number; since: string }>(sql, blocked);
        expect(rows[0]?.count).toBeGreaterThanOrEqual(10);
        return rows;
      });
      await eventually(async () => {
        const seen = await query(sql, 'SELECT 1 FROM cluster.servers WHERE seen_at > $1::timestamptz', [
          now?.since ?? '',
        ]);
        expect(seen).toHaveLength(2);
      });
    });
    await reads;
  } finally {
    await closePostgres(sql, 1);
  }
});
