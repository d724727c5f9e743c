/** One transaction of the PostgreSQL home while its steps run. */
import { createHash } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency.js';
import { type Parameter, query } from './connection.js';
import type { DatabaseClock } from './database-clock.js';
import type { Limits } from '../../core/settings/limits.js';
import { checkCallerToken } from './identity/token-check.js';

/** Refuses a caller whose lease has passed on, and locks the row of the lease (`FOR SHARE`), so that it stays until the commit. */
export type CheckFence = (work: Work, caller: Caller) => Promise<void>;

/** A write with an Idempotency-Key. */
export interface KeyedWrite {
  readonly idempotency: Idempotency;
  /** Refuses if the answer could not be stored at the end. */
  reserve(work: Work): Promise<void>;
}

export class Work {
  readonly sql: TransactionSql;
  readonly limits: Limits;
  readonly clock: DatabaseClock;
  #nowMs: number;
  readonly #allowed: Promise<void>;
  readonly #checkFence: CheckFence;
  readonly #caller: Caller | null;
  #fenced: Promise<void> | undefined;
  readonly #parts = new Map<unknown, unknown>();
  readonly #beforeCommit: (() => Promise<void>)[] = [];
  readonly #afterCommit: (() => void | Promise<void>)[] = [];
  readonly #changes: Change[] = [];
  readonly #sent: Promise<unknown>[] = [];
  readonly #afterRollback: (() => Promise<void>)[] = [];
  readonly #keyed: KeyedWrite | null;
  #effects = 0;

  /** `caller` is null for work that no caller asked for. */
  constructor(
    sql: TransactionSql,
    clock: DatabaseClock,
    limits: Limits,
    caller: Caller | null,
    checkFence: CheckFence,
    keyed: KeyedWrite | null = null,
  ) {
    this.sql = sql;
    this.#keyed = keyed;
    this.clock = clock;
    this.limits = limits;
    this.#caller = caller;
    this.#checkFence = checkFence;
    this.#nowMs = clock.nowMs();
    // Sent before everything else, so that its answer shares a round trip with the first statement of the steps.
    this.#allowed = caller === null ? Promise.resolve() : checkCallerToken(sql, caller, this.#nowMs);
    // Looked at by `allowed`, or never, where the connection is lost before.
    this.#allowed.catch(() => undefined);
  }

  /** Refuses where the token of the caller was revoked or has expired. */
  allowed(): Promise<void> {
    return this.#allowed;
  }

  /** Refuses where the lease of the caller has passed on; from here on it stays until the commit. */
  fenced(): Promise<void> {
    const caller = this.#caller;
    const isFenced = caller !== null && caller.agentId !== null && caller.fence !== null;
    this.#fenced ??= isFenced ? this.#checkFence(this, caller) : Promise.resolve();
    return this.#fenced;
  }

  /** For a step, before it does what a rollback does not take back. */
  async irrevocable(): Promise<void> {
    await this.allowed();
    await this.fenced();
    await this.#keyed?.reserve(this);
  }

  /**
   * The name of the next effect outside the database, the same in each repeat of the request. Null without an
   * Idempotency-Key.
   */
  effectName(): string | null {
    if (this.#keyed === null) return null;
    const { scope, key, fingerprint } = this.#keyed.idempotency;
    this.#effects += 1;
    return createHash('sha256')
      .update(JSON.stringify([scope, key, fingerprint, this.#effects]))
      .digest('base64url');
  }

  /** The clock of the write: what this server takes the database's to be, until a step has read that one. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Goes by a reading of the database's clock (`clockColumn`) from here on. Leases are decided by one that was made under their lock. */
  readClock(databaseMs: unknown): void {
    this.#nowMs = this.clock.ofReading(Number(databaseMs));
  }

  rows<Found extends object>(text: string, parameters: readonly Parameter[] = []): Promise<readonly Found[]> {
    return query<Found>(this.sql, text, parameters);
  }

  /**
   * Sends a statement whose answer no step needs. It shares a round trip with those that follow, the commit
   * included; when it fails, the commit becomes a rollback, and the write fails with it.
   */
  send(text: string, parameters: readonly Parameter[] = []): void {
    const sent = query(this.sql, text, parameters);
    // Looked at by `settled`, or never, where the write has failed before.
    sent.catch(() => undefined);
    this.#sent.push(sent);
  }

  /** Throws what a statement failed with that was only sent. */
  async settled(): Promise<void> {
    await Promise.all(this.#sent);
  }

  /** What a domain keeps for the length of the transaction; made at the first call. */
  part<Part>(make: (work: Work) => Part): Part {
    if (!this.#parts.has(make)) this.#parts.set(make, make(this));
    // Stored under the function that made it.
    return this.#parts.get(make) as Part;
  }

  get hasChanges(): boolean {
    return this.#changes.length > 0;
  }

  /** Announces changes in the feed: all changes of a write are one commit there. */
  announce(...changes: readonly Change[]): void {
    this.#changes.push(...changes);
  }

  /** Adds statements that come after all steps, right before the commit. */
  beforeCommit(statements: () => Promise<void>): void {
    this.#beforeCommit.push(statements);
  }

  /** Adds what is to be done once the commit stands: waking waiters, filling caches, announcing. */
  afterCommit(act: () => void | Promise<void>): void {
    this.#afterCommit.push(act);
  }

  /** Adds what takes back a change outside the database where the transaction does not happen. `act` must not throw. */
  afterRollback(act: () => Promise<void>): void {
    this.#afterRollback.push(act);
  }

  async finish(): Promise<void> {
    await this.#allowed;
    for (const statements of this.#beforeCommit) await statements();
    // The last statement, with all row locks held: the order of two writes to one object is the order of their rows here.
    if (this.#changes.length > 0)
      this.send('INSERT INTO feed.incoming (changes) VALUES ($1::json)', [JSON.stringify(this.#changes)]);
  }

  async committed(): Promise<void> {
    for (const act of this.#afterCommit) await act();
  }

  async rolledBack(): Promise<void> {
    for (const act of this.#afterRollback.splice(0)) await act();
  }
}
