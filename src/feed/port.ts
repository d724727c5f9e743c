/** The change feed of a home: every commit in one order, readable from any stored position. */
import type { Change } from '../core/change.js';

/** The changes of one write. They are never split between pages. */
export interface Commit {
  readonly seq: number;
  readonly atMs: number;
  readonly changes: readonly Change[];
}

export interface FeedCommit extends Commit {
  /** Where to continue after this commit. Opaque to clients. */
  position: string;
}

export interface FeedPage {
  commits: FeedCommit[];
  /**
   * The position up to which this page was read, also if no change was accepted: a reader with a narrow
   * filter does not fall behind.
   */
  position: string;
  /** True when there is more to read right now. */
  more: boolean;
}

/**
 * The widest result of a filter: the record with this id, or the documents of a namespace whose keys begin
 * with a prefix.
 */
export type Interest =
  | { readonly id: string }
  | { readonly user: string; readonly namespace: string; readonly prefix: string };

export interface FeedReadOptions {
  /** Exclusive; undefined reads from the oldest entry that is kept. */
  since?: string | undefined;
  /** Inclusive: later commits are left out. */
  until?: string | undefined;
  /** Changes on a page. A commit is never split, so the last one may go over it. */
  limit?: number;
  accept?: (change: Change) => boolean;
  /** The reader is not woken for commits outside of this; `accept` filters the rest. */
  interest?: Interest | undefined;
}

export interface FollowOptions extends FeedReadOptions {
  signal: AbortSignal;
  /** After this time without accepted changes an empty page with the position is returned. */
  idleMs: number;
}

export interface Feed {
  /** The newest position. */
  newest(): string | Promise<string>;
  /** The position this many commits before another one, or the oldest that is kept. */
  before(position: string, commits: number): string | Promise<string>;
  /** The number of commits between two positions. */
  distance(from: string, to: string): number;
  /** One page after a position. Throws `resync` if the feed no longer has the next changes. */
  read(options: FeedReadOptions): FeedPage | Promise<FeedPage>;
  /**
   * Pages without end: first the kept commits, then new ones as they happen. Without a position it begins
   * after this call.
   */
  follow(options: FollowOptions): AsyncGenerator<FeedPage>;
}
