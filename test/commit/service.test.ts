import { kernelOf } from '../kernel-of.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import { aicqSignedText, sign, signingKeysOf } from '../../src/identity/signatures.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from '../messaging/public-room.js';

let stoa: Stoa;
const ada = operatorCaller('ada', 'planner');
const bob = operatorCaller('bob');

beforeEach(async () => {
  stoa = await openStoa({ data: 'unused', engine: 'memory' });
});

afterEach(async () => {
  await stoa.close();
});

async function roomOf(id: string) {
  const room = await stoa.messaging.rooms.find(null, id);
  const { items } = await stoa.messaging.port.messages(publicRoom(room.id), { beforeMs: null, limit: 10 });
  return { messages: items };
}

describe('a commit', () => {
  it('does operations of several domains in one step of the feed', async () => {
    const agent = await stoa.registry.createAgent(ada, { name: 'scout' });
    const before = kernelOf(stoa).root.sequence;
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'plan', value: { go: true } },
        { op: 'data.increment', key: 'plans', by: 2 },
        { op: 'data.increment', key: 'plans' },
        { op: 'data.append', namespace: 'log', key: 'lines', items: ['started'] },
        { op: 'agent.update', agent_id: agent.agent_id, status: 'running', if_version: 1 },
      ],
    });
    expect(outcome).toMatchObject({
      ok: true,
      results: [
        { version: 1 },
        { value: 2 },
        { value: 3, version: 2 },
        { version: 1, sizeBytes: 11 },
        { status: 'running', version: 2 },
      ],
    });
    expect(kernelOf(stoa).root.sequence).toBe(before + 1);
    expect(await stoa.data.get(ada, 'default', 'plans')).toBe(3);
  });

  it('changes a bounded amount of data, so that a short request cannot cause a huge answer', async () => {
    const small = await openStoa({
      data: 'unused',
      engine: 'memory',
      limits: { commitModifiedBytesMax: 5_000 },
    });
    try {
      await small.data.set(ada, 'default', 'list', ['x'.repeat(1_000)]);
      const append = { op: 'data.append' as const, key: 'list', items: [1] };
      await expect(
        small.commit.commit(ada, { operations: Array.from({ length: 5 }, () => append) }),
      ).rejects.toMatchObject({
        code: 'too_large',
        details: { operation: 4, commitModifiedBytesMax: 5_000 },
      });
      expect(await small.data.getEntry(ada, 'default', 'list')).toMatchObject({ version: 1 });
      expect(
        await small.commit.commit(ada, { operations: Array.from({ length: 4 }, () => append) }),
      ).toMatchObject({ ok: true });
    } finally {
      await small.close();
    }
  });

  it('runs several operations of one key in order, each on the version of the one before', async () => {
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'k', value: 1, if_version: 0 },
        { op: 'data.set', key: 'k', value: 2, if_version: 1 },
        { op: 'data.increment', key: 'k', by: 3, if_version: 2 },
        { op: 'data.delete', key: 'k', if_version: 3 },
        { op: 'data.set', key: 'k', value: 'again', if_version: 0 },
      ],
    });
    expect(outcome).toMatchObject({
      ok: true,
      results: [{ version: 1 }, { version: 2 }, { version: 3, value: 5 }, { deleted: true }, { version: 1 }],
    });
    const late = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'k', value: 2 },
        { op: 'data.set', key: 'k', value: 3, if_version: 1 },
      ],
    });
    expect(late).toMatchObject({ ok: false, failed: { operation: 1, code: 'version_conflict' } });
    expect(await stoa.data.getEntry(ada, 'default', 'k')).toMatchObject({ value: 'again', version: 1 });
  });

  it('does nothing when a check does not hold, and names it', async () => {
    await stoa.data.set(ada, 'default', 'plan', 1);
    const outcome = await stoa.commit.commit(ada, {
      checks: [
        { check: 'data', key: 'plan', version: 1 },
        { check: 'data', key: 'lock', version: 4 },
      ],
      operations: [{ op: 'data.set', key: 'plan', value: 2 }],
    });
    expect(outcome).toMatchObject({ ok: false, failed: { check: 1, code: 'version_conflict' } });
    expect(await stoa.data.get(ada, 'default', 'plan')).toBe(1);
  });

  it('does nothing when an operation meets a conflict, and names it', async () => {
    await stoa.data.set(ada, 'default', 'taken', 1);
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'free', value: 1 },
        { op: 'data.set', key: 'taken', value: 2, if_version: 0 },
      ],
    });
    expect(outcome).toMatchObject({ ok: false, failed: { operation: 1, code: 'version_conflict' } });
    expect(await stoa.data.get(ada, 'default', 'free')).toBeUndefined();
  });

  it('invalid input is an error that names the operation', async () => {
    const commit = stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'free', value: 1 },
        { op: 'data.set', key: '', value: 2 },
      ],
    });
    await expect(commit).rejects.toMatchObject({ code: 'invalid_request', details: { operation: 1 } });
    expect(await stoa.data.get(ada, 'default', 'free')).toBeUndefined();
  });

  it("another user's agent is not found", async () => {
    const agent = await stoa.registry.createAgent(ada, { name: 'scout' });
    const commit = stoa.commit.commit(bob, {
      operations: [{ op: 'agent.update', agent_id: agent.agent_id, status: 'running' }],
    });
    await expect(commit).rejects.toMatchObject({ code: 'not_found' });
    const check = await stoa.commit.commit(bob, {
      checks: [{ check: 'agent', agent_id: agent.agent_id, version: 1 }],
      operations: [{ op: 'data.increment', key: 'n' }],
    });
    expect(check).toMatchObject({ ok: false, failed: { check: 0 } });
  });

  it("a signed agent learns nothing of its user's other agents by checking them", async () => {
    const own = await stoa.registry.createAgent(ada, { name: 'scout' });
    const other = await stoa.registry.createAgent(ada, { name: 'other' });
    const scout: Caller = { ...ada, kind: 'agent', everyUser: false, agentId: own.agent_id };
    const commit = (agent_id: string) =>
      stoa.commit.commit(scout, {
        checks: [
          { check: 'lease', agent_id, fence: 0 },
          { check: 'agent', agent_id, version: 1 },
        ],
        operations: [{ op: 'data.increment', key: 'n' }],
      });
    expect(await commit(own.agent_id)).toMatchObject({ ok: true });
    await expect(commit(other.agent_id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('a former holder is refused by its fencing number', async () => {
    const { agent_id } = await stoa.registry.createAgent(ada, { name: 'scout' });
    const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'first' });
    const holds = await stoa.commit.commit(ada, {
      checks: [{ check: 'lease', agent_id, fence: lease.fence }],
      operations: [{ op: 'data.increment', key: 'n' }],
    });
    const late = await stoa.commit.commit(ada, {
      checks: [{ check: 'lease', agent_id, fence: lease.fence - 1 }],
      operations: [{ op: 'data.increment', key: 'n' }],
    });
    expect([holds.ok, late.ok]).toEqual([true, false]);
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
  });

  it('a claim whose lease has lapsed does not hold, swept or not', async () => {
    let nowMs = Date.now();
    const slow = await openStoa({
      data: 'unused',
      engine: 'memory',
      clock: () => nowMs,
      sweepIntervalMs: 3_600_000,
    });
    try {
      const workspace = await slow.workspaces.createWorkspace(ada, { name: 'w' });
      const project = await slow.workspaces.createProject(ada, workspace.id, { name: 'p' });
      const session = await slow.workspaces.createSession(ada, project.id, { status: 'active' });
      const task = await slow.workspaces.createTask(ada, session.id, { command: 'c' });
      await slow.workspaces.claimTask(ada, project.id, { lease_seconds: 10 });
      const attempt = () =>
        slow.commit.commit(ada, {
          checks: [{ check: 'claim', task_id: task.id, fence: 1 }],
          operations: [{ op: 'data.increment', key: 'n' }],
        });
      expect((await attempt()).ok).toBe(true);
      nowMs += 11_000;
      expect(await attempt()).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
      expect(await slow.data.get(ada, 'default', 'n')).toBe(1);
    } finally {
      await slow.close();
    }
  });

  it('a repeat under the same key changes nothing and answers the same', async () => {
    const idempotency = { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 };
    const operations = [{ op: 'data.increment' as const, key: 'n' }];
    const first = await stoa.commit.commit(ada, { operations }, idempotency);
    const again = await stoa.commit.commit(ada, { operations }, idempotency);
    expect(again).toEqual(first);
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
  });

  it('of concurrent commits for one version, exactly one succeeds', async () => {
    const race = Array.from({ length: 50 }, (_, index) =>
      stoa.commit.commit(ada, {
        checks: [{ check: 'data', key: 'leader', version: null }],
        operations: [
          { op: 'data.set', key: 'leader', value: index },
          { op: 'data.increment', key: 'winners' },
        ],
      }),
    );
    const outcomes = await Promise.all(race);
    expect(outcomes.filter(({ ok }) => ok)).toHaveLength(1);
    expect(await stoa.data.get(ada, 'default', 'winners')).toBe(1);
  });

  it('posts to a room in the same step, in the name of the caller', async () => {
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'result', value: 42 },
        { op: 'room.post', room: 'global', body: 'the result is in' },
      ],
    });
    const { messages } = await roomOf('global');
    expect(outcome).toMatchObject({ ok: true, results: [{ version: 1 }, { id: messages[0]?.id }] });
    expect(messages).toMatchObject([{ body: 'the result is in', serverSigned: true }]);
    expect(
      kernelOf(stoa)
        .feed.read()
        .commits.at(-1)
        ?.changes.map(({ kind }) => kind),
    ).toEqual(expect.arrayContaining(['document.set', 'message.posted']));
  });

  it('posts nothing when something else meets a conflict', async () => {
    await stoa.data.set(ada, 'default', 'taken', 1);
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'room.post', room: 'global', body: 'never said' },
        { op: 'data.set', key: 'taken', value: 2, if_version: 0 },
      ],
    });
    expect(outcome.ok).toBe(false);
    expect((await roomOf('global')).messages).toEqual([]);
  });

  it('a private room is refused without its key', async () => {
    const token: Caller = { ...ada, kind: 'user' };
    const room = await stoa.messaging.rooms.create(
      token,
      { name: 'secret', is_private: true, key: 'a key of sixteen characters', owner: null },
      null,
    );
    const post = (key?: string) =>
      stoa.commit.commit(token, {
        operations: [{ op: 'room.post', room: room.id, body: 'psst', ...(key !== undefined && { key }) }],
      });
    await expect(post()).rejects.toMatchObject({ code: 'forbidden' });
    expect((await post('a key of sixteen characters')).ok).toBe(true);
  });

  it("an operation may carry an agent's own signature, once", async () => {
    const { secretKey, publicKey } = signingKeysOf(Buffer.alloc(32, 7));
    const { identity } = await writtenPort(stoa.messaging).register({
      publicKey: publicKey.toString('base64'),
      name: 'signer',
      email: null,
      proven: true,
    });
    const request = JSON.stringify({ body: 'signed by me' });
    const nonce = 'n'.repeat(24);
    const timestamp = String(Date.now());
    const signature = sign(secretKey, aicqSignedText(Buffer.from(request), nonce, timestamp)).toString(
      'base64',
    );
    const operation = {
      op: 'room.post' as const,
      room: 'global',
      body: 'signed by me',
      signed: { agent: identity.id, nonce, timestamp, signature, request },
    };
    expect((await stoa.commit.commit(ada, { operations: [operation] })).ok).toBe(true);
    expect((await roomOf('global')).messages).toMatchObject([{ from: identity.id, serverSigned: false }]);
    await expect(stoa.commit.commit(ada, { operations: [operation] })).rejects.toThrow('nonce already used');
    // Unless it is the repeat of a request whose answer was lost.
    const [idempotency, fresh] = [{ scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 }, 'm'.repeat(24)];
    const resigned = sign(secretKey, aicqSignedText(Buffer.from(request), fresh, timestamp)).toString(
      'base64',
    );
    const again = {
      operations: [{ ...operation, signed: { ...operation.signed, nonce: fresh, signature: resigned } }],
    };
    const first = await stoa.commit.commit(ada, again, idempotency);
    expect(await stoa.commit.commit(ada, again, idempotency)).toEqual(first);
    await expect(
      stoa.commit.commit(ada, { operations: [{ ...operation, body: 'something else' }] }),
    ).rejects.toMatchObject({ code: 'invalid_request' });
  });
});
