/**
 * The totals of `/stats` and the ranking of public rooms. Triggers update them, so no read has to count rows,
 * and rows of other programs are counted too. They have their own tables, because the seed's tables have no
 * columns for them.
 */
import { topRoomsMax } from '../../../messaging/rooms/totals.js';

/**
 * The totals are the sum of this many rows, so that writers on different connections rarely wait for each
 * other.
 */
const slots = 64;
const ownSlot = `slot = pg_backend_pid() % ${slots}`;

export const totalsTables = `
  LOCK TABLE agents, rooms IN SHARE ROW EXCLUSIVE MODE;
  CREATE TABLE messaging.totals (
    slot SMALLINT PRIMARY KEY,
    agents BIGINT NOT NULL DEFAULT 0,
    public_rooms BIGINT NOT NULL DEFAULT 0,
    messages BIGINT NOT NULL DEFAULT 0
  );
  INSERT INTO messaging.totals (slot) SELECT generate_series(0, ${slots - 1});
  UPDATE messaging.totals SET agents = (SELECT count(*) FROM agents),
    public_rooms = (SELECT count(*) FROM rooms WHERE NOT is_private),
    messages = (SELECT coalesce(sum(message_count), 0) FROM rooms) WHERE slot = 0;
  CREATE TABLE messaging.room_ranks (
    room_id UUID PRIMARY KEY REFERENCES rooms(id) ON DELETE CASCADE,
    message_count BIGINT NOT NULL,
    last_active_at TIMESTAMPTZ NOT NULL
  );
  CREATE INDEX idx_room_ranks ON messaging.room_ranks (message_count DESC, last_active_at DESC);
  INSERT INTO messaging.room_ranks SELECT id, message_count, last_active_at FROM rooms WHERE NOT is_private;

  CREATE FUNCTION messaging.count_agents() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      UPDATE messaging.totals SET agents = agents + (SELECT count(*) FROM added)
        WHERE ${ownSlot} AND EXISTS (SELECT FROM added);
    ELSIF TG_OP = 'DELETE' THEN
      UPDATE messaging.totals SET agents = agents - (SELECT count(*) FROM removed)
        WHERE ${ownSlot} AND EXISTS (SELECT FROM removed);
    ELSE
      UPDATE messaging.totals SET agents = 0;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER count_agents_insert AFTER INSERT ON agents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_agents();
  CREATE TRIGGER count_agents_delete AFTER DELETE ON agents REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_agents();
  CREATE TRIGGER count_agents_truncate AFTER TRUNCATE ON agents
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_agents();

  CREATE FUNCTION messaging.count_rooms() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  DECLARE
    more_rooms BIGINT := 0;
    more_messages BIGINT := 0;
  BEGIN
    IF TG_OP = 'TRUNCATE' THEN
      UPDATE messaging.totals SET public_rooms = 0, messages = 0;
      RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
      SELECT count(*) FILTER (WHERE NOT is_private), coalesce(sum(message_count), 0)
        INTO more_rooms, more_messages FROM added;
      DELETE FROM messaging.room_ranks USING added WHERE room_id = added.id AND added.is_private;
      INSERT INTO messaging.room_ranks
        SELECT id, message_count, last_active_at FROM added WHERE NOT is_private
        ON CONFLICT (room_id) DO UPDATE
          SET message_count = excluded.message_count, last_active_at = excluded.last_active_at;
    END IF;
    IF TG_OP <> 'INSERT' THEN
      SELECT more_rooms - count(*) FILTER (WHERE NOT is_private),
          more_messages - coalesce(sum(message_count), 0)
        INTO more_rooms, more_messages FROM removed;
    END IF;
    IF more_rooms <> 0 OR more_messages <> 0 THEN
      UPDATE messaging.totals
        SET public_rooms = public_rooms + more_rooms, messages = messages + more_messages
        WHERE ${ownSlot};
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER count_rooms_insert AFTER INSERT ON rooms REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_rooms();
  CREATE TRIGGER count_rooms_update AFTER UPDATE ON rooms
    REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_rooms();
  CREATE TRIGGER count_rooms_delete AFTER DELETE ON rooms REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_rooms();
  CREATE TRIGGER count_rooms_truncate AFTER TRUNCATE ON rooms
    FOR EACH STATEMENT EXECUTE FUNCTION messaging.count_rooms()`;

export const totalsStatement = `SELECT sum(agents) AS agents, sum(public_rooms) AS rooms,
    sum(messages) AS messages,
    (SELECT (extract(epoch FROM max(last_active_at)) * 1000)::bigint FROM rooms) AS active_ms
  FROM messaging.totals`;

export const publicRoomsStatement = 'SELECT sum(public_rooms) AS total FROM messaging.totals';

const byRank = 'ORDER BY message_count DESC, last_active_at DESC';

/** Selects the rooms with the most messages, which are public. */
export const topRoomsClause = `WHERE r.id IN
    (SELECT room_id FROM messaging.room_ranks ${byRank} LIMIT ${topRoomsMax})
  ORDER BY r.message_count DESC, r.last_active_at DESC`;
