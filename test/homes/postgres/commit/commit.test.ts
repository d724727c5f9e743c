/** What a commit on PostgreSQL does, and that a refused commit does nothing. */
import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import type { Caller } from '../../../../src/core/caller.js';
import { signingKeysOf } from '../../../../src/identity/signatures.js';
import type { Stoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isoTime } from '../../../../src/core/text/iso-time.js';
import { until } from '../../../until.js';
import { ada, bob, expectDeliveredOnce, saidIn, project, useServers } from './fixture.js';

const { open, redisUrl } = useServers();

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

  it('keeps the lease of a caller that shows a fence until its write is stored', async () => {
    let isHeld = false;
    let release: (() => void) | undefined;
    // Redis gets the post, whose transaction has checked the fence, when the lease was asked for.
    const gate = await startGate(redisUrl(), {
      hold: (sent) => {
        if (isHeld || !sent.includes('said with a fence')) return undefined;
        isHeld = true;
        return new Promise((resolve) => (release = resolve));
      },
    });
    const sql = postgres(url, { max: 1, onnotice: () => undefined });
    const held = await open({ postgres: url, redis: gate.url });
    try {
      const { agent_id } = await held.registry.createAgent(ada, { name: 'keeper' });
      const { lease } = await held.registry.heartbeat(ada, agent_id, { holder: 'first' });
      const worker: Caller = { ...ada, kind: 'user', agentId: agent_id, fence: lease.fence };
      const ended: string[] = [];
      const note = (what: string) => () => void ended.push(what);
      const posting = held.messaging.rooms
        .post(worker, { room: 'global' }, () => ({ body: 'said with a fence', pid: '' }), null)
        .then(note('post'));
      await until(() => isHeld);
      const releasing = held.registry.releaseLease(ada, agent_id).then(note('release'));
      const locks = () =>
        sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      await until(async () => ended.length > 0 || (await locks()).length > 0);
      expect(ended).toEqual([]);
      release?.();
      await Promise.all([posting, releasing]);
      expect(ended).toEqual(['post', 'release']);
    } finally {
      release?.();
      await held.close();
      await gate.close();
      await sql.end();
    }
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
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
    await expectDeliveredOnce(stoa, outcomes, (at) => ({ room: rooms[at] ?? '', body: 'committed' }));
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
        { id: expect.any(String) as string, room_id: globalRoomId },
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
      results: [{ value: 1 }, { id: items[0]?.id, ts: isoTime(items[0]?.tsMs ?? 0) }],
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
