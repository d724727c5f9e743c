/** What messaging stores in PostgreSQL, for other programs that use the seed's layout. */
import { describe, expect, it } from 'vitest';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import {
  publicRoomsStatement,
  topRoomsClause,
  totalsStatement,
} from '../../../../src/homes/postgres/messaging/totals.js';
import { migrateMessaging } from '../../../../src/homes/postgres/messaging/schema.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { openOn, useRedis } from './open-messaging.js';

const redis = useRedis();

describe('the stored layout', () => {
  it("has the seed's tables, constraints, indexes and room", async () => {
    const { url } = await sharedPostgres();
    const sql = await openPostgres(new URL(url));
    try {
      await migrateMessaging(sql);
      await migrateMessaging(sql);
      const lines = async (text: string) =>
        (await sql.unsafe<{ line: string }[]>(text)).map(({ line }) => line);
      const seedTables = "table_schema = 'public' AND table_name IN ('agents', 'rooms')";
      expect(
        await lines(
          `SELECT concat_ws(' ', table_name || '.' || column_name, data_type, is_nullable, column_default)
              AS line
            FROM information_schema.columns WHERE ${seedTables} ORDER BY table_name, ordinal_position`,
        ),
      ).toEqual([
        'agents.id uuid NO gen_random_uuid()',
        'agents.public_key text NO',
        'agents.name text YES',
        'agents.email text YES',
        'agents.created_at timestamp with time zone NO now()',
        'agents.updated_at timestamp with time zone NO now()',
        'rooms.id uuid NO gen_random_uuid()',
        'rooms.name text NO',
        'rooms.is_private boolean NO false',
        'rooms.key_hash text YES',
        'rooms.created_by uuid YES',
        'rooms.created_at timestamp with time zone NO now()',
        'rooms.last_active_at timestamp with time zone NO now()',
        'rooms.message_count bigint NO 0',
      ]);
      expect(
        await lines(
          `SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) AS line FROM pg_constraint
            WHERE conrelid IN ('agents'::regclass, 'rooms'::regclass) AND contype IN ('p', 'u', 'f')
            ORDER BY 1`,
        ),
      ).toEqual([
        'agents PRIMARY KEY (id)',
        'agents UNIQUE (public_key)',
        'rooms FOREIGN KEY (created_by) REFERENCES agents(id)',
        'rooms PRIMARY KEY (id)',
      ]);
      expect(
        await lines(
          `SELECT replace(indexdef, ' ON public.', ' ON ') AS line FROM pg_indexes
            WHERE schemaname = 'public' AND tablename IN ('agents', 'rooms') ORDER BY 1`,
        ),
      ).toEqual([
        'CREATE INDEX idx_agents_created_at ON agents USING btree (created_at)',
        'CREATE INDEX idx_rooms_is_private ON rooms USING btree (is_private) WHERE (is_private = false)',
        'CREATE INDEX idx_rooms_last_active ON rooms USING btree (last_active_at)',
        'CREATE INDEX idx_rooms_name ON rooms USING btree (name)',
        'CREATE UNIQUE INDEX agents_pkey ON agents USING btree (id)',
        'CREATE UNIQUE INDEX agents_public_key_key ON agents USING btree (public_key)',
        'CREATE UNIQUE INDEX rooms_pkey ON rooms USING btree (id)',
      ]);
      const rooms = await sql.unsafe<{ id: string; name: string; created_by: null }[]>(
        'SELECT id, name, created_by FROM rooms',
      );
      expect([...rooms]).toEqual([
        { id: '00000000-0000-0000-0000-000000000001', name: 'global', created_by: null },
      ]);
    } finally {
      await sql.end();
    }
  });

  it('updates its totals for every writer of the tables, without reading whole tables', async () => {
    const { url } = await sharedPostgres();
    const sql = await openPostgres(new URL(url));
    const server = await openOn(url, redis.url);
    const stats = async () => {
      const {
        total_agents: agents,
        total_channels: channels,
        total_messages: messages,
        top_channels: top,
      } = (await server.ask('GET', '/stats')).json;
      const { total } = (await server.ask('GET', '/channels?limit=1')).json;
      return {
        agents,
        channels,
        messages,
        total,
        top: top.map(
          ({ name, message_count }: { name: string; message_count: number }) => `${name} ${message_count}`,
        ),
      };
    };
    const counted = async () => {
      const [row] = await sql.unsafe<{ agents: string; rooms: string; messages: string }[]>(
        `SELECT (SELECT count(*) FROM agents) AS agents, count(*) FILTER (WHERE NOT is_private) AS rooms,
          sum(message_count) AS messages FROM rooms`,
      );
      const top = await sql.unsafe<{ line: string }[]>(
        `SELECT name || ' ' || message_count AS line FROM rooms WHERE NOT is_private
          ORDER BY message_count DESC, last_active_at DESC LIMIT 5`,
      );
      return {
        agents: Number(row?.agents),
        channels: Number(row?.rooms),
        messages: Number(row?.messages),
        total: Number(row?.rooms),
        top: top.map(({ line }) => line),
      };
    };
    try {
      const ann = await server.agent();
      const [open, hidden] = [
        await server.room(ann, 'open'),
        await server.room(ann, 'hidden', 'a key of sixteen or more'),
      ];
      await Promise.all(Array.from({ length: 20 }, () => ann.post('global', 'x')));
      await ann.post(open, 'x');
      await ann.post(hidden, 'x', {}, { 'x-aicq-room-key': 'a key of sixteen or more' });
      expect(await stats()).toEqual({
        agents: 1,
        channels: 2,
        messages: 22,
        total: 2,
        top: ['global 20', 'open 1'],
      });
      const many = `SELECT 'room-' || n, n % 3 = 0, n, now() - n * interval '1 minute'
          FROM generate_series(1, 3000) AS n`;
      for (const statement of [
        `INSERT INTO rooms (name, is_private, message_count, last_active_at) ${many}`,
        "INSERT INTO agents (public_key) SELECT 'key ' || n FROM generate_series(1, 3000) AS n",
        `UPDATE rooms SET is_private = NOT is_private, message_count = message_count + 5
          WHERE name LIKE 'room-%7'`,
        "DELETE FROM rooms WHERE name LIKE 'room-2%'",
        "DELETE FROM agents WHERE public_key LIKE 'key %3'",
        'DELETE FROM rooms WHERE FALSE',
      ]) {
        await sql.unsafe(statement);
        expect([statement, await stats()]).toEqual([statement, await counted()]);
      }
      await sql.unsafe('ANALYZE');
      for (const statement of [
        totalsStatement,
        publicRoomsStatement,
        `SELECT r.id FROM rooms r ${topRoomsClause}`,
      ]) {
        const plan = await sql.unsafe<{ 'QUERY PLAN': string }[]>(`EXPLAIN ${statement}`);
        expect(
          plan
            .map((line) => line['QUERY PLAN'])
            .filter((line) => /Seq Scan on (agents|rooms|room_ranks)/.test(line)),
        ).toEqual([]);
      }
      await sql.unsafe('TRUNCATE agents CASCADE');
      expect(await stats()).toEqual({ agents: 0, channels: 0, messages: 0, total: 0, top: [] });
    } finally {
      await server.close();
      await sql.end();
    }
  });
});
