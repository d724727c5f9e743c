/**
 * The search in PostgreSQL beside PostgreSQL's own `ts_rank` and SQLite's FTS5, on the same documents and queries, and
 * the quality of the ranking on made questions. `FIND_DOCUMENTS` sets the size of the corpus.
 */
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { limitsWith } from '../src/core/settings/limits.js';
import { type MadeDocument, makeCorpus } from '../src/find/conformance/corpus.js';
import { searchOf } from '../src/find/conformance/index.js';
import { makeQuestions, questionKinds } from '../src/find/conformance/questions.js';
import { documentText } from '../src/find/text/document-text.js';
import { searchView } from '../src/find/ranking/search-view.js';
import { packTerms } from '../src/find/segments/packed-terms.js';
import { IndexView } from '../src/find/segments/view.js';
import { entryTermsOf } from '../src/find/words/entry-terms.js';
import { openPostgresBase } from '../src/homes/postgres/base.js';
import { query } from '../src/homes/postgres/database/connection.js';
import { migrateWorkspaces } from '../src/homes/postgres/workspaces/schema.js';
import { PostgresFind } from '../src/homes/postgres/find/find.js';
import type { Bench, Row } from './frame.js';
import { startPostgres } from './postgres-server.js';

/** These searches are over documents only. */
async function* noMessages(): AsyncGenerator<never> {}

const documents = Number(process.env['FIND_DOCUMENTS'] ?? 20_000);
const users = Math.max(2, Math.round(documents / 10_000));
const namespacesPerUser = 10;
const queriesPerShape = 200;
const rowsPerStatement = 500;
const limits = limitsWith({});

interface Asked {
  readonly words: number;
  readonly user: string;
  /** Null: all namespaces of the user. */
  readonly namespace: string | null;
  readonly text: string;
}

export const findBench: Bench = {
  name: 'find',
  run: async (directory) => [...(await speed(directory)), ...(await quality())],
};

async function speed(directory: string): Promise<Row[]> {
  const server = await startPostgres();
  const base = await openPostgresBase(new URL(server.url), {
    limits,
    checkFence: async () => undefined,
    onError: (error) => process.stderr.write(`${String(error)}\n`),
  });
  try {
    await migrateWorkspaces(base.sql, limits);
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
      onError: (error) => process.stderr.write(`${String(error)}\n`),
      intervalMs: undefined,
      isOnlyRead: false,
    });
    const corpus = [...makeCorpus({ seed: 5, documents, users, namespacesPerUser })];
    const fill = async (part: readonly MadeDocument[]): Promise<void> => {
      await query(
        base.sql,
        `INSERT INTO agent_data_store (_id, "userId", namespace, key, value)
          SELECT u || n || k, u, n, k, v::json FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS g (u, n, k, v)`,
        [
          part.map(({ user }) => user),
          part.map(({ namespace }) => namespace),
          part.map(({ key }) => key),
          part.map(({ value }) => JSON.stringify(value)),
        ],
      );
    };
    const half = corpus.length >> 1;
    const withMarks = await timed(() => inParts(corpus.slice(0, half), fill));
    await query(base.sql, 'ALTER TABLE agent_data_store DISABLE TRIGGER mark_documents_insert');
    const withoutMarks = await timed(() => inParts(corpus.slice(half), fill));
    await query(base.sql, 'ALTER TABLE agent_data_store ENABLE TRIGGER mark_documents_insert');
    await query(
      base.sql,
      `INSERT INTO find.marks (owner, kind, collection, id) SELECT "userId", 'data', namespace, key FROM agent_data_store`,
    );
    const cpu = process.cpuUsage();
    const filingMs = await timed(() => find.fileAll());
    const filingCpuMs = process.cpuUsage(cpu).user / 1_000;
    process.stderr.write(
      `filed ${documents} documents in ${Math.round(filingMs)} ms, ${Math.round(filingCpuMs)} ms of CPU here\n`,
    );
    const sizes = async (): Promise<{ index: number; text: number }> => {
      const [size] = await query<{ index: string; text: string }>(
        base.sql,
        `SELECT pg_total_relation_size('find.segments') + pg_total_relation_size('find.blocks')
          + pg_total_relation_size('find.marks') AS index, sum("sizeBytes") AS text
          FROM agent_data_store`,
      );
      return { index: Number(size?.index), text: Number(size?.text) };
    };
    // Joined segments leave rows that PostgreSQL uses again after a vacuum.
    const filed = await sizes();
    for (const table of ['segments', 'blocks', 'marks']) await query(base.sql, `VACUUM FULL find.${table}`);
    const packed = await sizes();
    await query(
      base.sql,
      `ALTER TABLE agent_data_store ADD words tsvector GENERATED ALWAYS AS (to_tsvector('english', value::text)) STORED`,
    );
    await query(base.sql, 'CREATE INDEX words_gin ON agent_data_store USING gin (words)');
    await query(base.sql, 'VACUUM ANALYZE agent_data_store');
    await query(base.sql, 'VACUUM ANALYZE find.blocks');
    const rows: Row[] = [
      {
        what: 'filling with marks, against without',
        ours: withMarks,
        reference: withoutMarks,
        unit: 'ms',
        target: { atMost: 1.5 },
      },
      {
        what: 'bytes of the index right after filing, against the text',
        ours: filed.index,
        reference: filed.text,
        unit: 'bytes',
      },
      {
        what: 'bytes of the index after VACUUM FULL, against the text',
        ours: packed.index,
        reference: packed.text,
        unit: 'bytes',
        target: { atMost: 0.8 },
      },
    ];
    const asked = askedOf(corpus);
    const sqlite = await sqliteTimes(directory, corpus, asked);
    for (const words of [1, 2, 6])
      for (const isWide of [false, true]) {
        const own = asked.filter((one) => one.words === words && (one.namespace === null) === isWide);
        const ours = await timesOf(own, async ({ text, user, namespace }) => {
          await find.search(searchOf(text, user, namespace === null ? null : [namespace], Date.now()));
        });
        const ranked = await timesOf(own, async ({ text, user, namespace }) => {
          await query(
            base.sql,
            `SELECT key FROM agent_data_store, websearch_to_tsquery('english', $1) q WHERE words @@ q
              AND "userId" = $2 AND ($3::text IS NULL OR namespace = $3) ORDER BY ts_rank(words, q) DESC LIMIT 10`,
            [text.split(' ').join(' or '), user, namespace],
          );
        });
        const name = `${words} words, ${isWide ? 'a user' : 'a namespace'}`;
        const lite = sqlite.get(name) ?? [];
        for (const [share, label] of [
          [0.5, 'p50'],
          [0.99, 'p99'],
        ] as const) {
          const unit = 'ms';
          rows.push(
            {
              what: `search ${name}, ${label}, against ts_rank`,
              ours: at(ours, share),
              reference: at(ranked, share),
              unit,
            },
            {
              what: `search ${name}, ${label}, against FTS5`,
              ours: at(ours, share),
              reference: at(lite, share),
              unit,
            },
          );
        }
      }
    await find.close();
    return rows;
  } finally {
    await base.close();
    await server.stop();
  }
}

/** Words that the corpus has, spread over users and namespaces. */
function askedOf(corpus: readonly MadeDocument[]): Asked[] {
  return [1, 2, 6].flatMap((words) =>
    [true, false].flatMap((isWide) =>
      Array.from({ length: queriesPerShape }, (_, index): Asked => {
        const { user, namespace, value } = corpus[
          (index * 7_919 + words * 13) % corpus.length
        ] as MadeDocument;
        const own = value.text.split(/[^\p{L}\p{M}\p{Nd}]+/u).filter((word) => word.length > 1);
        const from = (index * 31) % Math.max(1, own.length - words);
        return {
          words,
          user,
          namespace: isWide ? null : namespace,
          text: own.slice(from, from + words).join(' '),
        };
      }),
    ),
  );
}

async function timesOf(asked: readonly Asked[], ask: (one: Asked) => Promise<void>): Promise<number[]> {
  for (const one of asked.slice(0, 20)) await ask(one);
  const times: number[] = [];
  for (const one of asked) times.push(await timed(() => ask(one)));
  return times;
}

/** The same corpus and queries in SQLite, by Python's module. */
async function sqliteTimes(
  directory: string,
  corpus: readonly MadeDocument[],
  asked: readonly Asked[],
): Promise<Map<string, number[]>> {
  const input = join(directory, 'sqlite.json');
  await writeFile(
    input,
    JSON.stringify({
      documents: corpus.map(({ user, namespace, key, value }) => [
        user,
        namespace,
        key,
        JSON.stringify(value),
      ]),
      asked: asked.map(({ words, user, namespace, text }) => [
        `${words} words, ${namespace === null ? 'a user' : 'a namespace'}`,
        user,
        namespace,
        text
          .split(' ')
          .map((word) => `"${word.replaceAll('"', '')}"`)
          .join(' OR '),
      ]),
    }),
  );
  const output = execFileSync('python3', ['-c', sqliteProgram, input], { maxBuffer: 1 << 28 });
  return new Map(Object.entries(JSON.parse(output.toString()) as Record<string, number[]>));
}

const sqliteProgram = `
import json, sqlite3, sys, time

given = json.load(open(sys.argv[1]))
db = sqlite3.connect(':memory:')
db.execute("CREATE VIRTUAL TABLE d USING fts5(user UNINDEXED, namespace UNINDEXED, key, value, tokenize='porter unicode61')")
db.executemany('INSERT INTO d VALUES (?, ?, ?, ?)', given['documents'])
db.commit()
times = {}
for name, user, namespace, text in given['asked']:
    started = time.perf_counter()
    db.execute('SELECT key FROM d WHERE d MATCH ? AND user = ? AND (? IS NULL OR namespace = ?) ORDER BY rank LIMIT 10',
        (text, user, namespace, namespace)).fetchall()
    times.setdefault(name, []).append((time.perf_counter() - started) * 1000)
print(json.dumps(times))
`;

/** How many of the reported half of the questions have their answer first, and among the first ten. */
async function quality(): Promise<Row[]> {
  const place = { user: 'user-0', namespace: 'user-0-space-0' };
  const questions = makeQuestions(901, 200, place);
  const corpus = [
    ...makeCorpus({ seed: 9, documents: 10_000, users: 1, namespacesPerUser: 1 }),
    ...questions.map(({ answer }) => answer),
  ];
  const waiting = corpus.map(({ namespace, key, value }) => ({
    name: { kind: 'data' as const, collection: namespace, id: key },
    version: 1,
    author: null,
    timeMs: 0,
    expiresAtMs: null,
    packed: packTerms(entryTermsOf(documentText({ key, valueJson: JSON.stringify(value), metadata: {} }))),
  }));
  const view = new IndexView([{ segments: [], marked: [], waiting }], {
    hasCollection: () => true,
    nowMs: 1,
  });
  const rows: Row[] = [];
  for (const kind of questionKinds) {
    const reported = questions.filter((question, index) => question.kind === kind && index % 2 === 1);
    let [first, ten] = [0, 0];
    for (const { text, answer } of reported) {
      const { entries } = await searchView(view, searchOf(text, place.user, null, 1), limits);
      const found = entries.findIndex(({ name }) => name.id === answer.key);
      if (found === 0) first += 1;
      if (found >= 0) ten += 1;
    }
    const asked = reported.length;
    rows.push(
      { what: `${kind}: the answer is first`, ours: first, reference: asked, unit: 'questions' },
      { what: `${kind}: the answer is among ten`, ours: ten, reference: asked, unit: 'questions' },
    );
  }
  return rows;
}

async function inParts(
  corpus: readonly MadeDocument[],
  fill: (part: readonly MadeDocument[]) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < corpus.length; from += rowsPerStatement)
    await fill(corpus.slice(from, from + rowsPerStatement));
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
