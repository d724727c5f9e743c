/** The change feed: every visible commit in order, readable from any kept position, live at the end. */
import { StoaError } from '../errors.js';
import { kernelFamilies } from './families.js';
import { type Commit, decodeFeed, positionKey } from './log.js';
import type { Store } from './store.js';
import type { Change } from './transaction.js';

export interface FeedCommit extends Commit {
  /** Where to go on after this commit. Opaque to clients. */
  position: string;
}

export interface FeedPage {
  commits: FeedCommit[];
  /** How far the feed was looked through, also where nothing was accepted: a quiet filter never falls behind. */
  position: string;
  /** True when there is more to read right now. */
  more: boolean;
}

export interface FeedReadOptions {
  /** Exclusive; undefined reads from the oldest entry that is kept. */
  since?: string | undefined;
  /** Changes on a page. A commit is never split, so the last one may go over it. */
  limit?: number;
  accept?: (change: Change) => boolean;
}

export interface FollowOptions extends FeedReadOptions {
  signal: AbortSignal;
  /** After this pause without news the page is empty and carries the position only. */
  idleMs: number;
}

/** Commits looked at for one page, so that a narrow filter does not hold up the event loop. */
const commitsScannedMax = 5_000;
/** Commits kept decoded in memory a shard: readers near the end share them. */
const recentCommitsMax = 2_000;

export class ChangeFeed {
  readonly #shards: FeedShard[];
  readonly #waiting = new Set<() => void>();

  constructor(stores: readonly Store[]) {
    this.#shards = stores.map((store) => new FeedShard(store, () => this.#wake()));
  }

  /** The newest position. */
  get position(): string {
    return encodePosition(this.#shards.map((shard) => shard.last));
  }

  /** One page after a position. Throws `resync` when the feed no longer holds what comes next. */
  read(options: FeedReadOptions = {}): FeedPage {
    const limit = options.limit ?? Infinity;
    const at = this.#start(options.since);
    const commits: FeedCommit[] = [];
    let taken = 0;
    for (let scanned = 0; scanned < commitsScannedMax && taken < limit; scanned += 1) {
      const next = this.#earliest(at);
      if (next === undefined) return { commits, position: encodePosition(at), more: false };
      at[next.shard] = next.commit.seq;
      const changes = options.accept === undefined ? next.commit.changes : next.commit.changes.filter(options.accept);
      if (changes.length === 0) continue;
      commits.push({ ...next.commit, changes, position: encodePosition(at) });
      taken += changes.length;
    }
    return { commits, position: encodePosition(at), more: this.#earliest(at) !== undefined };
  }

  /**
   * Pages without end: first what is kept, then what happens. It reads the log whenever its reader
   * asks, so a slow reader costs no memory; one that falls behind the kept part gets `resync`.
   */
  async *follow(options: FollowOptions): AsyncGenerator<FeedPage> {
    let since = options.since ?? this.position;
    while (!options.signal.aborted) {
      const page = this.read({ ...options, since });
      const moved = page.position !== since;
      since = page.position;
      if (page.commits.length > 0) yield page;
      if (page.more) {
        await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      const woken = await this.#wait(options.idleMs, options.signal);
      if (!woken && !options.signal.aborted) yield { commits: [], position: since, more: moved };
    }
  }

  /** Calls back after each group of commits, whatever they are. Returns the way to stop it. */
  onCommit(listener: (commits: readonly Commit[]) => void): () => void {
    const stops = this.#shards.map((shard) => shard.store.onCommit(listener));
    return () => {
      for (const stop of stops) stop();
    };
  }

  #start(since: string | undefined): number[] {
    const at = since === undefined ? this.#shards.map((shard) => shard.first - 1) : decodePosition(since, this.#shards.length);
    for (const [index, shard] of this.#shards.entries()) {
      if (!shard.holdsAfter(at[index] as number)) {
        throw new StoaError('resync', 'The change feed does not hold what comes after this position.', {
          fix: 'Read the state anew, then follow the feed from the position that GET /v1/changes?limit=1 reports.',
          details: { position: this.position },
        });
      }
    }
    return at;
  }

  /** The next commit over all shards: by time between shards, by number within one. */
  #earliest(at: readonly number[]): { shard: number; commit: Commit } | undefined {
    let earliest: { shard: number; commit: Commit } | undefined;
    for (const [index, shard] of this.#shards.entries()) {
      const commit = shard.after(at[index] as number);
      if (commit !== undefined && (earliest === undefined || commit.atMs < earliest.commit.atMs)) earliest = { shard: index, commit };
    }
    return earliest;
  }

  #wait(idleMs: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (woken: boolean) => {
        clearTimeout(timeout);
        this.#waiting.delete(wake);
        signal.removeEventListener('abort', stop);
        resolve(woken);
      };
      const wake = () => finish(true);
      const stop = () => finish(false);
      const timeout = setTimeout(stop, idleMs);
      this.#waiting.add(wake);
      signal.addEventListener('abort', stop);
    });
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    for (const wake of waiting) wake();
  }
}

/** The feed of one shard: its newest commits in memory, the rest on disk, one record decoded at a time. */
class FeedShard {
  readonly store: Store;
  /** Consecutive commits up to the newest. */
  #recent: Commit[] = [];
  /** The record of the last look into the log: readers go through it commit by commit. */
  #record: readonly Commit[] = [];

  constructor(store: Store, onCommit: () => void) {
    this.store = store;
    store.onCommit((commits) => {
      this.#recent.push(...commits);
      if (this.#recent.length > 2 * recentCommitsMax) this.#recent = this.#recent.slice(-recentCommitsMax);
      onCommit();
    });
  }

  get last(): number {
    return this.store.sequence;
  }

  /** The oldest sequence number that is kept; one past the newest when nothing is. */
  get first(): number {
    const { first, last } = this.store.feedExtent();
    return first === 0 ? last + 1 : first;
  }

  /** Whether everything after this number can still be read. What is recent needs no look at the disk. */
  holdsAfter(seq: number): boolean {
    const recent = this.#recent[0];
    if (recent !== undefined && seq >= recent.seq - 1) return seq <= this.last;
    return seq <= this.last && seq >= this.first - 1;
  }

  after(seq: number): Commit | undefined {
    if (seq >= this.last) return undefined;
    const wanted = seq + 1;
    return commitIn(this.#recent, wanted) ?? commitIn(this.#record, wanted) ?? this.#load(wanted);
  }

  #load(wanted: number): Commit | undefined {
    for (const { value } of this.store.range(kernelFamilies.changes, { gte: positionKey(wanted), limit: 1 })) {
      this.#record = decodeFeed(value).items;
      return commitIn(this.#record, wanted);
    }
    return undefined;
  }
}

/** Sequence numbers have no gaps, so that the place in a run of commits is a subtraction. */
function commitIn(commits: readonly Commit[], seq: number): Commit | undefined {
  const first = commits[0];
  return first === undefined || seq < first.seq ? undefined : commits[seq - first.seq];
}

/** One number a shard, joined with dots; with a single shard it is just the sequence number. */
function encodePosition(at: readonly number[]): string {
  return at.join('.');
}

function decodePosition(text: string, shards: number): number[] {
  const at = text.split('.').map(Number);
  if (!/^\d{1,15}(\.\d{1,15})*$/.test(text) || at.length !== shards) {
    throw new StoaError('invalid_cursor', `"${text.slice(0, 80)}" is not a position of this feed.`, {
      fix: 'Use a position that this server gave out, or leave it away to read from the oldest entry.',
    });
  }
  return at;
}
