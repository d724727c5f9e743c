/** The search in PostgreSQL: the conformance suite over two servers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { type FindBench, findConformance, searchOf } from '../../../src/find/conformance/index.js';
import { lockKeySql } from '../../../src/homes/postgres/database/advisory-locks.js';
import { type PostgresSql, query } from '../../../src/homes/postgres/database/connection.js';
import { transaction } from '../../../src/homes/postgres/database/transaction.js';
import { PostgresFind } from '../../../src/homes/postgres/find/find.js';
import type { IndexAnswer } from '../../../src/find/port.js';
import { sharedPostgres } from '../../servers/shared.js';
import { until } from '../../until.js';
import { openData } from './open-domains.js';

/** These searches are over documents only. */
async function* noMessages(): AsyncGenerator<never> {}

/** `npm run test:find` has more of them. */
const documents = Number(process.env['FIND_DOCUMENTS'] ?? 2_500);
// The suite compares all of them several times.
vi.setConfig({ testTimeout: Math.max(120_000, documents * 30) });
const limits = limitsWith({ findWaitingMax: 256 });
let skewMs = 0;
const nowMs = (): number => Date.now() + skewMs;
const closing: (() => Promise<void>)[] = [];

function keysIn({ entries }: IndexAnswer): string[] {
  return entries.map(({ name }) => name.id);
}

async function server(url: string, isOnlyRead = false): Promise<FindBench & { sql: PostgresSql }> {
  const { port, writer, base } = await openData(url, { limits, nowMs });
  const find = new PostgresFind({
    sql: base.sql,
    writer: base.writer,
    limits,
    nowMs,
    messages: {
      read: async () => [],
      markAll: async () => undefined,
      readableRooms: async () => new Set(),
      all: noMessages,
    },
    onError: (error) => {
      throw error;
    },
    intervalMs: undefined,
    isOnlyRead,
  });
  closing.push(
    () => find.close(),
    () => port.close(),
  );
  return { data: port, writer, find, nowMs, settle: () => find.fileAll(), sql: base.sql };
}

let url = '';
findConformance(
  { describe, it, beforeAll, afterAll, afterEach, expect },
  {
    documents,
    open: async () => {
      ({ url } = await sharedPostgres());
      const bench = await server(url);
      return {
        ...bench,
        advance: (ms) => {
          skewMs += ms;
        },
        close: async () => {
          for (const close of closing) await close();
        },
      };
    },
    second: () => server(url),
  },
);

it('finds what a user wrote, however many messages wait', async () => {
  const { url: shared } = await sharedPostgres();
  const { data, writer, find, sql } = await server(shared, true);
  await query(
    sql,
    `INSERT INTO find.marks (owner, kind, collection, id)
      SELECT '', 'messages', 'room', number::text FROM generate_series(1, 20001) AS number`,
  );
  try {
    const scope = { user: 'patient', namespace: 'n' };
    const written = {
      key: 'own',
      valueJson: '"narwhal"',
      metadata: null,
      agent: null,
      ifVersion: null,
      expiresAt: null,
    };
    await writer.write({ caller: operatorCaller('patient'), idempotency: null }, [
      data.write(scope, { sets: [written], deletes: [], gets: [] }),
    ]);
    const search = searchOf('narwhal', 'patient', null, nowMs());
    const messages = { owner: 'patient', rooms: null };
    const answer = await find.search({ ...search, parts: { ...search.parts, messages } });
    expect(answer.entries.map(({ name }) => name.id)).toEqual(['own']);
    expect(answer.isComplete).toBe(false);
  } finally {
    await query(sql, "DELETE FROM find.marks WHERE owner = ''");
    for (const close of closing.splice(-2)) await close();
  }
});

it('says that it has not read all of 26,000 waiting documents, and files them for the next searches', async () => {
  const { url: shared } = await sharedPostgres();
  const [reading, filing] = [await server(shared, true), await server(shared)];
  const count = 26_000;
  try {
    await query(
      reading.sql,
      `INSERT INTO agent_data_store (_id, "userId", namespace, key, value)
        SELECT 'crowd' || number, 'crowd', 'n', 'k' || number, json_build_object('text', 'otter ' ||
            CASE number WHEN 1 THEN 'earliest' WHEN ${count} THEN 'latest' ELSE 'other' END)
          FROM generate_series(1, ${count}) AS number`,
    );
    const search = (text: string) => searchOf(text, 'crowd', null, nowMs());
    // This server files nothing, so it reads what waits.
    const part = await reading.find.search(search('earliest'));
    expect([keysIn(part), part.isComplete]).toEqual([['k1'], false]);
    expect(part.statistics.entries).toBeLessThan(count);
    await until(async () => (await filing.find.search(search('otter'))).isComplete);
    for (const { find } of [filing, reading]) {
      const all = await find.search(search('latest'));
      expect([keysIn(all), all.isComplete, all.statistics.entries]).toEqual([[`k${count}`], true, count]);
    }
  } finally {
    for (const close of closing.splice(-4)) await close();
  }
});

it('answers while segments are joined, and reads the words that wait by itself', async () => {
  const { url: shared } = await sharedPostgres();
  const { data, writer, find, sql } = await server(shared);
  try {
    const sets = Array.from({ length: limits.findWaitingMax + 1 }, (_, index) => ({
      key: `k${index}`,
      valueJson: '"walrus"',
      metadata: null,
      agent: null,
      ifVersion: null,
      expiresAt: null,
    }));
    await writer.write({ caller: operatorCaller('joined'), idempotency: null }, [
      data.write({ user: 'joined', namespace: 'n' }, { sets, deletes: [], gets: [] }),
    ]);
    await transaction(sql, async (tx) => {
      for (const lock of ['findOwner', 'findMerge'] as const) await query(tx, lockKeySql(lock), ['joined']);
      const search = find.search(searchOf('walrus', 'joined', null, nowMs()));
      // Less than a search waits for a server that files.
      const late = sleep(8_000, 'too late', { ref: false });
      expect(await Promise.race([search, late])).toMatchObject({ isComplete: true });
    });
  } finally {
    for (const close of closing.splice(-2)) await close();
  }
});
