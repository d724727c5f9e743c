import { migrateCommits } from '../../../../src/homes/postgres/commit/schema.js';
import { migrateTurns } from '../../../../src/homes/postgres/database/turns.js';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CommitOutbox } from '../../../../src/homes/postgres/commit/outbox.js';
import {
  type PostgresSql,
  openPostgres,
  query,
  transaction,
} from '../../../../src/homes/postgres/database/connection.js';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import { StoaError } from '../../../../src/core/errors.js';
import { type Caller, operatorCaller } from '../../../../src/core/caller.js';
import { aicqSignedText, sign, signingKeysOf } from '../../../../src/identity/signatures.js';
import { type Stoa, type StoaOptions, openStoa } from '../../../../src/index.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import type { Delivery } from '../../../../src/messaging/port.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { createApp, stopApp } from '../../../../src/server/app.js';
import { refuseLargeStatements } from '../../../servers/bounded-statements.js';
import type { TestServer } from '../../../servers/child.js';
import { startGate } from '../../../servers/gate.js';
import { emptyRedis, start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedPostgres, sharedKeys } from '../../../servers/shared.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from '../../../messaging/public-room.js';

const ada = operatorCaller('ada', 'planner');
const bob = operatorCaller('bob');

let redis: TestServer;
const opened: Stoa[] = [];

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
});
/** Each test has its own database; all tests share one Redis. */
beforeEach(() => emptyRedis(redis.url));
afterAll(() => redis.stop());
afterEach(async () => {
  for (const stoa of opened.splice(0)) await stoa.close();
});

async function open(options: Partial<StoaOptions>): Promise<Stoa> {
  const stoa = await openStoa({
    redis: redis.url,
    secretKeys: sharedKeys,
    onError: () => undefined,
    ...options,
  });
  opened.push(stoa);
  return stoa;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function saidIn(stoa: Stoa, room = globalRoomId): Promise<string[]> {
  return (await stoa.messaging.port.messages(publicRoom(room), { afterMs: 0, limit: 200 })).items.map(
    ({ body }) => body,
  );
}

async function project(
  stoa: Stoa,
  caller: Caller = ada,
  tasks = 1,
): Promise<{ projectId: string; sessionId: string; taskIds: string[] }> {
  const workspace = await stoa.workspaces.createWorkspace(caller, { name: `w-${randomUUID()}` });
  const { id: projectId } = await stoa.workspaces.createProject(caller, workspace.id, { name: 'p' });
  const { id: sessionId } = await stoa.workspaces.createSession(caller, projectId, { status: 'active' });
  const taskIds: string[] = [];
  for (let index = 0; index < tasks; index += 1)
    taskIds.push((await stoa.workspaces.createTask(caller, sessionId, { command: `task ${index}` })).id);
  return { projectId, sessionId, taskIds };
}

function sets(prefix: string, length: number): CommitInput['operations'] {
  return Array.from({ length }, (_, index) => ({ op: 'data.set', key: `${prefix}${index}`, value: index }));
}

/** A new Idempotency-Key. */
function freshKey() {
  return { scope: 'ada', key: randomUUID(), fingerprint: 'f', seconds: 60 };
}

/** Creates items until the quota is used up. */
async function untilRefused(create: () => Promise<unknown>): Promise<void> {
  for (let made = 0; made < 100; made += 1) {
    const outcome = await create().catch((error: unknown) => error);
    if (!(outcome instanceof StoaError)) continue;
    expect(outcome).toMatchObject({ code: 'quota_exceeded' });
    return;
  }
  expect.fail('The quota did not refuse any of 100 answers.');
}

describe('a commit in PostgreSQL', () => {
  let stoa: Stoa;
  let url: string;
  const commit = (input: CommitInput, caller = ada) => stoa.commit.commit(caller, input);

  beforeEach(async () => {
    url = (await sharedPostgres()).url;
    stoa = await open({ postgres: url });
  });

  it('refuses a caller whose lease passed to another holder, also for single messages', async () => {
    const { agent_id } = await stoa.registry.createAgent(ada, { name: 'worker' });
    const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'first' });
    const worker: Caller = { ...ada, kind: 'user', agentId: agent_id, fence: lease.fence };
    const post = () =>
      stoa.messaging.rooms.post(worker, { room: 'global' }, () => ({ body: 'still here', pid: '' }), null);
    const input: CommitInput = {
      operations: [
        { op: 'data.increment', key: 'count' },
        { op: 'room.post', room: 'global', body: 'counted' },
      ],
    };
    await post();
    expect(await commit(input, worker)).toMatchObject({ ok: true });
    await stoa.registry.releaseLease(ada, agent_id);
    await expect(post()).rejects.toMatchObject({ code: 'fenced' });
    await expect(commit(input, worker)).rejects.toMatchObject({ code: 'fenced' });
    expect(await stoa.data.get(ada, 'default', 'count')).toBe(1);
    expect(await saidIn(stoa)).toEqual(['still here', 'counted']);
  });

  it('delivers to more rooms at once than there are connections, and fenced posts do not wait for each other', async () => {
    const { agent_id } = await stoa.registry.createAgent(ada, { name: 'many' });
    const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'first' });
    const worker: Caller = { ...ada, kind: 'user', agentId: agent_id, fence: lease.fence };
    const rooms = await Promise.all(
      Array.from({ length: 40 }, async (_, at) => {
        const { id } = await stoa.messaging.rooms.create(
          ada,
          { name: `room-${at}`, is_private: false, key: '', owner: null },
          null,
        );
        return id;
      }),
    );
    const outcomes = await Promise.all(
      rooms.map((room) =>
        commit({
          operations: [
            { op: 'data.increment', key: 'posts' },
            { op: 'room.post', room, body: 'committed' },
          ],
        }),
      ),
    );
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ ok: true, results: [{}, { id: expect.any(String) as string }] });
    await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        stoa.messaging.rooms.post(
          worker,
          { room: rooms[0] ?? '' },
          () => ({ body: `fenced ${at}`, pid: '' }),
          null,
        ),
      ),
    );
    expect(await saidIn(stoa, rooms[0])).toHaveLength(31);
    expect(await saidIn(stoa, rooms[39])).toEqual(['committed']);
  });

  it('does operations of data, tasks and messages together', async () => {
    const { projectId, sessionId } = await project(stoa);
    const outcome = await commit({
      checks: [{ check: 'data', key: 'plan', version: null }],
      operations: [
        { op: 'task.claim', project_id: projectId },
        { op: 'data.set', key: 'plan', value: { go: true }, metadata: { by: 'ada' } },
        { op: 'data.increment', key: 'plans', by: 2 },
        { op: 'data.increment', key: 'plans' },
        { op: 'data.append', namespace: 'log', key: 'lines', items: ['started'] },
        { op: 'task.create', session_id: sessionId, command: 'next' },
        { op: 'room.post', room: 'global', body: 'planner began' },
      ],
    });
    expect(outcome).toMatchObject({
      ok: true,
      results: [
        { task: { status: 'running', claimed_by: 'planner' }, lease: { fence: 1 } },
        { version: 1 },
        { value: 2 },
        { value: 3, version: 2 },
        { version: 1, sizeBytes: 11 },
        { status: 'pending' },
        { id: expect.any(String) as string, room: globalRoomId },
      ],
    });
    expect(await stoa.data.get(ada, 'default', 'plans')).toBe(3);
    expect(await stoa.data.getEntry(ada, 'default', 'plan')).toMatchObject({
      value: { go: true },
      metadata: { by: 'ada' },
      createdByAgent: 'planner',
    });
    expect(await saidIn(stoa)).toEqual(['planner began']);
    await stoa.home.feed.newest();
    const kinds = (await stoa.home.feed.read({})).commits.flatMap(({ changes }) =>
      changes.map(({ kind }) => kind),
    );
    expect(kinds).toEqual(expect.arrayContaining(['document.set', 'task.claimed', 'task.created']));
    expect(await stoa.commit.outbox()).toEqual({ waiting: 0, oldestWaitingSeconds: 0, undeliverable: 0 });
  });

  it('completes a claimed task with its result and its announcement', async () => {
    const { projectId } = await project(stoa);
    const claim = await stoa.workspaces.claimTask(ada, projectId);
    const [id, fence] = [claim?.task.id ?? '', claim?.lease.fence ?? 0];
    const finish = (): ReturnType<typeof commit> =>
      commit({
        checks: [{ check: 'claim', task_id: id, fence }],
        operations: [
          { op: 'data.set', namespace: 'results', key: id, value: 42 },
          { op: 'task.complete', task_id: id, fence, output: 'done' },
          { op: 'room.post', room: 'global', body: 'it is 42' },
        ],
      });
    expect(await finish()).toMatchObject({ ok: true });
    expect(await stoa.workspaces.getTask(ada, id)).toMatchObject({ status: 'completed', output: 'done' });
    // The claim has ended, so a repeat is refused.
    expect(await finish()).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
    expect(await saidIn(stoa)).toEqual(['it is 42']);
  });

  describe('does nothing at all when', () => {
    let ids: Awaited<ReturnType<typeof project>>;
    /** One operation of each kind whose effect would be visible. */
    const operations = (): CommitInput['operations'] => [
      { op: 'data.set', key: 'free', value: 1 },
      { op: 'task.create', session_id: ids.sessionId, command: 'never' },
      { op: 'room.post', room: 'global', body: 'never said' },
    ];

    beforeEach(async () => {
      ids = await project(stoa);
      await stoa.data.set(ada, 'default', 'plan', 1);
    });
    afterEach(async () => {
      expect(await stoa.data.get(ada, 'default', 'free')).toBeUndefined();
      expect((await stoa.workspaces.listSessionTasks(ada, ids.sessionId)).items).toHaveLength(1);
      expect(await saidIn(stoa)).toEqual([]);
      expect(await stoa.commit.outbox()).toMatchObject({ waiting: 0, undeliverable: 0 });
    });

    it.each([
      ['a document has another version', { check: 'data', key: 'plan', version: 2 }, 'version_conflict'],
      ['a document is there', { check: 'data', key: 'plan', version: null }, 'version_conflict'],
      ['a document is not there', { check: 'data', key: 'absent', version: 1 }, 'version_conflict'],
    ] as const)('%s', async (_what, check, code) => {
      expect(
        await commit({
          checks: [{ check: 'data', key: 'plan', version: 1 }, check],
          operations: operations(),
        }),
      ).toMatchObject({ ok: false, failed: { check: 1, code } });
    });

    it("a task has another version, or is another user's", async () => {
      const [task_id = ''] = ids.taskIds;
      expect(
        await commit({ checks: [{ check: 'task', task_id, version: 2 }], operations: operations() }),
      ).toMatchObject({ ok: false, failed: { check: 0, code: 'version_conflict' } });
      const theirs = await stoa.commit.commit(bob, {
        checks: [{ check: 'task', task_id, version: 1 }],
        operations: [{ op: 'data.set', key: 'free', value: 1 }],
      });
      expect(theirs).toMatchObject({ ok: false, failed: { check: 0, code: 'version_conflict' } });
      expect(await stoa.data.get(bob, 'default', 'free')).toBeUndefined();
    });

    it('a claim has another fence, or does not exist', async () => {
      const [task_id = ''] = ids.taskIds;
      const attempt = (fence: number) =>
        commit({ checks: [{ check: 'claim', task_id, fence }], operations: operations() });
      expect(await attempt(1)).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
      await stoa.workspaces.claimTask(ada, ids.projectId);
      expect(await attempt(2)).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
    });

    it('an operation meets a conflict', async () => {
      expect(
        await commit({
          operations: [...operations(), { op: 'data.set', key: 'plan', value: 2, if_version: 0 }],
        }),
      ).toMatchObject({ ok: false, failed: { operation: 3, code: 'version_conflict' } });
      expect(
        await commit({
          operations: [...operations(), { op: 'task.complete', task_id: ids.taskIds[0] ?? '', fence: 9 }],
        }),
      ).toMatchObject({ ok: false, failed: { operation: 3, code: 'fenced' } });
    });

    it('an operation is invalid in any state', async () => {
      await expect(
        commit({ operations: [...operations(), { op: 'data.set', key: '', value: 2 }] }),
      ).rejects.toMatchObject({ code: 'invalid_request', details: { operation: 3 } });
      await expect(
        commit({ operations: [...operations(), { op: 'room.post', room: randomUUID(), body: 'hello' }] }),
      ).rejects.toMatchObject({ code: 'not_found', details: { operation: 3 } });
      await expect(
        commit({
          operations: [...operations(), { op: 'room.post', room: 'global', body: 'x'.repeat(5_000) }],
        }),
      ).rejects.toMatchObject({ code: 'unprocessable', details: { operation: 3 } });
      await expect(
        commit({
          operations: [
            ...operations(),
            { op: 'room.post', room: 'global', body: 'hello', pid: '01ARZ3NDEKTSV4RRFFQ69G5FAV' },
          ],
        }),
      ).rejects.toThrow('parent message not found');
      const many = Array.from({ length: 9 }, () => ({
        op: 'room.post' as const,
        room: 'global',
        body: 'x'.repeat(4_000),
      }));
      await expect(commit({ operations: [...operations(), ...many] })).rejects.toMatchObject({
        code: 'rate_limited',
      });
    });
  });

  it('of concurrent commits for one version, exactly one succeeds', async () => {
    const { projectId } = await project(stoa);
    const race = Array.from({ length: 20 }, (_, index) =>
      commit({
        checks: [{ check: 'data', key: 'leader', version: null }],
        operations: [
          { op: 'data.set', key: 'leader', value: index },
          { op: 'data.increment', key: 'winners' },
          { op: 'task.claim', project_id: projectId },
          { op: 'room.post', room: 'global', body: `${index} leads` },
        ],
      }),
    );
    const outcomes = await Promise.all(race);
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1);
    expect(outcomes.filter(({ ok }) => !ok)).toEqual(
      Array(19).fill(
        expect.objectContaining({
          ok: false,
          failed: expect.objectContaining({ check: 0, code: 'version_conflict' }) as unknown,
        }) as unknown,
      ),
    );
    expect(await stoa.data.get(ada, 'default', 'winners')).toBe(1);
    expect(await saidIn(stoa)).toEqual([`${String(await stoa.data.get(ada, 'default', 'leader'))} leads`]);
  });

  it('concurrent commits over the same names never see half of another', async () => {
    const race = Array.from({ length: 20 }, (_, index) => {
      const [mine, other] = index % 2 === 0 ? (['a', 'b'] as const) : (['b', 'a'] as const);
      return commit({
        checks: [{ check: 'data', key: other, version: null }],
        operations: [{ op: 'data.set', key: mine, value: 1 }],
      });
    });
    const outcomes = await Promise.all(race);
    const values = [await stoa.data.get(ada, 'default', 'a'), await stoa.data.get(ada, 'default', 'b')];
    expect(values.filter((value) => value === undefined)).toHaveLength(1);
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(10);
  });

  it('concurrent commits that only increment lose no increment', async () => {
    const many = Array.from({ length: 40 }, (_, index) =>
      commit({
        operations: [
          { op: 'data.increment', key: index % 2 === 0 ? 'x' : 'y' },
          { op: 'data.increment', key: index % 2 === 0 ? 'y' : 'x' },
          { op: 'room.post', room: 'global', body: String(index) },
        ],
      }),
    );
    expect((await Promise.all(many)).every(({ ok }) => ok)).toBe(true);
    expect([await stoa.data.get(ada, 'default', 'x'), await stoa.data.get(ada, 'default', 'y')]).toEqual([
      40, 40,
    ]);
    expect((await saidIn(stoa)).map(Number).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 40 }, (_, index) => index),
    );
  });

  it('commits and single writes of the same documents lose no write', async () => {
    const work = Array.from({ length: 20 }, (_, index) => [
      commit({
        operations: [
          { op: 'data.increment', key: 'x' },
          { op: 'data.increment', key: 'y' },
          { op: 'data.set', key: 'b', value: index },
          { op: 'data.set', key: 'a', value: index },
        ],
      }),
      stoa.data.increment(ada, 'default', 'y'),
      stoa.data.increment(ada, 'default', 'x'),
      stoa.data.setMany(ada, 'default', { a: index, b: index }),
      commit({
        operations: [
          { op: 'data.increment', key: 'y' },
          { op: 'data.delete', key: 'a' },
          { op: 'data.increment', key: 'x' },
        ],
      }),
    ]);
    await Promise.all(work.flat());
    expect([await stoa.data.get(ada, 'default', 'x'), await stoa.data.get(ada, 'default', 'y')]).toEqual([
      60, 60,
    ]);
  });

  it('respects quotas over all of its operations', async () => {
    const strict = await open({ postgres: url, limits: { dataDocumentsPerUserMax: 3 } });
    expect(await strict.commit.commit(ada, { operations: sets('a', 4) })).toMatchObject({
      ok: false,
      failed: { operation: 3, code: 'quota_exceeded' },
    });
    const race = await Promise.all(
      ['b', 'c', 'd', 'e'].map((prefix) => strict.commit.commit(ada, { operations: sets(prefix, 2) })),
    );
    expect(race.filter(({ ok }) => ok)).toHaveLength(1);
    expect((await strict.data.listKeys(ada, 'default')).items).toHaveLength(2);
  });

  it('that fails does not change read counts', async () => {
    await stoa.data.set(ada, 'default', 'read', 1);
    await stoa.data.get(ada, 'default', 'read');
    expect(
      await commit({
        operations: [
          { op: 'data.delete', key: 'read' },
          { op: 'data.set', key: 'read', value: 2, if_version: 5 },
        ],
      }),
    ).toMatchObject({ ok: false });
    expect(await stoa.data.getEntry(ada, 'default', 'read')).toMatchObject({ value: 1, accessCount: 1 });
  });

  it('a repeat under the same key changes nothing and answers the same', async () => {
    const idempotency = { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 };
    const input: CommitInput = {
      operations: [
        { op: 'data.increment', key: 'n' },
        { op: 'room.post', room: 'global', body: 'once' },
      ],
    };
    const [first, ...again] = await Promise.all(
      Array.from({ length: 5 }, () => stoa.commit.commit(ada, input, idempotency)),
    );
    expect(first?.ok).toBe(true);
    const last = await stoa.commit.commit(ada, input, idempotency);
    expect(last).toMatchObject({
      ok: true,
      results: [{ value: 1 }, { id: expect.any(String) as string, ts: expect.any(Number) as number }],
    });
    expect(again.every(({ ok }) => ok)).toBe(true);
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
    expect(await saidIn(stoa)).toEqual(['once']);
    await expect(stoa.commit.commit(ada, input, { ...idempotency, fingerprint: 'g' })).rejects.toMatchObject({
      code: 'idempotency_mismatch',
    });
  });

  it('refuses private rooms without their key, and accepts the signature of an agent', async () => {
    const token: Caller = { ...ada, kind: 'user' };
    const room = await stoa.messaging.rooms.create(
      token,
      { name: 'secret', is_private: true, key: 'a key of sixteen characters', owner: null },
      null,
    );
    const post = (key?: string) =>
      commit(
        {
          operations: [
            { op: 'room.post', room: room.id, body: 'psst', ...(key !== undefined && { key }) },
            { op: 'data.increment', key: 'n' },
          ],
        },
        token,
      );
    await expect(post()).rejects.toMatchObject({ code: 'forbidden' });
    expect((await post('a key of sixteen characters')).ok).toBe(true);
    const { secretKey, publicKey } = signingKeysOf(Buffer.alloc(32, 7));
    const { identity } = await writtenPort(stoa.messaging).register({
      publicKey: publicKey.toString('base64'),
      name: 'signer',
      email: null,
      proven: true,
    });
    const request = JSON.stringify({ body: 'signed by me' });
    const [nonce, timestamp] = [randomUUID(), String(Date.now())];
    const signature = sign(secretKey, aicqSignedText(Buffer.from(request), nonce, timestamp)).toString(
      'base64',
    );
    const operation = {
      op: 'room.post' as const,
      room: 'global',
      body: 'signed by me',
      signed: { agent: identity.id, nonce, timestamp, signature, request },
    };
    expect((await commit({ operations: [operation, { op: 'data.increment', key: 'n' }] })).ok).toBe(true);
    expect(
      (await stoa.messaging.port.messages(publicRoom(globalRoomId), { beforeMs: null, limit: 1 })).items,
    ).toMatchObject([{ from: identity.id, serverSigned: false, proof: { signature } }]);
    await expect(commit({ operations: [operation, { op: 'data.increment', key: 'n' }] })).rejects.toThrow(
      'nonce already used',
    );
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(2);
  });

  describe('the nonce of a signed message', () => {
    let identityId: string;
    const { secretKey, publicKey } = signingKeysOf(Buffer.alloc(32, 9));

    beforeEach(async () => {
      const { identity } = await writtenPort(stoa.messaging).register({
        publicKey: publicKey.toString('base64'),
        name: 'signer',
        email: null,
        proven: true,
      });
      identityId = identity.id;
    });

    function signedPost(body: string) {
      const request = JSON.stringify({ body });
      const [nonce, timestamp] = [randomUUID(), String(Date.now())];
      const signature = sign(secretKey, aicqSignedText(Buffer.from(request), nonce, timestamp));
      const signed = {
        agent: identityId,
        nonce,
        timestamp,
        signature: signature.toString('base64'),
        request,
      };
      return { op: 'room.post' as const, room: 'global', body, signed };
    }

    it('is free again after a commit that was refused', async () => {
      const post = signedPost('once');
      const count = { op: 'data.increment' as const, key: 'n' };
      const { agent_id } = await stoa.registry.createAgent(ada, { name: 'worker' });
      const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'first' });
      await stoa.registry.releaseLease(ada, agent_id);
      const late: Caller = { ...ada, kind: 'user', agentId: agent_id, fence: lease.fence };
      await expect(commit({ operations: [count, post] }, late)).rejects.toMatchObject({ code: 'fenced' });
      const checks = [{ check: 'data' as const, key: 'n', version: 5 }];
      expect(await commit({ checks, operations: [count, post] })).toMatchObject({ ok: false });
      const used = signedPost('used before');
      expect(await commit({ operations: [count, used] })).toMatchObject({ ok: true });
      const other = signedPost('twice');
      await expect(commit({ operations: [post, other, other, count] })).rejects.toThrow('nonce already used');
      expect(await commit({ operations: [count, other, post] })).toMatchObject({ ok: true });
      expect(await saidIn(stoa)).toEqual(['used before', 'twice', 'once']);
      expect(await stoa.data.get(ada, 'default', 'n')).toBe(2);
      await expect(commit({ operations: [post] })).rejects.toThrow('nonce already used');
    });

    it('can be used by the retry after a conflict in the database', async () => {
      const database = await openPostgres(new URL(url), { connectionsMax: 1 });
      try {
        await query(database, 'CREATE SEQUENCE attempts');
        await query(
          database,
          `CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('attempts') = 1 THEN RAISE 'conflict' USING ERRCODE = '40001'; END IF;
            RETURN NULL; END $$`,
        );
        await query(
          database,
          `CREATE CONSTRAINT TRIGGER refuse_first AFTER INSERT ON commit_outbox
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_first()`,
        );
      } finally {
        await database.end();
      }
      const outcome = await commit({ operations: [{ op: 'data.increment', key: 'n' }, signedPost('once')] });
      expect(outcome).toMatchObject({ ok: true });
      expect(await saidIn(stoa)).toEqual(['once']);
      expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
    });
  });

  it("counts stored answers against the user's byte quota", async () => {
    const bytes = 1_000;
    const counting = await open({ postgres: url, limits: { dataBytesPerUserMax: 4_000 } });
    await counting.data.set(ada, 'default', 'large', 'x'.repeat(bytes));
    const { sessionId } = await project(counting);
    const answerBytes = async (): Promise<number> => {
      const [sum] = await query<{ bytes: number }>(
        database,
        'SELECT coalesce(sum(size_bytes), 0)::int AS bytes FROM kept_answers',
      );
      return sum?.bytes ?? 0;
    };
    const database = await openPostgres(new URL(url), { connectionsMax: 1 });
    try {
      const create = { op: 'task.create' as const, session_id: sessionId, command: 'c' };
      await untilRefused(() => counting.commit.commit(ada, { operations: [create] }, freshKey()));
      expect(await answerBytes()).toBeLessThanOrEqual(4_000 - bytes);
      expect(await answerBytes()).toBeGreaterThan(3_000 - bytes);
      const more = { command: 'c' };
      await untilRefused(() =>
        counting.workspaces.createTask(ada, sessionId, more, { idempotency: freshKey() }),
      );
      expect(await answerBytes()).toBeLessThanOrEqual(4_000 - bytes);
    } finally {
      await database.end();
    }
  });

  it('sends direct messages', async () => {
    const reader = (
      await writtenPort(stoa.messaging).register({
        publicKey: signingKeysOf(Buffer.alloc(32, 8)).publicKey.toString('base64'),
        name: 'reader',
        email: null,
        proven: true,
      })
    ).identity.id;
    const outcome = await commit({
      operations: [
        { op: 'data.increment', key: 'n' },
        { op: 'dm.send', to: reader, body: 'for you' },
      ],
    });
    const { items } = await stoa.messaging.port.inbox(reader, { beforeMs: null, limit: 10 });
    expect(items).toMatchObject([{ body: 'for you' }]);
    expect(outcome).toMatchObject({
      ok: true,
      results: [{ value: 1 }, { id: items[0]?.id, ts: items[0]?.tsMs }],
    });
  });

  it('includes operations of the registry', async () => {
    const agent = await stoa.registry.createAgent(ada, { name: 'scout' });
    expect(
      await commit({
        checks: [{ check: 'agent', agent_id: agent.agent_id, version: agent.version }],
        operations: [
          { op: 'data.set', key: 'k', value: 1 },
          { op: 'agent.update', agent_id: agent.agent_id, status: 'running' },
          { op: 'room.post', room: 'global', body: 'running' },
        ],
      }),
    ).toMatchObject({ ok: true });
    expect(await stoa.registry.getAgent(ada, agent.agent_id)).toMatchObject({ status: 'running' });
    expect(await saidIn(stoa)).toEqual(['running']);
  });
});

describe('the outbox', () => {
  let sql: PostgresSql;
  let url: string;
  const both: CommitInput = {
    operations: [
      { op: 'data.increment', key: 'n' },
      { op: 'room.post', room: 'global', body: 'later' },
    ],
  };

  beforeEach(async () => {
    url = (await sharedPostgres()).url;
    sql = await openPostgres(new URL(url), { connectionsMax: 2 });
  });
  afterEach(() => sql.end());

  /** Holds the lock of the global room, like a server that hangs in a delivery. */
  async function holdRoom(): Promise<() => Promise<void>> {
    // The driver returns an open connection; it does not report one that it would have to open.
    await sql.unsafe('SELECT 1');
    const held = await sql.reserve();
    await held.unsafe('SELECT pg_advisory_lock(hashtextextended($1, 6))', [`room ${globalRoomId}`]);
    return async () => {
      await held.unsafe('SELECT pg_advisory_unlock_all()');
      held.release();
    };
  }

  it('reports queued messages, and delivers them in order', async () => {
    const stoa = await open({ postgres: url, limits: { commitDeliveryWaitSeconds: 0.2 } });
    const idempotency = { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 };
    const release = await holdRoom();
    const first = await stoa.commit.commit(ada, both, idempotency);
    expect(first).toMatchObject({
      ok: true,
      results: [{ value: 1 }, { queued: true, delivery: expect.any(String) as string, room: globalRoomId }],
    });
    for (const body of ['second', 'third'])
      await stoa.commit.commit(ada, {
        operations: [
          { op: 'data.increment', key: 'n' },
          { op: 'room.post', room: 'global', body },
        ],
      });
    expect(await saidIn(stoa)).toEqual([]);
    expect(await stoa.commit.outbox()).toMatchObject({ waiting: 3, undeliverable: 0 });
    await release();
    await until(async () => (await stoa.commit.outbox()).waiting === 0);
    expect(await saidIn(stoa)).toEqual(['later', 'second', 'third']);
    // The repeat shows the state of the message.
    const [message] = (await stoa.messaging.port.messages(publicRoom(globalRoomId), { afterMs: 0, limit: 1 }))
      .items;
    await vi.waitFor(
      async () =>
        expect(await stoa.commit.commit(ada, both, idempotency)).toMatchObject({
          ok: true,
          results: [{ value: 1 }, { id: message?.id, ts: message?.tsMs }],
        }),
      20_000,
    );
  });

  it('keeps messages while Redis is away, and delivers them when it is back', async () => {
    const gate = await startGate(redis.url);
    const limits = { commitDeliveryWaitSeconds: 0.2, messageBytesPerMinuteMax: 4_000 };
    const stoa = await open({ postgres: url, redis: gate.url, limits });
    const post = (body: string, pid?: string) =>
      stoa.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body, pid }] });
    try {
      await post('before');
      await gate.close();
      await until(async () => (await stoa.operations.readiness()).degraded.includes('redis'));
      const first = await stoa.commit.commit(ada, both);
      expect(first).toMatchObject({ ok: true, results: [{ value: 1 }, { queued: true }] });
      expect(await post('second')).toMatchObject({ ok: true, results: [{ queued: true }] });
      // Only Redis knows the parent. The bytes are counted without it.
      const unreachable = { code: 'backend_unavailable', message: 'Operation 0: Redis is not reachable.' };
      await expect(post('an answer', '01ARZ3NDEKTSV4RRFFQ69G5FAV')).rejects.toMatchObject(unreachable);
      expect(await post('x'.repeat(3_950))).toMatchObject({ ok: true });
      await expect(post('x'.repeat(50))).rejects.toMatchObject({ code: 'rate_limited' });
    } finally {
      await gate.open();
    }
    await until(async () => (await stoa.commit.outbox()).waiting === 0);
    expect(await saidIn(stoa)).toEqual(['before', 'later', 'second', 'x'.repeat(3_950)]);
    // The delivered bytes count in Redis now.
    await expect(post('x'.repeat(50))).rejects.toMatchObject({ code: 'rate_limited' });
    await stoa.close();
    await gate.close();
  });

  it('takes no more bytes of one author in parallel commits than the limit', async () => {
    const options = { postgres: url, limits: { messageBytesPerMinuteMax: 10_000 } };
    const servers = [await open(options), await open(options)];
    await servers[0]?.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body: 'x' }] });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) =>
        servers[index % 2]?.commit.commit(ada, {
          operations: [
            { op: 'data.increment', key: 'n' },
            { op: 'room.post', room: 'global', body: 'x'.repeat(3_000) },
          ],
        }),
      ),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect(outcome.reason).toMatchObject({ code: 'rate_limited', details: { operation: 1 } });
    expect(await servers[0]?.data.get(ada, 'default', 'n')).toBe(3);
  });

  it('takes no more bytes of one author in posts and commits at once than the limit', async () => {
    const options = { postgres: url, limits: { messageBytesPerMinuteMax: 10_000 } };
    const servers = [await open(options), await open(options)];
    const body = 'x'.repeat(3_000);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 24 }, async (_, index): Promise<unknown> => {
        const stoa = servers[index % 2] as Stoa;
        return index % 4 < 2
          ? stoa.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body }] })
          : stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body, pid: '' }), null);
      }),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'rate_limited' });
  });

  it('gives back the bytes of a refused commit', async () => {
    const stoa = await open({ postgres: url, limits: { messageBytesPerMinuteMax: 10_000 } });
    const post = { op: 'room.post' as const, room: 'global', body: 'x'.repeat(3_000) };
    await stoa.data.set(ada, 'default', 'text', 'not a number');
    for (let round = 0; round < 10; round += 1)
      expect(
        await stoa.commit.commit(ada, { operations: [post, { op: 'data.increment', key: 'text' }] }),
      ).toMatchObject({ ok: false });
    for (let round = 0; round < 3; round += 1)
      expect(await stoa.commit.commit(ada, { operations: [post] })).toMatchObject({ ok: true });
    await expect(stoa.commit.commit(ada, { operations: [post] })).rejects.toMatchObject({
      code: 'rate_limited',
    });
  });

  it('queues messages without waiting for a Redis that hangs', async () => {
    const gate = await startGate(redis.url);
    const limits = { commitRedisWaitSeconds: 0.2 };
    const stoa = await open({ postgres: url, redis: gate.url, limits });
    const post = (body: string): Promise<unknown> =>
      stoa.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body }] });
    try {
      await post('before');
      gate.silence();
      const startedMs = performance.now();
      for (const body of ['first', 'second', 'third'])
        expect(await post(body)).toMatchObject({ ok: true, results: [{ queued: true }] });
      // A command to Redis fails after 5 s.
      expect(performance.now() - startedMs).toBeLessThan(5_000);
    } finally {
      gate.speak();
    }
    await until(async () => (await stoa.commit.outbox()).waiting === 0);
    expect(await saidIn(stoa)).toEqual(['before', 'first', 'second', 'third']);
    await stoa.close();
    await gate.close();
  });

  it('finishes a delivery that is under way before Redis is closed', async () => {
    const faults: string[] = [];
    const stoa = await open({ postgres: url, onError: (_error, about) => faults.push(about) });
    const client = new Redis(redis.url);
    const release = await holdRoom();
    const committed = stoa.commit.commit(ada, both);
    await until(async () => (await stoa.commit.outbox()).waiting === 1);
    await client.client('PAUSE', 60_000, 'WRITE');
    await release();
    // A delivery holds the lock of the room now, and waits for Redis.
    await until(async () => {
      const [lock] = await query<{ got: boolean }>(
        sql,
        'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 6)) AS got',
        [`room ${globalRoomId}`],
      );
      return lock?.got === false;
    });
    const closed = stoa.close();
    await client.client('UNPAUSE');
    client.disconnect();
    // The answer may come too late to read the position of the feed.
    await Promise.allSettled([committed]);
    await closed;
    expect(await query(sql, 'SELECT state FROM commit_outbox')).toEqual([{ state: 'delivered' }]);
    expect(faults).not.toContain('delivering messages of commits');
  });

  it('does not hold up an answer, also if its table is locked', async () => {
    await migrateCommits(sql);
    const outbox = new CommitOutbox({
      sql,
      port: { deliver: () => expect.unreachable('Nothing waits.') },
      limits: limitsWith({ commitDeliveryWaitSeconds: 0.05 }),
      onError: () => undefined,
    });
    await transaction(sql, async (tx) => {
      await query(tx, 'LOCK TABLE commit_outbox IN ACCESS EXCLUSIVE MODE');
      expect(await outbox.deliver([randomUUID()])).toEqual(new Map());
    });
    await outbox.close();
  });

  it('is emptied by another server if the server that committed is gone, behind many that are not due', async () => {
    const options = {
      postgres: url,
      redis: redis.url,
      limits: { commitDeliveryWaitSeconds: 0.2 },
    };
    const one = await open(options);
    const release = await holdRoom();
    expect(await one.commit.commit(ada, both)).toMatchObject({
      ok: true,
      results: [{ value: 1 }, { queued: true }],
    });
    await opened.shift()?.close();
    await query(
      sql,
      `INSERT INTO commit_outbox (delivery, destination, message, user_id, next_attempt_at)
        SELECT gen_random_uuid(), 'inbox ' || number, '{}', 'ada', clock_timestamp() + interval '1 hour'
          FROM generate_series(1, 1001) AS number`,
    );
    const other = await open(options);
    expect(await saidIn(other)).toEqual([]);
    await release();
    await until(async () => (await other.commit.outbox()).waiting === 1_001);
    expect(await saidIn(other)).toEqual(['later']);
  });

  it('delivers every message once while two servers commit to the same keys', async () => {
    const options = {
      postgres: url,
      redis: redis.url,
      secretKeys: 'ab'.repeat(32),
      limits: { commitDeliveryWaitSeconds: 30 },
    };
    const servers = [await open(options), await open(options)];
    const commits = Array.from({ length: 40 }, (_, index) =>
      (servers[index % 2] as Stoa).commit.commit(ada, {
        operations: [
          { op: 'data.increment', key: 'n' },
          { op: 'room.post', room: 'global', body: String(index) },
        ],
      }),
    );
    const outcomes = await Promise.all(commits);
    expect(outcomes.every((outcome) => outcome.ok && 'id' in (outcome.results[1] as object))).toBe(true);
    expect(await (servers[1] as Stoa).data.get(ada, 'default', 'n')).toBe(40);
    expect((await saidIn(servers[0] as Stoa)).map(Number).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 40 }, (_, index) => index),
    );
  });

  it('retries while messaging is unavailable; later messages wait', async () => {
    await migrateCommits(sql);
    await migrateTurns(sql);
    const taken: string[] = [];
    const away = { attempts: 3 };
    const port = {
      deliver: async ({ message }: Delivery) => {
        if (message.body === 'first' && away.attempts > 0) {
          away.attempts -= 1;
          throw new StoaError('backend_unavailable', 'Redis does not answer.');
        }
        taken.push(message.body);
        return { id: String(taken.length), tsMs: taken.length };
      },
    };
    const faults: unknown[] = [];
    const outbox = new CommitOutbox({
      sql,
      port,
      limits: limitsWith(),
      onError: (error) => faults.push(error),
      sweepIntervalMs: 20,
    });
    const promised = ['first', 'second'].map((body) => ({
      delivery: randomUUID(),
      message: {
        roomId: globalRoomId,
        from: randomUUID(),
        body,
        parentId: null,
        proof: null,
        serverSigned: false,
      },
    }));
    await sql.begin(async (tx) => {
      for (const one of promised) await outbox.add(tx, 'ada', one, false);
    });
    const deliveries = promised.map(({ delivery }) => delivery);
    expect([...(await outbox.deliver(deliveries)).values()]).toEqual([
      { state: 'waiting' },
      { state: 'waiting' },
    ]);
    outbox.start();
    await until(async () => (await outbox.facts()).waiting === 0);
    await outbox.close();
    expect(taken).toEqual(['first', 'second']);
    expect(faults).toHaveLength(3);
    expect(await outbox.states(promised.map(({ delivery }) => delivery))).toEqual(
      new Map(
        promised.map(({ delivery }, index) => [
          delivery,
          { state: 'delivered', id: String(index + 1), tsMs: index + 1 },
        ]),
      ),
    );
  });

  it('gives up after the configured time, and deletes old rows', async () => {
    await migrateCommits(sql);
    const port = {
      deliver: () => Promise.reject(new StoaError('backend_unavailable', 'Redis does not answer.')),
    };
    const open = (limits: Partial<Limits>) =>
      new CommitOutbox({
        sql,
        port,
        limits: limitsWith(limits),
        onError: () => undefined,
        sweepIntervalMs: 3_600_000,
      });
    const promised = {
      delivery: randomUUID(),
      message: { to: randomUUID(), from: randomUUID(), body: 'b', proof: null, serverSigned: false },
    };
    await sql.begin((tx) => open({}).add(tx, 'ada', promised, false));
    await open({}).sweep();
    expect(await open({}).facts()).toMatchObject({ waiting: 1, undeliverable: 0 });
    const impatient = open({ commitDeliverySecondsMax: 0 });
    await impatient.sweep();
    expect(await impatient.facts()).toMatchObject({ waiting: 0, undeliverable: 1 });
    expect([...(await impatient.states([promised.delivery])).values()]).toEqual([
      { state: 'undeliverable', reason: 'not delivered in time: Redis does not answer.' },
    ]);
    await open({ commitUndeliverableKeptSeconds: 0 }).sweep();
    expect(await impatient.facts()).toMatchObject({ waiting: 0, undeliverable: 0 });
  });

  it('deletes many old rows in small steps', async () => {
    await migrateCommits(sql);
    await refuseLargeStatements(sql, 'commit_outbox', 3);
    await query(
      sql,
      `INSERT INTO commit_outbox (delivery, destination, message, user_id)
        SELECT gen_random_uuid(), 'inbox', '{}', 'ada' FROM generate_series(1, 10)`,
    );
    const faults: unknown[] = [];
    const port = { deliver: () => Promise.reject(new StoaError('internal', 'It is not for this one.')) };
    const limits = limitsWith({
      sweepStepMax: 3,
      commitDeliverySecondsMax: 0,
      commitUndeliverableKeptSeconds: 0,
    });
    await new CommitOutbox({
      sql,
      port,
      limits,
      onError: (error) => faults.push(error),
      sweepIntervalMs: 3_600_000,
    }).sweep();
    expect(faults).toEqual([]);
    expect(await query(sql, 'SELECT 1 FROM commit_outbox')).toEqual([]);
  });

  it('marks undeliverable messages and continues with the next', async () => {
    const stoa = await open({ postgres: url });
    const outcome = await stoa.commit.commit(ada, both);
    expect(outcome).toMatchObject({ ok: true });
    // A message for a room that does not exist any more, and one after it.
    const [row] = await query<{ message: string }>(sql, 'SELECT message FROM commit_outbox');
    // The text of a delivered message is only in its room.
    expect(row?.message).toBe('{}');
    const [said] = (
      await stoa.messaging.port.messages(publicRoom(globalRoomId), { beforeMs: null, limit: 1 })
    ).items;
    const message = { from: said?.from, parentId: null, proof: null, serverSigned: false };
    const insert = (roomId: string, destination: string, body: string) =>
      query(
        sql,
        'INSERT INTO commit_outbox (delivery, destination, message, user_id) VALUES ($1, $2, $3, $4)',
        [randomUUID(), destination, JSON.stringify({ ...message, roomId, body }), 'ada'],
      );
    await insert(randomUUID(), `room ${globalRoomId}`, 'into nothing');
    await insert(globalRoomId, `room ${globalRoomId}`, 'behind it');
    await until(
      async () =>
        (await stoa.commit.outbox()).undeliverable === 1 && (await stoa.commit.outbox()).waiting === 0,
    );
    expect(await saidIn(stoa)).toEqual(['later', 'behind it']);
    expect(
      await query(sql, "SELECT reason, attempts FROM commit_outbox WHERE state = 'undeliverable'"),
    ).toEqual([{ reason: 'room not found', attempts: 1 }]);
  });

  it('appears in the status and the metrics of a server', async () => {
    const stoa = await open({ postgres: url, limits: { commitDeliveryWaitSeconds: 0.1 } });
    const app = createApp(stoa);
    const address = await app.listen({ port: 0, host: '127.0.0.1' });
    try {
      const headers = {
        authorization: `Bearer ${stoa.operatorToken}`,
        'content-type': 'application/json',
        'stoa-user': 'ada',
      };
      const release = await holdRoom();
      const answer = (await (
        await fetch(`${address}/v1/commit`, { method: 'POST', headers, body: JSON.stringify(both) })
      ).json()) as { results: unknown[] };
      expect(answer).toMatchObject({ ok: true, results: [{ value: 1 }, { queued: true }] });
      const status = (await (await fetch(`${address}/v1/status`, { headers })).json()) as Record<
        string,
        unknown
      >;
      expect(status['outbox']).toEqual({
        waiting: 1,
        oldest_waiting_seconds: expect.any(Number) as number,
        undeliverable: 0,
      });
      expect(await (await fetch(`${address}/metrics`)).text()).toContain('stoa_commit_outbox_waiting 1\n');
      await release();
    } finally {
      await stopApp(app, 1);
    }
  });

  it('continues after the database ends the transaction of a hanging server', async () => {
    const stoa = await open({ postgres: url });
    const hanging = await openPostgres(new URL(url), { connectionsMax: 1, idleTransactionSecondsMax: 0.5 });
    let committed: Promise<unknown> | undefined;
    const outcome = transaction(hanging, async (tx) => {
      await query(
        tx,
        "SELECT pg_advisory_xact_lock(hashtext('stoa_write'), bucket) FROM generate_series(0, 4095) AS bucket",
      );
      committed = stoa.commit.commit(ada, both);
      await committed;
      return query(tx, 'SELECT 1');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    expect(await committed).toMatchObject({ ok: true });
    // The pool replaced the connection: the next transaction works.
    expect(await transaction(hanging, (tx) => query(tx, 'SELECT 1 AS one'))).toEqual([{ one: 1 }]);
    await hanging.end();
  });
});
