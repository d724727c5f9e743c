/**
 * From Redis to the change feed. The script that posts, sends or deletes a message leaves a note of it in the same
 * step. The server that did so carries the note to the feed, once, and removes it. A note that a server left behind
 * because it was killed is carried by another one.
 */
import { StoaError } from '../../../core/errors.js';
import type { Change } from '../../../core/change.js';
import { type PostgresSql, query, transaction } from '../connection.js';
import { takeTurn } from '../turns.js';
import { changeOf, postedOf } from './news.js';
import { type RedisConnection, notesKey, notesPart, withRedis } from './redis.js';

/** Notes that may wait in one list while PostgreSQL is away. */
export const messageNotesMax = 100_000;

export function tooManyNotes(): StoaError {
  return new StoaError(
    'overloaded',
    `${messageNotesMax} messages wait to be carried from Redis to PostgreSQL (messageNotesMax). This message was not stored.`,
    { fix: 'Check that PostgreSQL answers, then try again.' },
  );
}

export interface MessageNotesOptions {
  readonly redis: RedisConnection;
  readonly sql: PostgresSql;
  /** To be called when rows were added to the feed. */
  readonly onCarried: () => void;
  /** Lists the keys that match a pattern, on all nodes. */
  readonly scan: (pattern: string) => Promise<string[]>;
  readonly onError: (error: unknown, about: string) => void;
}

const carriedAtOnce = 500;
/** Other servers' notes are looked for this often: in the one list at once, over the keys of a cluster more rarely. */
const lookEveryMs = 1_000;
const scanEveryMs = 15_000;
/** A note that was carried is known for this long, in case its removal from Redis was lost. */
const carriedKeptHours = 24;

export class MessageNotes {
  readonly #options: MessageNotesOptions;
  /** Calls for a list while it is being carried share the next round. */
  readonly #running = new Map<string, { current: Promise<void>; next: Promise<void> | undefined }>();
  #timer: NodeJS.Timeout | undefined;
  #isFailing = false;

  constructor(options: MessageNotesOptions) {
    this.#options = options;
  }

  start(): void {
    const everyMs = this.#options.redis.isCluster ? scanEveryMs : lookEveryMs;
    const look = (): void => void this.#look(everyMs);
    this.#timer = setInterval(look, everyMs);
    this.#timer.unref();
    look();
  }

  /** Carries what is in a list. While PostgreSQL is away the notes wait: the message stands either way. */
  carry(list: string): Promise<void> {
    const running = this.#running.get(list);
    if (running !== undefined) {
      running.next ??= running.current.then(() => this.#begin(list));
      return running.next;
    }
    return this.#begin(list);
  }

  /** What is in every list. */
  async carryAll(): Promise<void> {
    const { redis, scan } = this.#options;
    const lists = redis.isCluster ? await scan(`*:${notesPart}`) : [notesKey];
    for (const list of lists) await this.carry(list);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#running.values()].map(({ current, next }) => next ?? current));
  }

  #begin(list: string): Promise<void> {
    const current = this.#carryList(list)
      .then(() => {
        this.#isFailing = false;
      })
      .catch((error: unknown) => {
        if (!this.#isFailing)
          this.#options.onError(error, 'carrying messages to the change feed; it is tried again');
        this.#isFailing = true;
      })
      .finally(() => {
        if (this.#running.get(list)?.current === current && this.#running.get(list)?.next === undefined)
          this.#running.delete(list);
      });
    this.#running.set(list, { current, next: undefined });
    return current;
  }

  /** Of all servers one looks in an interval. */
  async #look(everyMs: number): Promise<void> {
    const { sql, onError } = this.#options;
    try {
      if (!(await takeTurn(sql, 'message notes', everyMs))) return;
      await this.carryAll();
      await query(
        sql,
        `DELETE FROM feed.added_entries WHERE entry IN (
          SELECT entry FROM feed.added_entries WHERE added_at < clock_timestamp() - interval '${carriedKeptHours} hours'
          LIMIT ${carriedAtOnce} FOR UPDATE SKIP LOCKED)`,
      );
    } catch (error) {
      if (!this.#isFailing) onError(error, 'looking for messages that the change feed does not have');
      this.#isFailing = true;
    }
  }

  async #carryList(list: string): Promise<void> {
    const { redis, onCarried } = this.#options;
    for (;;) {
      const notes = await this.#carrySome(list);
      if (notes.length === 0) return;
      onCarried();
      // By value: another server may have removed some of them.
      const removal = redis.commands.pipeline();
      for (const note of notes) removal.lrem(list, 1, note);
      await withRedis(() => removal.exec());
      if (notes.length < carriedAtOnce) return;
    }
  }

  /** One server at a time carries a list, so that its notes come into the feed in their order. */
  #carrySome(list: string): Promise<string[]> {
    const { redis, sql } = this.#options;
    return transaction(sql, async (tx) => {
      await query(tx, "SELECT pg_advisory_xact_lock(hashtext('stoa_notes'), hashtext($1))", [list]);
      const notes = await withRedis(() => redis.commands.lrange(list, 0, carriedAtOnce - 1));
      const known = notes.flatMap((note) => changeOf(note) ?? []);
      if (known.length === 0) return notes;
      await query(
        tx,
        `WITH fresh AS (
          INSERT INTO feed.added_entries (entry) SELECT DISTINCT entry FROM unnest($1::text[]) AS entry
          ON CONFLICT DO NOTHING RETURNING entry
        )
        INSERT INTO feed.incoming (changes)
          SELECT changes::json
            FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (entry, changes, position)
            JOIN fresh USING (entry) ORDER BY position`,
        [known.map(nameOf), known.map((change) => JSON.stringify([change]))],
      );
      const posted = notes.flatMap((note) => postedOf(note) ?? []);
      await query(
        tx,
        `UPDATE rooms SET message_count = greatest(message_count, newest.total),
            last_active_at = greatest(last_active_at, to_timestamp(newest.active_ms / 1000.0))
          FROM (SELECT room, max(total) AS total, max(active_ms) AS active_ms
            FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS posted (room, total, active_ms) GROUP BY room) AS newest
          WHERE rooms.id = newest.room`,
        [
          posted.map(({ room }) => room),
          posted.map(({ total }) => String(total)),
          posted.map(({ tsMs }) => String(tsMs)),
        ],
      );
      return notes;
    });
  }
}

/** What a change is known by, however often its note is read. */
function nameOf({ kind, id }: Change): string {
  return `${kind} ${id}`;
}
