/** Checks of the change feed and of messaging: sizes, numbers, totals and ranks. */
import { lockSql } from '../database/advisory-locks.js';
import { type Check, findingsMax, lockTables } from './check.js';

export const feedAndMessagingChecks: readonly Check[] = [
  {
    family: 'feed.extent',
    kind: 'wrong',
    find: `SELECT 'size_bytes' AS key,
        'The feed counts ' || e.size_bytes || ' bytes and holds ' || s.size || '.' AS problem
      FROM feed.extent e, (SELECT coalesce(sum(size_bytes), 0) AS size FROM feed.commits) s
        WHERE e.size_bytes <> s.size`,
    repair: {
      about: 'Count the bytes again.',
      lock: lockSql('feed'),
      statement:
        'UPDATE feed.extent SET size_bytes = (SELECT coalesce(sum(size_bytes), 0) FROM feed.commits)',
    },
  },
  {
    family: 'feed.commits',
    kind: 'missing',
    find: `SELECT n.number::text AS key, 'The feed has no commit with the number ' || n.number || '.' AS problem
      FROM feed.extent e, generate_series(e.first_seq, e.last_seq) AS n (number)
      WHERE NOT EXISTS (SELECT FROM feed.commits c WHERE c.seq = n.number) LIMIT ${findingsMax}`,
  },
  {
    family: 'messaging.totals',
    kind: 'wrong',
    find: `SELECT 'totals' AS key,
        'The totals say ' || t.agents || ' agents, ' || t.rooms || ' public rooms and ' || t.messages ||
        ' messages; the tables hold ' || c.agents || ', ' || c.rooms || ' and ' || c.messages || '.'
        AS problem
      FROM (SELECT sum(agents) AS agents, sum(public_rooms) AS rooms, sum(messages) AS messages
          FROM messaging.totals) t,
        (SELECT (SELECT count(*) FROM agents) AS agents, count(*) FILTER (WHERE NOT is_private) AS rooms,
          coalesce(sum(message_count), 0) AS messages FROM rooms) c
      WHERE (t.agents, t.rooms, t.messages) IS DISTINCT FROM (c.agents, c.rooms, c.messages)`,
    repair: {
      about: 'Count the totals again.',
      lock: lockTables('messaging.totals', 'agents', 'rooms'),
      statement: `WITH counted AS (SELECT (SELECT count(*) FROM agents) AS agents,
          count(*) FILTER (WHERE NOT is_private) AS rooms, coalesce(sum(message_count), 0) AS messages
          FROM rooms)
        UPDATE messaging.totals SET agents = CASE slot WHEN 0 THEN counted.agents ELSE 0 END,
          public_rooms = CASE slot WHEN 0 THEN counted.rooms ELSE 0 END,
          messages = CASE slot WHEN 0 THEN counted.messages ELSE 0 END FROM counted`,
    },
  },
  {
    family: 'messaging.room_ranks',
    kind: 'wrong',
    find: `SELECT coalesce(r.id, k.room_id)::text AS key,
      'The rank of the room differs from the room.' AS problem
      FROM (SELECT * FROM rooms WHERE NOT is_private) r FULL JOIN messaging.room_ranks k ON k.room_id = r.id
      WHERE (r.message_count, r.last_active_at) IS DISTINCT FROM (k.message_count, k.last_active_at)
        LIMIT ${findingsMax}`,
    repair: {
      about: 'Take the rank from the room.',
      lock: lockTables('messaging.room_ranks', 'rooms'),
      statement: `WITH gone AS (DELETE FROM messaging.room_ranks k
        WHERE NOT EXISTS (SELECT FROM rooms r WHERE r.id = k.room_id AND NOT is_private))
        INSERT INTO messaging.room_ranks
          SELECT id, message_count, last_active_at FROM rooms WHERE NOT is_private
          ON CONFLICT (room_id) DO UPDATE
            SET message_count = excluded.message_count, last_active_at = excluded.last_active_at`,
    },
  },
  {
    family: 'messaging.agent_keys',
    kind: 'missing',
    find: `SELECT a.id::text AS key, 'The key of the identity is not in its history.' AS problem FROM agents a
      WHERE NOT EXISTS (SELECT FROM messaging.agent_keys k WHERE k.public_key = a.public_key)
        LIMIT ${findingsMax}`,
    repair: {
      about: 'Add the key to the history.',
      lock: lockTables('messaging.agent_keys', 'agents'),
      statement: `INSERT INTO messaging.agent_keys (public_key, agent_id, from_ms)
        SELECT public_key, id, (extract(epoch FROM created_at) * 1000)::bigint FROM agents
          ON CONFLICT DO NOTHING`,
    },
  },
];
