/** The search in PostgreSQL beside PostgreSQL's own `ts_rank`. */
import { join } from 'node:path';
import { limitsWith } from '../../src/core/settings/limits.js';
import type { CorpusShape, MadeDocument } from '../../src/find/conformance/corpus.js';
import { searchOf } from '../../src/find/conformance/index.js';
import { openPostgresBase } from '../../src/homes/postgres/base.js';
import { type PostgresSql, query } from '../../src/homes/postgres/database/connection.js';
import { PostgresFind } from '../../src/homes/postgres/find/find.js';
import { migrate } from '../../src/homes/postgres/database/migrate.js';
import { workspacesTables } from '../../src/homes/postgres/workspaces/schema.js';
import type { Row } from '../frame.js';
import { startPostgres } from '../postgres-server.js';
import { batchesOf } from './queries.js';
import { type Part, type Searched, filledOnce, timed, told } from './system.js';

/** These searches are over documents only. */
async function* noMessages(): AsyncGenerator<never> {}

/** The index of `ts_rank` over a million documents is made in one statement. */
const limits = limitsWith({ statementSecondsMax: 3_600 });
const rowsPerStatement = 500;

interface Opened {
  readonly sql: PostgresSql;
  readonly find: PostgresFind;
  close(): Promise<void>;
}

export async function openPostgres(directory: string, corpus: CorpusShape): Promise<Searched> {
  const path = join(directory, `postgres-${corpus.documents}`);
  const { sql, find, close } = await open(path);
  const rows = await filledOnce(path, corpus, {
    part: (part) => fill({ sql, find }, part),
    end: (sums) => filed(sql, sums),
  });
  return {
    rows,
    searches: [
      {
        name: 'PostgreSQL',
        isOurs: true,
        ask: ({ text, user, namespace }) =>
          timed(() => find.search(searchOf(text, user, namespace === null ? null : [namespace], Date.now()))),
      },
      {
        name: 'ts_rank',
        isOurs: false,
        ask: ({ text, user, namespace }) =>
          timed(() =>
            query(
              sql,
              `SELECT key FROM agent_data_store, websearch_to_tsquery('english', $1) q WHERE words @@ q
                AND "userId" = $2 AND ($3::text IS NULL OR namespace = $3) ORDER BY ts_rank(words, q) DESC LIMIT 10`,
              [text.split(' ').join(' or '), user, namespace],
            ),
          ),
      },
    ],
    close,
  };
}

function onError(error: unknown): void {
  process.stderr.write(`${String(error)}\n`);
}

async function open(path: string): Promise<Opened> {
  const server = await startPostgres(path);
  const base = await openPostgresBase(new URL(server.url), {
    limits,
    checkFence: async () => undefined,
    onError,
  });
  await migrate(base.sql, workspacesTables);
  const find = new PostgresFind({
    sql: base.sql,
    writer: base.writer,
    limits,
    nowMs: Date.now,
    messages: {
      read: async () => [],
      markAll: async () => undefined,
      readableRooms: async () => new Set(),
      all: noMessages,
    },
    onError,
    intervalMs: undefined,
    isOnlyRead: false,
  });
  return {
    sql: base.sql,
    find,
    close: async () => {
      await find.close();
      await base.close();
      await server.stop();
    },
  };
}

async function fill(
  { sql, find }: Pick<Opened, 'sql' | 'find'>,
  part: Part,
): Promise<{ withMarksMs: number; withoutMarksMs: number }> {
  // By turns, so that a busy moment of the machine falls on both: with marks, and without.
  let [withMarksMs, withoutMarksMs, turn] = [0, 0, 0];
  for (const documents of batchesOf(part, rowsPerStatement)) {
    const hasMarks = turn % 2 === 0;
    await query(
      sql,
      `ALTER TABLE agent_data_store ${hasMarks ? 'ENABLE' : 'DISABLE'} TRIGGER mark_documents_insert`,
    );
    const tookMs = await timed(() => insert(sql, documents));
    if (hasMarks) withMarksMs += tookMs;
    else {
      withoutMarksMs += tookMs;
      await mark(sql, documents);
    }
    turn += 1;
  }
  await query(sql, 'ALTER TABLE agent_data_store ENABLE TRIGGER mark_documents_insert');
  await told('PostgreSQL: filed', () => find.fileAll());
  return { withMarksMs, withoutMarksMs };
}

async function mark(sql: PostgresSql, documents: readonly MadeDocument[]): Promise<void> {
  await query(
    sql,
    `INSERT INTO find.marks (owner, kind, collection, id)
      SELECT u, 'data', n, k FROM unnest($1::text[], $2::text[], $3::text[]) AS g (u, n, k)`,
    [
      documents.map(({ user }) => user),
      documents.map(({ namespace }) => namespace),
      documents.map(({ key }) => key),
    ],
  );
}

async function filed(sql: PostgresSql, sums: Readonly<Record<string, number>>): Promise<Row[]> {
  // Joined segments leave rows that PostgreSQL uses again after a vacuum.
  const filed = await sizes(sql);
  for (const table of ['segments', 'blocks', 'marks']) await query(sql, `VACUUM FULL find.${table}`);
  const packed = await sizes(sql);
  await told("PostgreSQL's own index", async () => {
    await query(
      sql,
      `ALTER TABLE agent_data_store ADD IF NOT EXISTS words tsvector GENERATED ALWAYS AS (to_tsvector('english', value::text)) STORED`,
    );
    await query(sql, 'CREATE INDEX IF NOT EXISTS words_gin ON agent_data_store USING gin (words)');
    await query(sql, 'VACUUM ANALYZE agent_data_store');
  });
  await query(sql, 'VACUUM ANALYZE find.blocks');
  return [
    {
      what: 'PostgreSQL: filling with marks, against without',
      ours: sums['withMarksMs'] ?? 0,
      reference: sums['withoutMarksMs'] ?? 0,
      unit: 'ms',
      target: { atMost: 1.5 },
    },
    {
      what: 'PostgreSQL: bytes of the index right after filing, against the text',
      ours: filed.index,
      reference: filed.text,
      unit: 'bytes',
    },
    {
      what: 'PostgreSQL: bytes of the index after VACUUM FULL, against the text',
      ours: packed.index,
      reference: packed.text,
      unit: 'bytes',
      target: { atMost: 0.8 },
    },
  ];
}

async function insert(sql: PostgresSql, part: readonly MadeDocument[]): Promise<void> {
  await query(
    sql,
    `INSERT INTO agent_data_store (_id, "userId", namespace, key, value)
      SELECT u || n || k, u, n, k, v::json FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS g (u, n, k, v)
      ON CONFLICT DO NOTHING`,
    [
      part.map(({ user }) => user),
      part.map(({ namespace }) => namespace),
      part.map(({ key }) => key),
      part.map(({ value }) => JSON.stringify(value)),
    ],
  );
}

async function sizes(sql: PostgresSql): Promise<{ index: number; text: number }> {
  const [size] = await query<{ index: string; text: string }>(
    sql,
    `SELECT pg_total_relation_size('find.segments') + pg_total_relation_size('find.blocks')
      + pg_total_relation_size('find.marks') AS index, sum("sizeBytes") AS text
      FROM agent_data_store`,
  );
  return { index: Number(size?.index), text: Number(size?.text) };
}
