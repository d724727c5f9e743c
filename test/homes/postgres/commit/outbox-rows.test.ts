/** The rows of the outbox, without a server. */
import { randomUUID } from 'node:crypto';
import { CommitOutbox } from '../../../../src/homes/postgres/commit/outbox.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import { StoaError } from '../../../../src/core/errors.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import type { Delivery } from '../../../../src/homes/postgres/messaging/redis/deliveries.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { refuseLargeStatements } from '../../../servers/bounded-statements.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../until.js';

describe('the rows of the outbox', () => {
  let sql: PostgresSql;
  let url: URL;

  beforeEach(async () => {
    url = new URL((await sharedPostgres()).url);
    sql = await openPostgres(url, { connectionsMax: 2 });
  });
  afterEach(() => sql.end());

  it('does not hold up an answer, also if its table is locked', async () => {
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

  it('retries while messaging is unavailable; later messages wait', async () => {
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

  it('is emptied although messaging is too slow for all of it in one transaction', async () => {
    const limits = limitsWith({ commitIdleSecondsMax: 1 });
    const pool = await openPostgres(url, { connectionsMax: 2, idleTransactionSecondsMax: 1 });
    const port = {
      deliver: async () => {
        await new Promise((resolve) => setTimeout(resolve, 60));
        return { id: randomUUID(), tsMs: 1 };
      },
    };
    const outbox = new CommitOutbox({ sql: pool, port, limits, onError: () => undefined });
    const message = { to: randomUUID(), from: randomUUID(), body: 'b', proof: null, serverSigned: false };
    await sql.begin(async (tx) => {
      for (let made = 0; made < 30; made += 1)
        await outbox.add(tx, 'ada', { delivery: randomUUID(), message }, false);
    });
    await outbox.sweep();
    expect(await outbox.facts()).toMatchObject({ waiting: 0, undeliverable: 0 });
    await outbox.close();
    await pool.end();
  });

  it('gives up after the configured time, and deletes old rows', async () => {
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
});
