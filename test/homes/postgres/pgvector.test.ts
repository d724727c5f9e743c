/**
 * Searches by meaning in PostgreSQL with the extension pgvector, and what a server says without it. Installing that
 * PostgreSQL takes some 10 s, and the suite a minute more: `npm run test:pgvector` runs them.
 */
import { randomBytes } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../../src/index.js';
import { vectorSuite } from '../../find/vectors/suite.js';
import { dimensions, vectorOf } from '../../servers/embedder.js';
import { createDatabase } from '../../servers/postgres.js';
import { sharedHome, sharedKeys, sharedRedis, sharedServer, uniqueName } from '../../servers/shared.js';
import { until } from '../../until.js';

const embedder = {
  model: 'made',
  dimensions,
  embed: async (texts: readonly string[]): Promise<number[][]> => texts.map(vectorOf),
};
const ada = operatorCaller('ada');
const opened: Stoa[] = [];
afterAll(() => Promise.all(opened.map((stoa) => stoa.close())));

async function open(options: StoaOptions): Promise<Stoa> {
  const stoa = await openStoa({ ...options, embedder, sweepIntervalMs: 20 });
  opened.push(stoa);
  return stoa;
}

async function expectFound(stoa: Stoa): Promise<void> {
  await stoa.namespaceSettings.change(ada, 'notes', { embed: true });
  await stoa.data.set(ada, 'notes', 'trip', 'The automobile is red.');
  await stoa.data.set(ada, 'notes', 'lunch', 'There is stew today.');
  await until(async () => (await stoa.vectors.status()).waiting === 0);
  const { items } = await stoa.find.find(ada, { q: 'vehicle', mode: 'vector', namespace: 'notes' });
  expect(items.map(({ key }) => key)).toEqual(['trip', 'lunch']);
}

/** A database on the server with pgvector, after these statements of its superuser. */
async function home(statements: readonly string[], user?: string): Promise<StoaOptions> {
  const server = await sharedServer('pgvector');
  const url = new URL(await createDatabase(server.url, uniqueName('vectors')));
  const { default: postgres } = await import('postgres');
  const sql = postgres(url.href, { max: 1, onnotice: () => undefined });
  try {
    for (const statement of statements) await sql.unsafe(statement.replaceAll('THIS', url.pathname.slice(1)));
  } finally {
    await sql.end();
  }
  if (user !== undefined) url.username = user;
  const operatorToken = randomBytes(24).toString('hex');
  return { postgres: url.href, redis: (await sharedRedis()).url, secretKeys: sharedKeys, operatorToken };
}

test('a PostgreSQL without pgvector is reported, and searches compare vectors one by one', async () => {
  const stoa = await open((await sharedHome()).options);
  expect((await stoa.vectors.status()).search).toBe(
    'vectors are compared one by one: this PostgreSQL does not have the extension vector (pgvector)',
  );
  await expectFound(stoa);
});

if (process.env['PGVECTOR'] === 'full')
  describe('on a PostgreSQL that has pgvector', () => {
    test('a server whose user may not create the extension says what to do, and compares one by one', async () => {
      const user = uniqueName('plain');
      const stoa = await open(
        await home(
          [
            'CREATE EXTENSION pgcrypto',
            `CREATE ROLE ${user} LOGIN`,
            `GRANT ALL ON SCHEMA public TO ${user}`,
            `GRANT TEMPORARY, CONNECT, CREATE ON DATABASE "THIS" TO ${user}`,
          ],
          user,
        ),
      );
      const { search } = await stoa.vectors.status();
      expect(search).toContain('one by one');
      expect(search).toContain('Run "CREATE EXTENSION vector" in it as a user with the right to do so');
      await expectFound(stoa);
    });

    test('an extension that the server cannot see is reported', async () => {
      const stoa = await open(
        await home(['CREATE SCHEMA apart', 'CREATE EXTENSION vector WITH SCHEMA apart']),
      );
      expect((await stoa.vectors.status()).search).toContain('outside the search_path');
      await expectFound(stoa);
    });

    test('the database orders the documents, and the status says so', async () => {
      const stoa = await open(await home(['CREATE EXTENSION vector']));
      expect((await stoa.vectors.status()).search).toBe('vectors are compared in the database by pgvector');
      await expectFound(stoa);
      const { items, examined_all } = await stoa.find.find(ada, {
        q: 'vehicle',
        mode: 'vector',
        namespace: 'notes',
        limit: 1,
      });
      expect([items.length, examined_all]).toEqual([1, true]);
    });

    vectorSuite({ isShared: true, open: () => home(['CREATE EXTENSION vector']) });
  });
