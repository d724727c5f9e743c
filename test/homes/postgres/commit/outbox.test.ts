/** Messages of commits that wait for Redis, and how servers deliver them. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import type { Stoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { createApp, stopApp } from '../../../../src/server/app.js';
import { startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { publicRoom } from '../../../messaging/public-room.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isoTime } from '../../../../src/core/text/iso-time.js';
import { ada, saidIn, useServers } from './fixture.js';
import { eventually, until } from '../../../until.js';

const { open, redisUrl } = useServers();

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
      results: [
        { value: 1 },
        { queued: true, delivery: expect.any(String) as string, room_id: globalRoomId },
      ],
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
    await eventually(async () =>
      expect(await stoa.commit.commit(ada, both, idempotency)).toMatchObject({
        ok: true,
        results: [{ value: 1 }, { id: message?.id, ts: isoTime(message?.tsMs ?? 0) }],
      }),
    );
  });

  it('keeps messages while Redis is away, and delivers them when it is back', async () => {
    const gate = await startGate(redisUrl());
    const limits = { commitDeliveryWaitSeconds: 0.2, messageBytesPerMinuteMax: 4_000 };
    const stoa = await open({ postgres: url, redis: gate.url, limits });
    const post = (body: string, pid?: string) =>
      stoa.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body, pid }] });
    try {
      await post('before');
      await gate.close();
      await until(async () => 'redis' in (await stoa.home.operations.readiness()).degraded);
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

  it('counts no bytes of an earlier minute when Redis is back', async () => {
    const gate = await startGate(redisUrl());
    const limits = { commitDeliveryWaitSeconds: 0.2, messageBytesPerMinuteMax: 4_000 };
    const stoa = await open({ postgres: url, redis: gate.url, limits });
    const post = (body: string) =>
      stoa.commit.commit(ada, { operations: [{ op: 'room.post', room: 'global', body }] });
    try {
      await post('before');
      await gate.close();
      await until(async () => 'redis' in (await stoa.home.operations.readiness()).degraded);
      expect(await post('x'.repeat(3_950))).toMatchObject({ ok: true, results: [{ queued: true }] });
      await query(sql, "UPDATE commit_outbox SET created_at = created_at - interval '61 seconds'");
    } finally {
      await gate.open();
    }
    await until(async () => (await stoa.commit.outbox()).waiting === 0);
    const say = (body: string) =>
      stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body, pid: '' }), null);
    await say('y'.repeat(3_950));
    await expect(say('z'.repeat(50))).rejects.toMatchObject({ code: 'rate_limited' });
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
    const gate = await startGate(redisUrl());
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
    const client = new Redis(redisUrl());
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

  it('is emptied by another server if the server that committed is gone, behind many that are not due', async () => {
    const options = {
      postgres: url,
      redis: redisUrl(),
      limits: { commitDeliveryWaitSeconds: 0.2 },
    };
    const one = await open(options);
    const release = await holdRoom();
    expect(await one.commit.commit(ada, both)).toMatchObject({
      ok: true,
      results: [{ value: 1 }, { queued: true }],
    });
    await one.close();
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

  it('is emptied by another server if the server that committed has lost Redis', async () => {
    const gate = await startGate(redisUrl());
    const limits = { commitDeliveryWaitSeconds: 0.2 };
    const cut = await open({ postgres: url, redis: gate.url, limits });
    await gate.close();
    try {
      expect(await cut.commit.commit(ada, both)).toMatchObject({ ok: true, results: [{}, { queued: true }] });
      // It begins to deliver while the other one does not exist yet, so it has every turn.
      await until(async () => {
        const [row] = await query<{ attempts: number }>(sql, 'SELECT attempts FROM commit_outbox');
        return (row?.attempts ?? 0) > 1;
      });
      const other = await open({ postgres: url, limits });
      await until(async () => (await cut.commit.outbox()).waiting === 0);
      expect(await saidIn(other)).toEqual(['later']);
    } finally {
      await cut.close();
      await gate.close();
    }
  });

  it('delivers every message once while two servers commit to the same keys', async () => {
    const options = {
      postgres: url,
      redis: redisUrl(),
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
