/**
 * Moves changes of messages from Redis to the change feed. The script that posts, sends or deletes a message
 * adds an entry to a list in Redis, the outbox. The same server then adds the entry to the feed, once, and
 * removes it from the list. If that server is killed in between, another server does it.
 */
import { StoaError } from '../../../core/errors.js';
import type { Change } from '../../../core/change.js';
import { groupedDigits } from '../../../core/text/grouped-digits.js';
import { type PostgresSql, query } from '../database/connection.js';
import { FirstFailures } from '../../../core/waiting/first-failures.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import { SharedRuns } from '../../../core/waiting/shared-runs.js';
import { within } from '../../../core/waiting/within.js';
import { inSteps } from '../database/in-steps.js';
import { messagesOwner } from '../find/schema.js';
import { takeTurn } from '../database/turns.js';
import { changeOf, postedOf } from './redis/notices.js';
import { feedOutboxKey, feedOutboxPart } from './redis/keys.js';
import { type RedisConnection, withRedis } from './redis/connection.js';

/** Entries that can wait in one list while PostgreSQL is unavailable. */
export const feedOutboxMax = 100_000;

export function feedOutboxFull(): StoaError {
  return new StoaError(
    'overloaded',
    `${groupedDigits(feedOutboxMax)} changes in Redis wait to be added to the change feed in PostgreSQL (feedOutboxMax).` +
      ' This message was not stored.',
    { fix: 'Check that PostgreSQL answers, then try again.' },
  );
}

export interface FeedOutboxOptions {
  readonly redis: RedisConnection;
  readonly sql: PostgresSql;
  /** Called when rows were added to the feed. */
  readonly onAdded: () => void;
  /** Lists the keys that match a pattern, on all nodes. */
  readonly scan: (pattern: string) => Promise<string[]>;
  readonly onError: (error: unknown, about: string) => void;
}

const batchEntries = 500;
/**
 * How often one of the servers moves entries that others left. A cluster has many lists, which a scan must
 * find.
 */
const sweepEveryMs = 1_000;
const clusterSweepEveryMs = 15_000;
/**
 * How long lists of rooms, totals and positions of the feed wait for the entries of answered posts. They need
 * nothing else of Redis, and must be answered while it hangs.
 */
const carriedWaitMs = 1_000;
/** How long an added entry is remembered, in case its removal from Redis was lost. */
const addedKeptHours = 24;

export class FeedOutbox {
  readonly #options: FeedOutboxOptions;
  /** By list. */
  readonly #moves = new SharedRuns((list) => this.#failures.run(() => this.#moveList(list)));
  /** Runs that move entries of answered posts; many posts share one. */
  readonly #answered = new Set<Promise<void>>();
  readonly #sweeping: Periodic;
  /** Of moves. */
  readonly #failures: FirstFailures;
  /** The last sweep of this server failed: others take the next turns. */
  #hasFailed = false;
  #isClosing = false;

  constructor(options: FeedOutboxOptions) {
    this.#options = options;
    this.#failures = new FirstFailures((error) =>
      options.onError(error, 'adding messages to the change feed; it is tried again'),
    );
    const everyMs = options.redis.isCluster ? clusterSweepEveryMs : sweepEveryMs;
    this.#sweeping = new Periodic({
      everyMs,
      run: () => this.#sweepInTurn(everyMs),
      onError: (error) => options.onError(error, 'finding messages that are not in the change feed yet'),
    });
  }

  start(): void {
    this.#sweeping.start();
    this.#sweeping.runSoon();
  }

  /**
   * Moves the entries of a list. If PostgreSQL is unavailable, they stay in Redis; the message is stored
   * either way.
   */
  move(list: string): Promise<void> {
    return this.#moves.run(list);
  }

  /**
   * Moves the entry of a message that Redis has stored. On one Redis server the answer does not wait for it:
   * a read that shows counters of rooms calls `catchUp` first. On a cluster there are too many lists for
   * that, so the answer waits.
   */
  async posted(list: string): Promise<void> {
    const moved = this.move(list);
    if (this.#options.redis.isCluster) return moved;
    if (this.#answered.has(moved)) return undefined;
    this.#answered.add(moved);
    void moved.then(() => this.#answered.delete(moved));
    return undefined;
  }

  /** Moves the entries of all posts that any server has answered. If Redis hangs, it gives up after `carriedWaitMs`. */
  async catchUp(): Promise<void> {
    if (!this.#options.redis.isCluster) await within(carriedWaitMs, this.move(feedOutboxKey));
  }

  /**
   * Resolves when the entries of the posts that this server has answered are moved, or after `carriedWaitMs`.
   * It sends nothing to Redis.
   */
  async settled(): Promise<void> {
    if (this.#answered.size > 0) await within(carriedWaitMs, Promise.all(this.#answered));
  }

  /** Moves the entries of all lists. */
  async moveAll(): Promise<void> {
    const { redis, scan } = this.#options;
    const lists = redis.isCluster ? await scan(`*:${feedOutboxPart}`) : [feedOutboxKey];
    for (const list of lists) await this.move(list);
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#sweeping.close();
    await this.#moves.settled();
  }

  /** In each interval, one of the servers does this. */
  async #sweepInTurn(everyMs: number): Promise<void> {
    const { sql } = this.#options;
    if (!(await takeTurn(sql, 'feed outbox', everyMs, this.#hasFailed))) return;
    this.#hasFailed = true;
    await this.moveAll();
    this.#hasFailed = this.#failures.isFailing;
    await inSteps(sql, 'DELETE FROM feed.added_entries', {
      table: 'feed.added_entries',
      where: `added_at < clock_timestamp() - interval '${addedKeptHours} hours'`,
      rowsMax: batchEntries,
      isOver: () => this.#isClosing,
    });
  }

  async #moveList(list: string): Promise<void> {
    const { redis, onAdded } = this.#options;
    for (;;) {
      const entries = await this.#addBatch(list);
      if (entries.length === 0) return;
      onAdded();
      // Removed by value, because another server may have removed some of them.
      const removal = redis.commands.pipeline();
      for (const entry of entries) removal.lrem(list, 1, entry);
      await withRedis(() => removal.exec());
      if (entries.length < batchEntries) return;
    }
  }

  /**
   * One statement. Entries get into the feed in the order of their list, also with several servers: an entry
   * leaves the list only after its row is committed, so a batch begins with every earlier entry that may be
   * missing. If another server adds the same entry at the moment, the statement waits for that server.
   */
  async #addBatch(list: string): Promise<string[]> {
    const { redis, sql } = this.#options;
    const entries = await withRedis(() => redis.commands.lrange(list, 0, batchEntries - 1));
    const changes = entries.flatMap((entry) => changeOf(entry) ?? []);
    if (changes.length === 0) return entries;
    const posted = entries.flatMap((entry) => postedOf(entry) ?? []);
    await query(
      sql,
      `WITH fresh AS (
        INSERT INTO feed.added_entries (entry)
          SELECT DISTINCT entry FROM unnest($1::text[]) AS entry ORDER BY entry
        ON CONFLICT DO NOTHING RETURNING entry
      ), newest AS (
        SELECT room, max(total) AS total, max(active_ms) AS active_ms, facts.owner
          FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS posted (room, total, active_ms)
          LEFT JOIN messaging.room_facts facts ON facts.room_id = room
          GROUP BY room, facts.owner
      ), counted AS (
        UPDATE rooms SET message_count = greatest(message_count, newest.total),
            last_active_at = greatest(last_active_at, to_timestamp(newest.active_ms / 1000.0))
          FROM newest WHERE rooms.id = newest.room AND newest.owner IS NULL
      ), counted_own AS (
        UPDATE messaging.room_facts own SET message_count = greatest(own.message_count, newest.total),
            last_active_at = greatest(own.last_active_at, to_timestamp(newest.active_ms / 1000.0))
          FROM newest WHERE own.room_id = newest.room AND newest.owner IS NOT NULL
      ), marked AS (
        INSERT INTO find.marks (owner, kind, collection, id)
          SELECT '${messagesOwner}', 'messages', split_part(entry, ' ', 2), split_part(entry, ' ', 3)
            FROM (SELECT replace(entry, '/', ' ') AS entry FROM fresh) AS placed
            WHERE entry LIKE 'message.%'
      )
      INSERT INTO feed.incoming (changes)
        SELECT changes::json
          FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (entry, changes, position)
          JOIN fresh USING (entry) ORDER BY position`,
      [
        changes.map(entryOf),
        changes.map((change) => JSON.stringify([change])),
        posted.map(({ room }) => room),
        posted.map(({ total }) => String(total)),
        posted.map(({ tsMs }) => String(tsMs)),
      ],
    );
    return entries;
  }
}

/** Identifies a change in `feed.added_entries`. The same message always gives the same text. */
function entryOf({ kind, id }: Change): string {
  return `${kind} ${id}`;
}
