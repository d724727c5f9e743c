import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type PostgresSql, query } from '../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../src/homes/postgres/database/transaction.js';
import { type Caller, operatorCaller } from '../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { ReadyWaiters } from '../../../src/workspaces/tasks/ready-waiters.js';
import { sharedPostgres, sharedRedis } from '../../servers/shared.js';
import { eventually } from '../../until.js';
import { projectOf } from './project-of.js';

afterEach(() => vi.restoreAllMocks());

describe('in PostgreSQL', () => {
  const alice = operatorCaller('alice');
  let stoa: Stoa;
  let sql: PostgresSql;
  let caller: Caller;

  beforeAll(async () => {
    const { url } = await sharedPostgres();
    stoa = await openStoa({
      postgres: url,
      redis: (await sharedRedis()).url,
      secretKeys: '00'.repeat(32),
      onError: () => undefined,
    });
    sql = await openPostgres(new URL(url));
  });
  afterAll(async () => {
    await sql.end();
    await stoa.close();
  });
  beforeEach(async () => {
    const { agent_id } = await stoa.registry.createAgent(alice, { name: `worker ${randomUUID()}` });
    const { lease } = await stoa.registry.heartbeat(alice, agent_id, { holder: 'first' });
    caller = { ...alice, kind: 'agent', agentId: agent_id, fence: lease.fence };
  });

  test('fenced writes are measured as others are', async () => {
    const calls: string[] = [];
    const stop = stoa.onBackendCall(({ domain, backend, verb, failed }) =>
      calls.push(`${domain} ${backend} ${verb} ${failed}`),
    );
    await stoa.data.set(caller, 'measured', 'k', 1);
    await stoa.data.increment(caller, 'measured', 'k');
    await stoa.workspaces.createWorkspace(caller, { name: 'measured' });
    await stoa.registry.releaseLease(alice, caller.agentId ?? '');
    await expect(stoa.data.set(caller, 'measured', 'k', 2)).rejects.toMatchObject({ code: 'fenced' });
    stop();
    expect(calls).toEqual(
      expect.arrayContaining(['home postgres transaction false', 'home postgres transaction true']),
    );
  });

  /** Starts a write while another transaction holds the row, and releases the lease before the row. */
  async function losingTheLease(lock: string, write: () => Promise<unknown>): Promise<unknown> {
    let writing: Promise<unknown> | undefined;
    await transaction(sql, async (tx) => {
      await query(tx, lock);
      writing = write().catch((error: unknown) => error);
      await eventually(async () =>
        expect(
          await query(
            sql,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          ),
        ).not.toEqual([]),
      );
      await stoa.registry.releaseLease(alice, caller.agentId ?? '');
    });
    return writing;
  }

  test('a write of the holder succeeds, and a write whose lease is lost before the commit changes nothing', async () => {
    await stoa.data.set(caller, 'notes', 'key', 1);
    const writes = [
      () => stoa.data.set(caller, 'notes', 'key', 2),
      () => stoa.data.increment(caller, 'notes', 'key'),
      () => stoa.data.delete(caller, 'notes', 'key'),
      () =>
        stoa.commit.commit(caller, {
          operations: [{ op: 'data.set', namespace: 'notes', key: 'key', value: 2 }],
        }),
    ];
    for (const write of writes) {
      const { lease } = await stoa.registry.heartbeat(alice, caller.agentId ?? '', { holder: 'first' });
      caller = { ...caller, fence: lease.fence };
      expect(
        await losingTheLease(`SELECT 1 FROM agent_data_store WHERE key = 'key' FOR UPDATE`, write),
      ).toMatchObject({ code: 'fenced' });
    }
    await expect(stoa.data.clear(caller, 'notes')).rejects.toMatchObject({ code: 'fenced' });
    expect(await stoa.data.getEntry(alice, 'notes', 'key')).toMatchObject({ value: 1, version: 1 });
  });

  test('a waiting claim is refused when its lease was lost, and the next waiting caller gets the task', async () => {
    const { project, session } = await projectOf(stoa, 'waiting');
    const wait = waitsOfClaims();
    const late = stoa.workspaces.claimTask(caller, project, { wait: 30 }).catch((error: unknown) => error);
    await eventually(() => expect(wait).toHaveBeenCalledTimes(1));
    const next = stoa.workspaces.claimTask(alice, project, { wait: 30 });
    await eventually(() => expect(wait).toHaveBeenCalledTimes(2));
    await stoa.registry.releaseLease(alice, caller.agentId ?? '');
    const task = await stoa.workspaces.createTask(alice, session, { command: 'once' });
    expect(await late).toMatchObject({ code: 'fenced' });
    expect((await next)?.task.id).toBe(task.id);
    expect(
      await losingTheLease('LOCK TABLE workspaces.sessions IN EXCLUSIVE MODE', () =>
        stoa.workspaces.createSession(caller, project, {}),
      ),
    ).toMatchObject({ code: 'fenced' });
  });
});

/** Called when a claim has found nothing and begins to wait. */
function waitsOfClaims(): ReturnType<typeof vi.fn> {
  const begun = vi.fn();
  const { enter } = ReadyWaiters.prototype;
  vi.spyOn(ReadyWaiters.prototype, 'enter').mockImplementation(function (this: ReadyWaiters, ...line) {
    const ticket = enter.call(this, ...line);
    const wait: typeof ticket.wait = (...given) => {
      begun();
      return ticket.wait(...given);
    };
    return { ...ticket, wait };
  });
  return begun;
}
