/** What a move of a whole Stoa needs of a home, beside its records. */
import { StoaError } from '../../core/errors.js';
import type { RecordStore } from '../port.js';

/**
 * A move opens a home to read it, to fill it, or to check whether it could be filled. No home sweeps or runs
 * timers then.
 */
export type MoveRole = 'from' | 'to' | 'look';

/** Whether a home is opened without changing anything in it. */
export function isOnlyRead(role: MoveRole | undefined): boolean {
  return role === 'from' || role === 'look';
}

/** The note in a home that is being filled: it holds a part of a Stoa, and no server may start on it. */
export interface MoveMark {
  read(): Promise<string | undefined>;
  write(text: string): Promise<void>;
  clear(): Promise<void>;
}

export interface HomeMove {
  readonly mark: MoveMark;
  /** Records that no export has: tokens by their hashes, and kept seeds. */
  records(): [type: string, store: RecordStore][];
  /**
   * What must end before a move, in sentences: servers that use the home, and work that only a server
   * finishes.
   */
  obstacles(): Promise<string[]>;
  /** A text that differs after each change in the feed. */
  extent(): Promise<string>;
}

/** A home that holds a part of a move is not opened by anything else. */
export async function refusePartOfMove(
  mark: MoveMark,
  place: string,
  role: MoveRole | undefined,
): Promise<void> {
  if (role === 'to' || role === 'look' || (await mark.read()) === undefined) return;
  throw new StoaError('conflict', `${place} holds a part of a move that has not ended.`, {
    fix: 'Run the same "stoa move" again until it reports that both sides are verified.',
  });
}
