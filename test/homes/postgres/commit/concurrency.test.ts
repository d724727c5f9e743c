/** Commits on PostgreSQL that run at once, repeat, or meet a quota. */
import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import { StoaError } from '../../../../src/core/errors.js';
import type { Stoa } from '../../../../src/index.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { beforeEach, describe, expect, it } from 'vitest';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { until } from '../../../until.js';
import { ada, expectDeliveredOnce, saidIn, project, useServers } from './fixture.js';

const { open } = useServers();

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

/** Forty commits at once, each with two increments and a message. */
async function incrementAndPost(on: Stoa): Promise<{ queued: number }> {
  const outcomes = await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      on.commit.commit(ada, {
        operations: [
          { op: 'data.increment', key: index % 2 === 0 ? 'x' : 'y' },
          { op: 'data.increment', key: index % 2 === 0 ? 'y' : 'x' },
          { op: 'room.post', room: 'global', body: String(index) },
        ],
      }),
    ),
  );
  expect(outcomes.every(({ ok }) => ok)).toBe(true);
  return {
    queued: await expectDeliveredOnce(on, outcomes, (at) => ({ room: globalRoomId, body: String(at) })),
  };
}

describe('commits in PostgreSQL that run at once', () => {
  let stoa: Stoa;
  let url: string;
  const commit = (input: CommitInput, caller = ada) => stoa.commit.commit(caller, input);

  beforeEach(async () => {
    url = (await sharedPostgres()).url;
    stoa = await open({ postgres: url });
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
    await incrementAndPost(stoa);
    expect([await stoa.data.get(ada, 'default', 'x'), await stoa.data.get(ada, 'default', 'y')]).toEqual([
      40, 40,
    ]);
  });

  it('a message with an id is in its room at once, and a queued one arrives later, once', async () => {
    const hurried = await open({ postgres: url, limits: { commitDeliveryWaitSeconds: 0.001 } });
    expect(await incrementAndPost(hurried)).not.toEqual({ queued: 0 });
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

  it('a commit that loses a deadlock over one of its documents runs again', async () => {
    await stoa.data.setMany(ada, 'default', { a: 0, b: 0, c: 0 });
    const database = await openPostgres(new URL(url), { connectionsMax: 2 });
    const lock = 'SELECT FROM agent_data_store WHERE key = $1 FOR UPDATE';
    /** True if the commit lost: PostgreSQL ends the transaction that first looks for a deadlock. */
    const meet = async (): Promise<boolean> => {
      let committed: Promise<unknown> = Promise.resolve();
      const other = database.begin(async (tx) => {
        await query(tx, "SET LOCAL deadlock_timeout = '5s'");
        await query(tx, lock, ['b']);
        // The documents are read in the order of their names, but the operations run in this order.
        const operations = ['c', 'a', 'b'].map((key) => ({ op: 'data.increment' as const, key }));
        committed = commit({ operations });
        await until(async () => {
          const [row] = await query<{ waiting: number }>(
            database,
            `SELECT count(*)::int AS waiting FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock'`,
          );
          return (row?.waiting ?? 0) > 0;
        });
        await query(tx, lock, ['a']);
      });
      const [{ status }] = await Promise.allSettled([other]);
      expect(await committed).toMatchObject({ ok: true });
      return status === 'fulfilled';
    };
    try {
      let rounds = 1;
      while (!(await meet())) rounds += 1;
      const counts = await stoa.data.getMany(ada, 'default', ['a', 'b', 'c']);
      expect(Object.values(counts)).toEqual([rounds, rounds, rounds]);
    } finally {
      await database.end();
    }
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

  it('counts what another server is about to commit against the quota', async () => {
    const strict = await open({ postgres: url, limits: { dataDocumentsPerUserMax: 1 } });
    const sql = postgres(url, { max: 2, onnotice: () => undefined });
    try {
      let setting: Promise<unknown> | undefined;
      // The other server: it has the lock of the sums, and its document is not committed yet.
      await sql.begin(async (tx) => {
        await tx`SELECT pg_advisory_xact_lock(hashtextextended('ada', 0))`;
        await tx`INSERT INTO agent_data_store (_id, "userId", namespace, key, value)
          VALUES ('id', 'ada', 'n', 'first', '1')`;
        let isOver = false;
        setting = strict.data.set(ada, 'n', 'second', 2).finally(() => (isOver = true));
        setting.catch(() => undefined);
        await until(async () => {
          const waiting = await sql`SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'`;
          return isOver || waiting.length > 0;
        });
      });
      await expect(setting).rejects.toMatchObject({ code: 'quota_exceeded' });
    } finally {
      await sql.end();
    }
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
      results: [
        { value: 1 },
        { id: expect.any(String) as string, ts: expect.stringMatching(/^20.*Z$/) as string },
      ],
    });
    expect(again.every(({ ok }) => ok)).toBe(true);
    expect(await stoa.data.get(ada, 'default', 'n')).toBe(1);
    expect(await saidIn(stoa)).toEqual(['once']);
    await expect(stoa.commit.commit(ada, input, { ...idempotency, fingerprint: 'g' })).rejects.toMatchObject({
      code: 'idempotency_mismatch',
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
});
