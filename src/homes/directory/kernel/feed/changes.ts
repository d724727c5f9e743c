/** The change feed: every visible commit in order, readable from any stored position, and live at the end. */
import { kernelFamilies } from '../families.js';
import { decodeFeed, positionKey } from './log.js';
import type { Store } from '../store.js';
import type {
  Commit,
  Feed,
  FeedCommit,
  FeedPage,
  FeedReadOptions,
  FollowOptions,
} from '../../../../feed/port.js';
import { firstPosition, positionParts, positionText, resync } from '../../../../feed/positions.js';
import { WaitingReaders } from '../../../../feed/waiting-readers.js';
import { pagesAfter } from '../../../../feed/following.js';

/**
 * Changes read for one page, so that a narrow filter does not block the event loop. A commit without changes
 * counts as one.
 */
const changesScannedMax = 2_000;
/** Decoded changes in memory for each shard, shared by readers near the end. */
const recentChangesMax = 10_000;

export class ChangeFeed implements Feed {
  readonly #shards: FeedShard[];
  readonly #waiting = new WaitingReaders();
  /** The position, a number per shard, up to which everything was shown to waiting readers. */
  readonly #shown: number[];

  readonly #epoch: string;

  /** `epoch` is in every position, so that a position of another store is refused and skips nothing. */
  constructor(stores: readonly Store[], epoch: string) {
    this.#epoch = epoch;
    this.#shards = stores.map(
      (store, index) => new FeedShard(store, (commits) => this.#wake(index, commits)),
    );
    this.#shown = this.#shards.map((shard) => shard.last);
  }

  newest(): string {
    return this.#position(this.#shards.map((shard) => shard.last));
  }

  before(position: string, commits: number): string {
    const numbers = this.#numbers(position);
    return this.#position(
      this.#shards.map((shard, index) => Math.max(shard.first - 1, (numbers[index] as number) - commits)),
    );
  }

  distance(from: string, to: string): number {
    const sum = (position: string): number => this.#numbers(position).reduce((total, seq) => total + seq, 0);
    return sum(to) - sum(from);
  }

  read(options: FeedReadOptions = {}): FeedPage {
    const limit = options.limit ?? Infinity;
    const at = this.#start(options.since);
    const until = options.until === undefined ? undefined : this.#numbers(options.until);
    const commits: FeedCommit[] = [];
    let taken = 0;
    for (let scanned = 0; scanned < changesScannedMax && taken < limit;) {
      const next = this.#earliest(at, until);
      if (next === undefined) return { commits, position: this.#position(at), more: false };
      at[next.shard] = next.commit.seq;
      scanned += Math.max(1, next.commit.changes.length);
      const changes =
        options.accept === undefined ? next.commit.changes : next.commit.changes.filter(options.accept);
      if (changes.length === 0) continue;
      commits.push({ ...next.commit, changes, position: this.#position(at) });
      taken += changes.length;
    }
    return { commits, position: this.#position(at), more: this.#earliest(at, until) !== undefined };
  }

  follow(options: FollowOptions): AsyncGenerator<FeedPage> {
    // Without a position it begins with changes after this call, not after the first read.
    return pagesAfter(options.since ?? this.newest(), options, {
      read: (request) => this.read(request),
      wait: (since, timeMs, request) => this.#wait(since, timeMs, request),
      isClosing: () => false,
    });
  }

  /** Calls back after each group of commits. Returns a function that stops it. */
  onCommit(listener: (commits: readonly Commit[]) => void): () => void {
    const stops = this.#shards.map((shard) => shard.store.onCommit(listener));
    return () => {
      for (const stop of stops) stop();
    };
  }

  #start(since: string = firstPosition): number[] {
    if (since === firstPosition) return this.#shards.map((shard) => shard.first - 1);
    const at = this.#numbers(since);
    for (const [index, shard] of this.#shards.entries())
      if (!shard.holdsAfter(at[index] as number)) throw resync(this.newest());
    return at;
  }

  /** A number for each shard. A position of another store, or of another number of shards, is refused with `resync`. */
  #numbers(position: string): number[] {
    if (position === firstPosition) return this.#shards.map(() => 0);
    const { epoch, numbers } = positionParts(position);
    if (epoch !== this.#epoch || numbers.length !== this.#shards.length) throw resync(this.newest());
    return [...numbers];
  }

  #position(numbers: readonly number[]): string {
    return positionText({ epoch: this.#epoch, numbers });
  }

  /** The next commit over all shards: by time between shards, by number within one. */
  #earliest(at: readonly number[], until?: readonly number[]): { shard: number; commit: Commit } | undefined {
    let earliest: { shard: number; commit: Commit } | undefined;
    for (const [index, shard] of this.#shards.entries()) {
      if (until !== undefined && (at[index] as number) >= (until[index] as number)) continue;
      const commit = shard.after(at[index] as number);
      if (commit !== undefined && (earliest === undefined || commit.atMs < earliest.commit.atMs))
        earliest = { shard: index, commit };
    }
    return earliest;
  }

  /**
   * Waits until an accepted change is committed, the time is over or the reader has left. Returns the
   * position up to which no change was accepted. Must be called right after a read, without awaiting.
   */
  #wait(since: string, timeMs: number, options: FollowOptions): Promise<string> {
    const at = this.#numbers(since);
    // The filter did not accept the changes since then.
    return this.#waiting.wait(options, timeMs, () =>
      this.#position(at.map((seq, shard) => Math.max(seq, this.#shown[shard] as number))),
    );
  }

  /** A reader that accepts none of these changes is not woken: thousands may wait for different changes. */
  #wake(shard: number, commits: readonly Commit[]): void {
    const last = commits.at(-1);
    if (last === undefined) return;
    this.#waiting.wakeFor(commits);
    this.#shown[shard] = last.seq;
  }
}

/** The feed of one shard: its newest commits in memory, the rest on disk, one record decoded at a time. */
class FeedShard {
  readonly store: Store;
  /** Consecutive commits up to the newest. */
  #recent: Commit[] = [];
  #recentChanges = 0;
  /** The record that was read last from the log. Readers go through it commit by commit. */
  #record: readonly Commit[] = [];

  constructor(store: Store, onCommit: (commits: readonly Commit[]) => void) {
    this.store = store;
    store.onCommit((commits) => {
      this.#remember(commits);
      onCommit(commits);
    });
  }

  get last(): number {
    return this.store.sequence;
  }

  /** The oldest stored sequence number, or one after the newest if none is stored. */
  get first(): number {
    const { first, last } = this.store.feedExtent();
    return first === 0 ? last + 1 : first;
  }

  /** Whether everything after this number can still be read. Recent numbers are answered from memory. */
  holdsAfter(seq: number): boolean {
    if (seq >= this.last) return seq === this.last;
    const recent = this.#recent[0];
    return (recent !== undefined && seq >= recent.seq - 1) || seq >= this.first - 1;
  }

  after(seq: number): Commit | undefined {
    if (seq >= this.last) return undefined;
    const wanted = seq + 1;
    return commitIn(this.#recent, wanted) ?? commitIn(this.#record, wanted) ?? this.#load(wanted);
  }

  /** Removes the oldest half when it is too large. */
  #remember(commits: readonly Commit[]): void {
    for (const commit of commits) {
      this.#recent.push(commit);
      this.#recentChanges += commit.changes.length;
    }
    if (this.#recentChanges <= 2 * recentChangesMax) return;
    let kept = this.#recent.length;
    for (this.#recentChanges = 0; kept > 0 && this.#recentChanges < recentChangesMax; kept -= 1) {
      this.#recentChanges += (this.#recent[kept - 1] as Commit).changes.length;
    }
    this.#recent = this.#recent.slice(kept);
  }

  #load(wanted: number): Commit | undefined {
    for (const { value } of this.store.range(kernelFamilies.changes, {
      gte: positionKey(wanted),
      limit: 1,
    })) {
      this.#record = decodeFeed(value).items;
      return commitIn(this.#record, wanted);
    }
    return undefined;
  }
}

/** Sequence numbers have no gaps, so the index of a commit is a subtraction. */
function commitIn(commits: readonly Commit[], seq: number): Commit | undefined {
  const first = commits[0];
  return first === undefined || seq < first.seq ? undefined : commits[seq - first.seq];
}
