/**
 * The newest commits of the feed, in memory while readers wait for them. All readers of a server share one
 * query.
 */
import type { Change } from '../../../core/change.js';
import type { Commit } from '../../../feed/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';

export interface FeedTailOptions {
  readonly sql: PostgresSql;
  /** The number of waiting readers. Nothing is read while it is 0. */
  readonly readers: () => number;
  readonly onCommits: (commits: readonly Commit[]) => void;
  /** The next commits were trimmed. All readers must be woken, because they have to read the feed again. */
  readonly onGap: () => void;
  readonly onError: (error: unknown) => void;
}

const pageCommits = 500;
/** A page is parsed in one turn of the event loop. Its last commit may go over this. */
const pageBytes = 1_000_000;
/** Changes that stay in memory for readers that are a little behind. */
const keptChangesMax = 10_000;

export class FeedTail {
  readonly #options: FeedTailOptions;
  /** Consecutive commits up to `#shown`. A commit never changes once it has a number. */
  #kept: Commit[] = [];
  #shown = 0;
  /** The newest commit number that this server has seen. */
  #newest = 0;
  #reading: Promise<void> | undefined;
  #closing = false;

  constructor(options: FeedTailOptions) {
    this.#options = options;
  }

  get newest(): number {
    return this.#newest;
  }

  /** Every waiting reader was shown all commits between the number where it began to wait and this number. */
  get shown(): number {
    return this.#shown;
  }

  /** The commits after a number, or undefined if they must be read from the database. */
  after(seq: number): readonly Commit[] | undefined {
    const first = this.#kept[0];
    if (first === undefined || seq < first.seq - 1 || seq >= this.#shown) return undefined;
    return this.#kept.slice(seq + 1 - first.seq);
  }

  /** Call when a reader that has read up to `seq` begins to wait. `seq` must not be less than `shown`. */
  follow(seq: number): void {
    // Other waiting readers may be behind this one and need every commit. Only a single reader can skip
    // ahead.
    if (seq > this.#shown && this.#options.readers() === 1) {
      this.#kept = [];
      this.#shown = seq;
    }
    this.#readOn();
  }

  /** Call when the feed has a new newest number. */
  advanceTo(lastSeq: number): void {
    this.#newest = Math.max(this.#newest, lastSeq);
    this.#readOn();
  }

  /** Call when a new epoch starts: earlier numbers are no longer valid. */
  reset(): void {
    this.#kept = [];
    this.#shown = 0;
    this.#newest = 0;
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#reading;
  }

  get #hasMore(): boolean {
    return !this.#closing && this.#options.readers() > 0 && this.#shown < this.#newest;
  }

  #readOn(): void {
    if (this.#reading !== undefined || !this.#hasMore) return;
    // After a failure the next `advanceTo` tries again.
    this.#reading = this.#read()
      .catch(this.#options.onError)
      .finally(() => {
        this.#reading = undefined;
      });
  }

  async #read(): Promise<void> {
    while (this.#hasMore) {
      const [from, kept] = [this.#shown, this.#kept];
      const commits = await commitsAfter(this.#options.sql, from);
      if (this.#shown !== from || this.#kept !== kept) continue;
      if (commits[0]?.seq !== from + 1) {
        this.#options.onGap();
        this.#kept = [];
        this.#shown = this.#newest;
        return;
      }
      this.#kept = newestOf([...this.#kept, ...commits]);
      // A woken reader reads from its own number. A reader that is not woken accepts none of these commits.
      this.#options.onCommits(commits);
      this.#shown = (commits.at(-1) as Commit).seq;
    }
  }
}

/** The newest commits with at most `keptChangesMax` changes together, and always the last one. */
function newestOf(commits: readonly Commit[]): Commit[] {
  let [first, changes] = [commits.length, 0];
  for (; first > 0; first -= 1) {
    changes += Math.max(1, commits[first - 1]?.changes.length ?? 0);
    if (changes > keptChangesMax && first < commits.length) break;
  }
  return commits.slice(first);
}

/** A page of numbered commits in their order. */
export async function commitsAfter(sql: Queryable, seq: number): Promise<Commit[]> {
  const rows = await query<{ seq: string; at_ms: string; changes: string }>(
    sql,
    `SELECT seq, at_ms, changes FROM (
        SELECT *, sum(size_bytes) OVER (ORDER BY seq) - size_bytes AS bytes_before
          FROM (SELECT * FROM feed.commits WHERE seq > $1 ORDER BY seq LIMIT ${pageCommits}) AS next) AS page
      WHERE bytes_before < ${pageBytes} ORDER BY seq`,
    [seq],
  );
  return rows.map((row) => ({
    seq: Number(row.seq),
    atMs: Number(row.at_ms),
    // Only `Work.finish`, grouped sets and the feed outbox write this column, each as a JSON array of
    // changes.
    changes: JSON.parse(row.changes) as Change[],
  }));
}
