import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Stoa, type StoaError } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa as OpenedStoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';

let opened: OpenedStoa;
let stoa: Stoa;
let operator: Stoa;
let url: string;
let stop: () => Promise<void>;

beforeAll(async () => {
  opened = await openStoa({
    data: 'unused',
    engine: 'memory',
    limits: { leaseSeconds: 2, leaseGraceSeconds: 1 },
    sweepIntervalMs: 50,
  });
  const app = createApp(opened);
  await app.listen({ host: '127.0.0.1', port: 0 });
  // A TCP server that listens has an AddressInfo.
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  operator = new Stoa({ url, token: opened.operatorToken });
  const { token } = await operator.admin.tokens.create('ada', { name: 'test' });
  stoa = new Stoa({ url, token, agent: 'tester', retryDelayMs: 5 });
  stop = async () => {
    await stopApp(app, 5);
    await opened.close();
  };
});

afterAll(() => stop());

describe('agents through the client', () => {
  it('are made once under one key, moved, listed and removed', async () => {
    const agent = await stoa.agents.create(
      { name: 'scout', labels: { team: 'red' } },
      { idempotencyKey: 'once' },
    );
    expect(
      await stoa.agents.create({ name: 'scout', labels: { team: 'red' } }, { idempotencyKey: 'once' }),
    ).toEqual(agent);
    expect((await stoa.agents.start(agent.agent_id)).status).toBe('running');
    expect(
      (await stoa.agents.update(agent.agent_id, { labels: { team: 'blue' } }, { ifVersion: 2 })).version,
    ).toBe(3);
    await expect(
      stoa.agents.update(agent.agent_id, { name: 'late' }, { ifVersion: 2 }),
    ).rejects.toMatchObject({ code: 'version_conflict' });
    expect((await stoa.agents.list({ label: 'team=blue' })).items.map(({ agent_id }) => agent_id)).toEqual([
      agent.agent_id,
    ]);
    const session = await stoa.agents.openSession(agent.agent_id);
    expect((await stoa.agents.listSessions(agent.agent_id, { status: 'active' })).items).toHaveLength(1);
    expect(await stoa.agents.getSession(agent.agent_id, session.session_id)).toEqual(session);
    expect((await stoa.agents.closeSession(agent.agent_id, session.session_id)).status).toBe('closed');
    await stoa.agents.stop(agent.agent_id);
    await stoa.agents.stop(agent.agent_id);
    await stoa.agents.delete(agent.agent_id);
    await expect(stoa.agents.get(agent.agent_id)).rejects.toMatchObject({ code: 'not_found' });
  });

  it('a lease is renewed automatically, and its loss is reported once', async () => {
    const { agent_id } = await stoa.agents.create({ name: 'keeper' });
    const lost: StoaError[] = [];
    const lease = await stoa.agents.keepAlive(agent_id, {
      holder: 'first',
      onLost: (reason) => lost.push(reason),
    });
    const takenAt = lease.lease.expires_at;
    await expect.poll(() => lease.lease.expires_at > takenAt).toBe(true);
    expect(lost).toEqual([]);
    // The operator gives the lease to another holder.
    await opened.registry.releaseLease(operatorCaller('ada'), agent_id);
    await stoa.agents.heartbeat(agent_id, { holder: 'second' });
    await expect.poll(() => lost.length).toBe(1);
    expect(lost[0]?.code).toBe('fenced');
    lease.stop();
  });
});

describe('the feed and commits through the client', () => {
  it('shows a commit as one page, and continues from a position', async () => {
    const { position } = await stoa.changes.read();
    const outcome = await stoa.commit({
      operations: [
        { op: 'data.set', key: 'a', value: 1 },
        { op: 'data.set', key: 'b', value: 2 },
      ],
    });
    expect(outcome.ok).toBe(true);
    const stopped = new AbortController();
    for await (const { items } of stoa.changes.follow({
      topics: ['data'],
      since: position,
      signal: stopped.signal,
    })) {
      expect(items.map(({ facts }) => facts?.['key'])).toEqual(['a', 'b']);
      expect(new Set(items.map(({ seq }) => seq)).size).toBe(1);
      stopped.abort();
    }
  });

  it('a conflict is an answer', async () => {
    const outcome = await stoa.commit({
      checks: [{ check: 'data', key: 'a', version: 9 }],
      operations: [{ op: 'data.set', key: 'a', value: 3 }],
    });
    expect(outcome).toMatchObject({ ok: false, failed: { check: 0, code: 'version_conflict' } });
  });

  it("sessions are opened once under one key and under an id of the caller's own, and not by a former holder", async () => {
    const { agent_id: id } = await stoa.agents.create({ name: 'talker' });
    await stoa.agents.start(id);
    const { fence } = (await stoa.agents.heartbeat(id)).lease;
    const body = { session_id: '550e8400-e29b-41d4-a716-446655440000' };
    const settings = { idempotencyKey: 'talk', fence };
    const session = await stoa.agents.openSession(id, body, settings);
    expect(await stoa.agents.openSession(id, body, settings)).toEqual(session);
    expect(session.session_id).toBe(body.session_id);
    await expect(stoa.agents.openSession(id, {}, { fence: fence - 1 })).rejects.toMatchObject({
      code: 'fenced',
    });
    await expect(
      stoa.agents.closeSession(id, session.session_id, { fence: fence - 1 }),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect((await stoa.agents.closeSession(id, session.session_id, { fence })).status).toBe('closed');
  });

  // "~Ym9i" would be the bytes of "bob".
  it.each(['~Ym9i', '..', '.', '~', 'a/b', '%2e'])(
    'the operator reaches the user "%s" and no other',
    async (user) => {
      expect((await operator.admin.users.set(user, { email: 'someone@example.com' })).user).toBe(user);
      const { token, token_id } = await operator.admin.tokens.create(user);
      const theirs = new Stoa({ url, token });
      expect((await theirs.agents.create({ name: 'own' })).user).toBe(user);
      await operator.admin.tokens.revoke(user, { token: token_id });
      await expect(theirs.agents.list()).rejects.toMatchObject({ code: 'unauthenticated' });
    },
  );

  it('a user name with a lone surrogate is refused', async () => {
    await expect(operator.admin.tokens.create('\ud800')).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('the operator sees users and the state of the server', async () => {
    expect(await operator.admin.status()).toMatchObject({ writes: 'ok', engine: 'memory' });
    expect((await operator.admin.users.list()).items.map(({ user }) => user)).toContain('ada');
    await expect(stoa.admin.status()).rejects.toMatchObject({ code: 'forbidden' });
  });
});
