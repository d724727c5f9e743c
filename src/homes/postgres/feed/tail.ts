/** The newest commits of the feed in memory while somebody waits for them: all readers of a server share one query. */
import type { Change } from '../../../core/change.js';
import type { Commit } from '../../../feed/port.js';
import { type PostgresSql, type Queryable, query } from '../connection.js';

export interface FeedTailOptions {
  readonly sql: PostgresSql;
  /** How many readers wait. Without one nothing is read. */
  readonly readers: () => number;
  readonly onCommits: (commits: readonly Commit[]) => void;
  /** The commits that come next were trimmed: readers have to look for themselves. */
  readonly onGap: () => void;
  readonly onError: (error: unknown) => void;
}

const pageCommits = 500;
/** Commits that are kept for readers that are a little behind. */
const keptCommits = 2_000;

export class FeedTail {
  readonly #options: FeedTailOptions;
  /** Consecutive commits up to `#shown`. A commit never changes once it has a number. */
  #kept: Commit[] = [];
  #shown = 0;
  /** The newest number that this server knows of. */
  #newest = 0;
  #reading: Promise<void> | undefined;
  #closing = false;

  constructor(options: FeedTailOptions) {
    this.#options = options;
  }

  /** The number up to which all waiting readers were shown everything after the number at which they began to wait. */
  get shown(): number {
    return this.#shown;
  }

  /** Kept commits after a number, or undefined where the database has to be asked. */
  after(seq: number): readonly Commit[] | undefined {
    const first = this.#kept[0];
    if (first === undefined || seq < first.seq - 1 || seq >= this.#shown) return undefined;
    return this.#kept.slice(seq + 1 - first.seq);
  }

  /** A reader that has read up to this number begins to wait. It must not be behind `shown`. */
  follow(seq: number): void {
    // Others that wait further back must be shown every commit. Only a reader that is alone may skip what it has read.
    if (seq > this.#shown && this.#options.readers() === 1) {
      this.#kept = [];
      this.#shown = seq;
    }
    this.#readOn();
  }

  /** The feed has come to this number. */
  reach(lastSeq: number): void {
    this.#newest = Math.max(this.#newest, lastSeq);
    this.#readOn();
  }

  /** Numbers from before are no longer valid. */
  forget(): void {
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
    // After a failure the next `reach` tries again.
    this.#reading = this.#read()
      .catch(this.#options.onError)
      .finally(() => {
        this.#reading = undefined;
      });
  }

  async #read(): Promise<void> {
    while (this.#hasMore) {
      const from = this.#shown;
      const commits = await commitsAfter(this.#options.sql, from);
      if (this.#shown !== from) continue;
      if (commits[0]?.seq !== from + 1) {
        this.#options.onGap();
        this.#kept = [];
        this.#shown = this.#newest;
        return;
      }
      this.#kept = [...this.#kept, ...commits].slice(-keptCommits);
      // A reader that is woken looks from its own number; one that sleeps on has nothing in these commits.
      this.#options.onCommits(commits);
      this.#shown = (commits.at(-1) as Commit).seq;
    }
  }
}

/** A page of numbered commits in their order. */
export async function commitsAfter(sql: Queryable, seq: number): Promise<Commit[]> {
  const rows = await query<{ seq: string; at_ms: string; changes: string }>(
    sql,
    `SELECT seq, at_ms, changes FROM feed.commits WHERE seq > $1 ORDER BY seq LIMIT ${pageCommits}`,
    [seq],
  );
  return rows.map((row) => ({
    seq: Number(row.seq),
    atMs: Number(row.at_ms),
    // A write put the changes there as JSON.
    changes: JSON.parse(row.changes) as Change[],
  }));
}
