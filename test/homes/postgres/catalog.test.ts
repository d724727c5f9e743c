/** The tables of a migrated database can be distributed by owner: primary keys begin with the owner. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PostgresSql, listText } from '../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { sharedHome } from '../../servers/shared.js';

const owners = ['userId', 'owner_id', 'user_id', 'owner', 'user_name'];

/** Tables that have an owner, but not at the beginning of their primary key, and why. */
const exceptions: Record<string, string> = {
  'messaging.room_facts': "beside the seed's rooms, whose key is the id of the room; a reference table",
  'public.commit_outbox': 'stays on one node, in the order of delivery',
  'registry.owners': 'finds the owner of an id; a reference table',
  'workspaces.reseals': 'how far the secrets of all owners were encrypted again, for each key',
};

let stoa: Stoa;
let sql: PostgresSql;

beforeAll(async () => {
  const { options } = await sharedHome();
  stoa = await openStoa(options);
  sql = await openPostgres(new URL(options.postgres));
});
afterAll(async () => {
  await closePostgres(sql, 5);
  await stoa.close();
});

it('the primary key of every table that has an owner begins with the owner', async () => {
  const tables = await sql.unsafe<{ name: string; first: string | null; columns: string }[]>(
    `SELECT n.nspname || '.' || c.relname AS name,
        (SELECT a.attname::text FROM pg_index i
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = c.oid AND i.indisprimary) AS first,
        (SELECT string_agg(a.attname, ' ') FROM pg_attribute a
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')`,
  );
  const owned = tables.filter(({ columns }) => columns.split(' ').some((column) => owners.includes(column)));
  expect(owned.length).toBeGreaterThan(20);
  const others = owned.filter(({ first }) => first === null || !owners.includes(first));
  expect(others.map(({ name }) => name).toSorted()).toEqual(Object.keys(exceptions));
});

it('unique indexes and foreign keys between such tables contain the owner too', async () => {
  const others = await sql.unsafe<{ name: string }[]>(
    `WITH keyed AS (
        SELECT c.oid, a.attname::text AS owner FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
          WHERE n.nspname NOT IN ('pg_catalog', 'pg_toast') AND a.attname = ANY($1::text[]))
      SELECT i.indexrelid::regclass::text AS name FROM pg_index i JOIN keyed ON keyed.oid = i.indrelid
        WHERE i.indisunique AND NOT EXISTS (SELECT FROM pg_attribute a
          WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND a.attname = keyed.owner)
      UNION ALL SELECT f.conname::text FROM pg_constraint f
        JOIN keyed ON keyed.oid = f.conrelid JOIN keyed referred ON referred.oid = f.confrelid
        WHERE f.contype = 'f' AND NOT EXISTS (SELECT FROM pg_attribute a
          WHERE a.attrelid = f.conrelid AND a.attnum = ANY (f.conkey) AND a.attname = keyed.owner)`,
    [listText(owners)],
  );
  // An identity is on one node, as are the keys that the server keeps for it.
  expect(others.map(({ name }) => name)).toEqual(['messaging.kept_agents_agent_id_key']);
});

it('the tables of the registry are in its own schema', async () => {
  const places = await sql.unsafe<{ place: string }[]>(
    `SELECT table_schema || '.' || table_name AS place FROM information_schema.tables
      WHERE table_name IN ('users', 'sessions', 'identity_links', 'tokens', 'owners') AND table_schema <> 'workspaces'
      ORDER BY 1`,
  );
  expect(places.map(({ place }) => place)).toEqual([
    'registry.identity_links',
    'registry.owners',
    'registry.sessions',
    'registry.tokens',
    'registry.users',
  ]);
});
