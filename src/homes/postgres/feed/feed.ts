/**
 * The change feed in PostgreSQL. Every server has the same commits, in the same order, with the same
 * positions.
 */
import type { Limits } from '../../../core/settings/limits.js';
import { pagesAfter } from '../../../feed/following.js';
import type { Feed, FeedCommit, FeedPage, FeedReadOptions, FollowOptions } from '../../../feed/port.js';
import { firstPosition, positionParts, positionText, resync } from '../../../feed/positions.js';
import { WaitingReaders } from '../../../feed/waiting-readers.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import { clockSql } from '../database/database-clock.js';
import { type PostgresSql, query } from '../database/connection.js';
import { migrate } from '../database/migrate.js';
import { listen } from '../database/pool.js';
import { type Newest, Numbering } from './numbering.js';
import { feedChannel, feedTables } from './schema.js';
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

interface Extent {
  readonly epoch: string;
  readonly first: number;
  readonly last: number;
}

export class PostgresFeed implements Feed {
  readonly #options: PostgresFeedOptions;
  readonly #numbering: Numbering;
  readonly #waiting = new WaitingReaders();
  readonly #tail: FeedTail;
  /** What the tail in memory belongs to. Each read compares its position with the epoch in the database. */
  #epoch = '';
  #looking: Promise<void> | undefined;
  #settle: () => Promise<void> = async () => undefined;
  #onEpoch: () => void = () => undefined;
  readonly #trimming: Periodic;
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
      onNumbered: (newest) => this.#advance(newest),
      onError: (error) => onError(error, 'numbering the commits of the change feed'),
    });
    this.#trimming = new Periodic({
      everyMs: trimEveryMs,
      run: () => this.#trimInTurn(),
      onError: (error) => onError(error, 'trimming the change feed'),
    });
  }

  /** Creates missing tables, and starts numbering and listening, unless the feed is only read. */
  async open(isOnlyRead = false): Promise<void> {
    const { sql } = this.#options;
    await migrate(sql, feedTables);
    await this.#look();
    if (isOnlyRead) return;
    // The last function runs after each reconnection: notices may be lost, and the database may be a restored
    // copy now.
    await listen(
      sql,
      feedChannel,
      (newest) => {
        const [epoch = '', seq] = newest.split('-');
        this.#advance({ epoch, seq: Number(seq) });
      },
      () => this.#numbering.soon(),
    );
    this.#numbering.start();
    this.#trimming.start();
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

  /** `settle` is awaited before the newest position is read: it adds changes of writes that were acknowledged. */
  settleFirst(settle: () => Promise<void>): void {
    this.#settle = settle;
  }

  /** `forget` is called when the database is another copy: what is in memory may never have happened there. */
  forgetWithEpoch(forget: () => void): void {
    this.#onEpoch = forget;
  }

  /**
   * Numbers all committed writes first, so that the position is after every write that was acknowledged. A
   * post through another server may follow it.
   */
  async newest(): Promise<string> {
    await this.#settle();
    return positionOf(await this.#numbering.now());
  }

  async before(position: string, commits: number): Promise<string> {
    const extent = await this.#extent();
    const seq = Math.max(extent.first - 1, seqOf(position, extent) - commits);
    return positionOf({ epoch: extent.epoch, seq });
  }

  distance(from: string, to: string): number {
    return newestNamedBy(to).seq - newestNamedBy(from).seq;
  }

  async read(options: FeedReadOptions): Promise<FeedPage> {
    const extent = await this.#extent();
    const limit = options.limit ?? Infinity;
    const { epoch } = extent;
    let at = startOf(options.since, extent);
    const until = Math.min(
      extent.last,
      options.until === undefined ? Infinity : seqOf(options.until, extent),
    );
    const commits: FeedCommit[] = [];
    let [taken, scanned] = [0, 0];
    while (at < until && scanned < changesScannedMax && taken < limit) {
      const kept = epoch === this.#epoch ? this.#tail.after(at) : undefined;
      const next = kept ?? (await commitsAfter(this.#options.sql, at));
      // The next commits were trimmed after the extent was read.
      if (next[0]?.seq !== at + 1) throw resync(newestOf(extent));
      for (const commit of next) {
        if (commit.seq > until || scanned >= changesScannedMax || taken >= limit) break;
        at = commit.seq;
        scanned += Math.max(1, commit.changes.length);
        const changes = options.accept === undefined ? commit.changes : commit.changes.filter(options.accept);
        if (changes.length === 0) continue;
        commits.push({ ...commit, changes, position: positionOf({ epoch, seq: at }) });
        taken += changes.length;
      }
    }
    return { commits, position: positionOf({ epoch, seq: at }), more: at < until };
  }

  follow(options: FollowOptions): AsyncGenerator<FeedPage> {
    const since = options.since === undefined ? this.newest() : Promise.resolve(options.since);
    // The reader gets the error when it requests the first page.
    since.catch(() => undefined);
    return pagesAfter(since, options, {
      read: (request) => this.read(request),
      wait: (position, timeMs, request) => this.#wait(position, timeMs, request),
      isClosing: () => this.#closing,
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#waiting.wakeAll();
    await this.#trimming.close();
    await this.#numbering.close();
    await this.#tail.close();
  }

  /**
   * Waits for an accepted commit, the end of `timeMs` or the signal. Returns the position up to which no
   * commit was accepted.
   */
  #wait(since: string, timeMs: number, options: FollowOptions): Promise<string> {
    const { epoch, seq } = newestNamedBy(since);
    // Waiting readers were already shown commits after this position, so this reader must read them first.
    if (epoch !== this.#epoch || seq < this.#tail.shown) return Promise.resolve(since);
    const reached = this.#waiting.wait(options, timeMs, () => {
      const shown = epoch === this.#epoch ? Math.max(seq, this.#tail.shown) : seq;
      return positionOf({ epoch, seq: shown });
    });
    this.#tail.follow(seq);
    return reached;
  }

  async #extent(): Promise<Extent> {
    const [row] = await query<{ first_seq: string; last_seq: string; epoch: string }>(
      this.#options.sql,
      'SELECT first_seq, last_seq, feed.current_epoch() AS epoch FROM feed.extent',
    );
    const extent = {
      epoch: row?.epoch ?? '',
      first: Number(row?.first_seq ?? 1),
      last: Number(row?.last_seq ?? 0),
    };
    if (extent.epoch !== this.#epoch) await this.#look();
    return extent;
  }

  /** A number of another epoch says nothing about this one: it may be older than what is known, or newer. */
  #advance(newest: Newest): void {
    if (newest.epoch === this.#epoch) this.#tail.advanceTo(newest.seq);
    // Each numbering round compares again, so that a failure needs no report here.
    else this.#look().catch(() => undefined);
  }

  /** Reads the epoch. One look at a time: an older answer must not replace a newer one. */
  #look(): Promise<void> {
    this.#looking ??= query<{ epoch: string }>(this.#options.sql, 'SELECT feed.current_epoch() AS epoch')
      .then(([row]) => {
        if (row === undefined || row.epoch === this.#epoch) return;
        this.#epoch = row.epoch;
        this.#tail.reset();
        this.#onEpoch();
        this.#waiting.wakeAll();
      })
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  async #trimInTurn(): Promise<void> {
    const { sql, limits } = this.#options;
    const isTurn = await takeTurn(sql, 'feed', trimEveryMs);
    for (let removed = isTurn ? trimRowsMax : 0; removed === trimRowsMax && !this.#closing;) {
      const [row] = await query<{ removed: number }>(
        sql,
        `SELECT feed.trim_commits(${clockSql} - $1::bigint, $2, $3) AS removed`,
        [limits.feedAgeSecondsMax * 1_000, limits.feedBytesMax, trimRowsMax],
      );
      removed = row?.removed ?? 0;
    }
    const [extent] = await query<{ size_bytes: string }>(sql, 'SELECT size_bytes FROM feed.extent');
    this.#sizeBytes = Number(extent?.size_bytes ?? 0);
  }
}

function positionOf({ epoch, seq }: Newest): string {
  return positionText({ epoch, numbers: [seq] });
}

/** One number. A position of a directory with several shards has more, in another epoch. */
function newestNamedBy(position: string): Newest {
  if (position === firstPosition) return { epoch: '', seq: 0 };
  const { epoch, numbers } = positionParts(position);
  return { epoch, seq: numbers[0] ?? 0 };
}

function newestOf({ epoch, last }: Extent): string {
  return positionOf({ epoch, seq: last });
}

/** The number after which to read. Without a position, or with "0", reading starts at the oldest stored commit. */
function startOf(since: string | undefined, extent: Extent): number {
  if (since === undefined || since === firstPosition) return extent.first - 1;
  const seq = seqOf(since, extent);
  if (seq < extent.first - 1 || seq > extent.last) throw resync(newestOf(extent));
  return seq;
}

function seqOf(position: string, extent: Extent): number {
  const { epoch, seq } = newestNamedBy(position);
  if (epoch !== extent.epoch) throw resync(newestOf(extent));
  return seq;
}
