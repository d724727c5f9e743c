/**
 * The change feed in PostgreSQL. Every server has the same commits, in the same order, with the same
 * positions.
 */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { nextTurn } from '../../../core/waiting/yielding.js';
import type { Feed, FeedCommit, FeedPage, FeedReadOptions, FollowOptions } from '../../../feed/port.js';
import { type WaitingReader, WaitingReaders } from '../../../feed/waiting-readers.js';
import { clockSql } from '../database/database-clock.js';
import { type PostgresSql, listen, query } from '../database/connection.js';
import { currentEpoch } from './epoch.js';
import { Numbering } from './numbering.js';
import { feedChannel, migrateFeed } from './schema.js';
import { takeTurn } from '../database/turns.js';
import { FeedTail, commitsAfter } from './tail.js';

export interface PostgresFeedOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly onError: (error: unknown, about: string) => void;
}

/**
 * Changes that one page scans, so that a narrow filter does not block the event loop. An empty commit counts
 * as one.
 */
const changesScannedMax = 2_000;
const trimEveryMs = 60_000;
const trimRowsMax = 1_000;

interface Position {
  readonly epoch: number;
  readonly seq: number;
}

export class PostgresFeed implements Feed {
  readonly #options: PostgresFeedOptions;
  readonly #numbering: Numbering;
  readonly #waiting = new WaitingReaders();
  readonly #tail: FeedTail;
  #epoch = 0;
  #trimming: NodeJS.Timeout | undefined;
  #closing = false;
  #sizeBytes = 0;

  constructor(options: PostgresFeedOptions) {
    this.#options = options;
    const { sql, onError } = options;
    this.#tail = new FeedTail({
      sql,
      readers: () => this.#waiting.size,
      onCommits: (commits) => this.#waiting.wakeFor(commits),
      onGap: () => this.#waiting.wakeAll(),
      onError: (error) => onError(error, 'reading the change feed'),
    });
    this.#numbering = new Numbering({
      sql,
      onNumbered: (lastSeq) => this.#tail.advanceTo(lastSeq),
      onError: (error) => onError(error, 'numbering the commits of the change feed'),
    });
  }

  /** Creates missing tables, and starts numbering and listening. */
  async open(): Promise<void> {
    const { sql } = this.#options;
    await migrateFeed(sql);
    this.#epoch = await currentEpoch(sql);
    // The last function runs after each reconnection: the database may be a restored copy now.
    await listen(
      sql,
      feedChannel,
      (lastSeq) => this.#tail.advanceTo(Number(lastSeq)),
      () => void this.#reconnected(),
    );
    this.#numbering.start();
    this.#trimming = setInterval(() => void this.#trim(), trimEveryMs);
    this.#trimming.unref();
  }

  /** The newest commit number that this server has seen. */
  get lastSeq(): number {
    return this.#tail.newest;
  }

  /**
   * The number up to which waiting readers have been served. Without waiting readers, the newest known
   * number.
   */
  get reachedSeq(): number {
    return this.#waiting.size > 0 ? this.#tail.shown : this.#tail.newest;
  }

  /** The size of the feed when it was last trimmed. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Call after the commit of a write: its changes get their numbers soon. */
  committed(): void {
    this.#numbering.soon();
  }

  /** Numbers all committed writes first, so that the position is after every write that was acknowledged. */
  async newest(): Promise<string> {
    return this.#position(await this.#numbering.now());
  }

  distance(from: string, to: string): number {
    return decodePosition(to).seq - decodePosition(from).seq;
  }

  async read(options: FeedReadOptions): Promise<FeedPage> {
    const extent = await this.#extent();
    const limit = options.limit ?? Infinity;
    let at = this.#start(options.since, extent);
    const until = Math.min(
      extent.last,
      options.until === undefined ? Infinity : this.#decode(options.until, extent).seq,
    );
    const commits: FeedCommit[] = [];
    let [taken, scanned] = [0, 0];
    while (at < until && scanned < changesScannedMax && taken < limit) {
      const next = this.#tail.after(at) ?? (await commitsAfter(this.#options.sql, at));
      // The next commits were trimmed after the extent was read.
      if (next[0]?.seq !== at + 1) throw this.#resync(extent.last);
      for (const commit of next) {
        if (commit.seq > until || scanned >= changesScannedMax || taken >= limit) break;
        at = commit.seq;
        scanned += Math.max(1, commit.changes.length);
        const changes = options.accept === undefined ? commit.changes : commit.changes.filter(options.accept);
        if (changes.length === 0) continue;
        commits.push({ ...commit, changes, position: this.#position(at) });
        taken += changes.length;
      }
    }
    return { commits, position: this.#position(at), more: at < until };
  }

  follow(options: FollowOptions): AsyncGenerator<FeedPage> {
    const since = options.since === undefined ? this.newest() : Promise.resolve(options.since);
    // The reader gets the error when it requests the first page.
    since.catch(() => undefined);
    return this.#pages(options, since);
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#trimming);
    this.#waiting.wakeAll();
    await this.#numbering.close();
    await this.#tail.close();
  }

  async *#pages(options: FollowOptions, start: Promise<string>): AsyncGenerator<FeedPage> {
    let since = await start;
    let quietSinceMs = performance.now();
    while (!options.signal.aborted && !this.#closing) {
      const page = await this.read({ ...options, since });
      since = page.position;
      const idleLeftMs = quietSinceMs + options.idleMs - performance.now();
      if (page.commits.length > 0 || idleLeftMs <= 0) {
        yield page;
        quietSinceMs = performance.now();
      } else if (page.more) {
        await nextTurn();
      } else {
        since = await this.#wait(since, idleLeftMs, options);
      }
    }
  }

  /**
   * Waits for an accepted commit, the end of `timeMs` or the signal. Returns the position up to which no
   * commit was accepted.
   */
  #wait(since: string, timeMs: number, { accept, interest, signal }: FollowOptions): Promise<string> {
    const { epoch, seq } = decodePosition(since);
    // Waiting readers were already shown commits after this position, so this reader must read them first.
    if (epoch !== this.#epoch || seq < this.#tail.shown) return Promise.resolve(since);
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timeout);
        this.#waiting.delete(reader);
        signal.removeEventListener('abort', wake);
        const shown = epoch === this.#epoch ? Math.max(seq, this.#tail.shown) : seq;
        resolve(`${epoch}-${shown}`);
      };
      const reader: WaitingReader = { accept, interest, wake };
      const timeout = setTimeout(wake, timeMs);
      this.#waiting.add(reader);
      signal.addEventListener('abort', wake);
      this.#tail.follow(seq);
    });
  }

  async #extent(): Promise<{ first: number; last: number }> {
    const [row] = await query<{ first_seq: string; last_seq: string }>(
      this.#options.sql,
      'SELECT first_seq, last_seq FROM feed.extent',
    );
    return { first: Number(row?.first_seq ?? 1), last: Number(row?.last_seq ?? 0) };
  }

  /**
   * The number after which to read. Without a position, or with "0", reading starts at the oldest stored
   * commit.
   */
  #start(since: string | undefined, extent: { first: number; last: number }): number {
    if (since === undefined || since === '0') return extent.first - 1;
    const { seq } = this.#decode(since, extent);
    if (seq < extent.first - 1 || seq > extent.last) throw this.#resync(extent.last);
    return seq;
  }

  #decode(text: string, { last }: { last: number }): Position {
    const position = decodePosition(text);
    if (position.epoch !== this.#epoch) throw this.#resync(last);
    return position;
  }

  #position(seq: number): string {
    return `${this.#epoch}-${seq}`;
  }

  #resync(last: number): StoaError {
    return new StoaError('resync', 'The change feed no longer contains the changes after this position.', {
      fix: 'Read the state again, then follow the feed from `details.position`.',
      details: { position: this.#position(last) },
    });
  }

  async #reconnected(): Promise<void> {
    const { sql, onError } = this.#options;
    try {
      const epoch = await currentEpoch(sql);
      if (epoch !== this.#epoch) {
        this.#epoch = epoch;
        this.#tail.reset();
        this.#waiting.wakeAll();
      }
    } catch (error) {
      onError(error, 'checking after a reconnection whether the database is a restored copy');
    }
    this.#numbering.soon();
  }

  async #trim(): Promise<void> {
    const { sql, limits, onError } = this.#options;
    try {
      const isTurn = await takeTurn(sql, 'feed', trimEveryMs);
      for (let removed = isTurn ? trimRowsMax : 0; removed === trimRowsMax && !this.#closing;) {
        const [row] = await query<{ removed: number }>(
          sql,
          `SELECT feed.trim_commits(
            ${clockSql} - $1::bigint, $2, $3) AS removed`,
          [limits.feedAgeSecondsMax * 1_000, limits.feedBytesMax, trimRowsMax],
        );
        removed = row?.removed ?? 0;
      }
      const [extent] = await query<{ size_bytes: string }>(sql, 'SELECT size_bytes FROM feed.extent');
      this.#sizeBytes = Number(extent?.size_bytes ?? 0);
    } catch (error) {
      onError(error, 'trimming the change feed');
    }
  }
}

function decodePosition(text: string): Position {
  const match = /^(\d{1,9})-(\d{1,15})$/.exec(text);
  if (match === null)
    throw new StoaError('invalid_cursor', `"${text.slice(0, 80)}" is not a position of this feed.`, {
      fix: 'Use a position from a server of this Stoa, or omit it to read from the oldest commit.',
    });
  return { epoch: Number(match[1]), seq: Number(match[2]) };
}
