/** What the body of a transaction may do: read through every earlier write, write, announce, set timers. */
import type { Entry, RangeOptions } from './engine.js';

/** Reads that see one consistent state. */
export interface Reader {
  get(family: string, key: Buffer): Buffer | undefined;
  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[];
  /** Lazy; consume it without awaiting in between. */
  range(family: string, options: RangeOptions): Iterable<Entry>;
}

/** Who may see a change in the feed, beside the operator, who sees all. */
export type Audience =
  /** The user named in `user`. */
  | 'owner'
  /** Every caller with credentials. */
  | 'public'
  /** Nobody but the operator. */
  | 'operator'
  /** The messaging identity named in `recipient`. */
  | 'recipient';

export interface Change {
  domain: 'data' | 'registry' | 'workspaces' | 'messaging' | 'identity';
  /** What happened, as `noun.verb` in the past: `agent.created`, `document.set`. */
  kind: string;
  /** The id of the thing, in the form in which its route takes it. */
  id: string;
  /** The readable id of the owner, or null where nobody owns it. */
  user: string | null;
  /** The version after the change, or null for a thing without versions. */
  version: number | null;
  audience?: Audience;
  recipient?: string;
  /** Few, short facts that a reader would otherwise fetch: from, to, session, namespace. Never values or secrets. */
  facts?: Record<string, string | number | boolean | null>;
}

/** Something to do at a time: the sweeper calls the handler registered for `kind`. */
export interface Timer {
  atMs: number;
  kind: string;
  /** Identifies the thing the timer is about; the handler decodes it. */
  reference: Buffer;
}

export interface Transaction extends Reader {
  /** The clock, read once for the whole transaction. */
  readonly nowMs: number;
  put(family: string, key: Buffer, value: Buffer): void;
  delete(family: string, key: Buffer): void;
  /** Adds to what this transaction announces in the change feed. Without any, it takes no sequence number. */
  change(change: Change): void;
  schedule(timer: Timer): void;
  unschedule(timer: Timer): void;
}
