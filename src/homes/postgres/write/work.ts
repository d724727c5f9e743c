/** One transaction of the PostgreSQL home while its steps run. */
import { createHash } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import type { Caller } from '../../../core/caller.js';
import { type Change, byAgent } from '../../../core/change.js';
import type { Idempotency } from '../../../core/idempotency/idempotency.js';
import { type Parameter, query } from '../database/connection.js';
import type { DatabaseClock } from '../database/database-clock.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type ActingAgent, actingAgent } from '../../../registry/recent-agents.js';
import { checkCaller } from '../identity/caller-check.js';
import { type LoadAll, LookUps } from './look-ups.js';

/**
 * Throws if another holder has the caller's lease. Locks the row of the lease (`FOR SHARE`) until the commit.
 */
export type CheckFence = (work: Work, caller: Caller) => Promise<void>;

/** Shows that the agent of a caller is at work, and makes it with its first write. */
export interface CallerAgents {
  /** Whether nothing is to be written about the agent. `untilMs`: its presence must not end before. */
  isFresh(agent: ActingAgent, nowMs: number, untilMs: number): boolean;
  /** With `makes`, a new agent is made. */
  called(work: Work, agent: ActingAgent, untilMs: number, makes: boolean): Promise<void>;
}

/** A write with an Idempotency-Key. */
export interface KeyedWrite {
  readonly idempotency: Idempotency;
  /** Throws if the answer could not be stored at the end. */
  reserve(work: Work): Promise<void>;
}

/** What writes add up, such as counters. A group stores it once, right before the commit. */
export interface SharedPart {
  /** Sends what was added since the last call. */
  store(send: Work['send']): void;
}

/** What the writes of one transaction share: one write, or the writes of a group. */
export class SharedWork {
  readonly #parts = new Map<unknown, SharedPart>();
  readonly #once = new Map<string, Promise<void>>();
  #lookUps: LookUps | undefined;

  constructor(readonly isGroup: boolean) {}

  lookUps(sql: TransactionSql): LookUps {
    this.#lookUps ??= new LookUps(sql);
    return this.#lookUps;
  }

  part<Part extends SharedPart>(make: () => Part): Part {
    if (!this.#parts.has(make)) this.#parts.set(make, make());
    // Stored under the function that made it, so it has that function's type.
    return this.#parts.get(make) as Part;
  }

  once(name: string, act: () => Promise<void>): Promise<void> {
    const acted = this.#once.get(name) ?? act();
    this.#once.set(name, acted);
    return acted;
  }

  store(send: Work['send']): void {
    for (const part of this.#parts.values()) part.store(send);
  }
}

export class Work {
  readonly sql: TransactionSql;
  readonly limits: Limits;
  readonly clock: DatabaseClock;
  #nowMs: number;
  readonly #callerCheck: Promise<void>;
  readonly #checkFence: CheckFence;
  readonly #caller: Caller | null;
  #fenceCheck: Promise<void> | undefined;
  readonly #parts = new Map<unknown, unknown>();
  readonly #beforeCommit: (() => Promise<void>)[] = [];
  readonly #afterCommit: (() => void | Promise<void>)[] = [];
  readonly #changes: Change[] = [];
  readonly #sent: Promise<unknown>[] = [];
  readonly #afterRollback: (() => Promise<void>)[] = [];
  readonly #keyed: KeyedWrite | null;
  readonly #agents: CallerAgents | null;
  readonly #shared: SharedWork;
  #hasWritten = false;
  #effects = 0;
  #heldUntilMs = 0;
  #notedUntilMs = -1;

  /** `caller` is null for the server's own work. */
  constructor(
    sql: TransactionSql,
    clock: DatabaseClock,
    limits: Limits,
    caller: Caller | null,
    checkFence: CheckFence,
    {
      keyed = null,
      agents = null,
      shared = new SharedWork(false),
    }: { keyed?: KeyedWrite | null; agents?: CallerAgents | null; shared?: SharedWork } = {},
  ) {
    this.sql = sql;
    this.#keyed = keyed;
    this.#agents = agents;
    this.#shared = shared;
    this.clock = clock;
    this.limits = limits;
    this.#caller = caller;
    this.#checkFence = checkFence;
    this.#nowMs = clock.nowMs();
    // Sent first, so that its answer shares a round trip with the first statement of the steps.
    this.#callerCheck = caller === null ? Promise.resolve() : checkCaller(sql, caller, this.#nowMs);
    // `checkCaller` reports the failure. It is not called if the connection is lost first.
    this.#callerCheck.catch(() => undefined);
  }

  /** Throws if the caller's credentials have changed since its request was authenticated. */
  checkCaller(): Promise<void> {
    return this.#callerCheck;
  }

  /** Throws if another holder has the caller's lease; otherwise the lease cannot change until the commit. */
  checkFence(): Promise<void> {
    const caller = this.#caller;
    const isFenced = caller !== null && caller.agentId !== null && caller.fence !== null;
    this.#fenceCheck ??= isFenced ? this.#checkFence(this, caller) : Promise.resolve();
    return this.#fenceCheck;
  }

  /**
   * Checks caller and fence, and whether the answer can be stored under its Idempotency-Key. A step calls it
   * before an effect that a rollback cannot undo.
   */
  async checkBeforeEffect(): Promise<void> {
    await this.checkCaller();
    await this.noteCall();
    await this.checkFence();
    await this.#keyed?.reserve(this);
  }

  /** The name of the agent in whose name the write is made. */
  get agent(): string | null {
    return this.#caller?.agent ?? null;
  }

  /** The agent that acts, and until when it holds a lease by this write. */
  get acting(): { readonly agent: ActingAgent | null; readonly heldUntilMs: number } {
    return {
      agent: this.#caller === null ? null : actingAgent(this.#caller),
      heldUntilMs: this.#heldUntilMs,
    };
  }

  /** A step gave the caller's agent a lease until then: the presence of the agent must not end before. */
  heldUntil(untilMs: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, untilMs);
  }

  /**
   * Shows that the caller's agent is at work. After the steps, because one of them may register the agent
   * itself, and before the check of the fence, which shares the row that this locks. With `makes`, a new
   * agent is made.
   */
  async noteCall(makes = true): Promise<void> {
    const { agent } = this.acting;
    if (agent === null || this.#agents === null || this.#notedUntilMs >= this.#heldUntilMs) return;
    this.#notedUntilMs = this.#heldUntilMs;
    if (!this.#agents.isFresh(agent, this.nowMs, this.#heldUntilMs))
      await this.#agents.called(this, agent, this.#heldUntilMs, makes);
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

  /**
   * The time of the write: this server's estimate of the database clock, or the last reading that a step
   * made.
   */
  get nowMs(): number {
    return this.#nowMs;
  }

  /**
   * Sets the time of the write to a reading of the database clock (`clockColumn`). A lease is decided by a
   * reading made while its row is locked.
   */
  readClock(databaseMs: unknown): void {
    this.#nowMs = this.clock.ofReading(Number(databaseMs));
  }

  rows<Found extends object>(text: string, parameters: readonly Parameter[] = []): Promise<readonly Found[]> {
    if (!text.startsWith('SELECT')) this.#hasWritten = true;
    return query<Found>(this.sql, text, parameters);
  }

  /** Looks something up together with the other writes of a group that ask at the same moment. */
  lookUp<Key, Found>(load: LoadAll<Key, Found>, key: Key): Promise<Found> {
    return this.#shared.lookUps(this.sql).find(load, key);
  }

  /**
   * Sends a statement whose answer no step needs. It shares a round trip with the next statements or the
   * commit. If it fails, the commit becomes a rollback, and the write fails.
   */
  send(text: string, parameters: readonly Parameter[] = []): void {
    this.#hasWritten = true;
    this.follow(query(this.sql, text, parameters));
  }

  /** A statement whose answer is not awaited now. `awaitSent` reports its failure. */
  follow(sent: Promise<unknown>): void {
    // `awaitSent` is not called if the write has failed already.
    sent.catch(() => undefined);
    this.#sent.push(sent);
  }

  readonly #send: Work['send'] = (text, parameters) => this.send(text, parameters);

  /** Throws the error of the first statement of `send` and `follow` that failed. */
  async awaitSent(): Promise<void> {
    await Promise.all(this.#sent);
  }

  /** A domain's own state for this transaction; made at the first call. */
  part<Part>(make: (work: Work) => Part): Part {
    if (!this.#parts.has(make)) this.#parts.set(make, make(this));
    // Stored under the function that made it, so it has that function's type.
    return this.#parts.get(make) as Part;
  }

  /**
   * Adds to a part that all writes of a group share. Without a group it is stored at once, for the next steps
   * to read.
   */
  share<Part extends SharedPart>(make: () => Part, add: (part: Part) => void): void {
    this.#hasWritten = true;
    const part = this.#shared.part(make);
    add(part);
    if (!this.#shared.isGroup) part.store(this.#send);
  }

  /** Runs `act` once in the transaction, for the first of its writes that asks; the others wait for it. */
  once(name: string, act: () => Promise<void>): Promise<void> {
    return this.#shared.once(name, act);
  }

  /** Whether a refusal of this write has something to undo. */
  get hasWritten(): boolean {
    return this.#hasWritten;
  }

  get changes(): readonly Change[] {
    return this.#changes;
  }

  get hasChanges(): boolean {
    return this.#changes.length > 0;
  }

  /** Announces changes in the feed. All changes of a write are one commit there. */
  announce(...changes: readonly Change[]): void {
    const { agent } = this;
    this.#changes.push(...changes.map((change) => byAgent(change, agent)));
  }

  /** Adds statements that run after all steps, right before the commit. */
  beforeCommit(statements: () => Promise<void>): void {
    this.#beforeCommit.push(statements);
  }

  /** Adds work for after the commit: waking waiters, filling caches. */
  afterCommit(act: () => void | Promise<void>): void {
    this.#afterCommit.push(act);
  }

  /**
   * Adds the undoing of a change outside the database, for a transaction that is rolled back. `act` must not
   * throw.
   */
  afterRollback(act: () => Promise<void>): void {
    this.#afterRollback.push(act);
  }

  async finish(): Promise<void> {
    await this.#callerCheck;
    await this.noteCall();
    await this.runBeforeCommit();
    this.storeShared(this.#changes);
  }

  async runBeforeCommit(): Promise<void> {
    for (const statements of this.#beforeCommit) await statements();
  }

  /** Stores what all writes of the transaction share: their sums, and their changes as one row of the feed. */
  storeShared(changes: readonly Change[]): void {
    this.#shared.store(this.#send);
    // The last statement, with all row locks held: two writes to one object have their feed rows in the same
    // order.
    if (changes.length > 0)
      this.send('INSERT INTO feed.incoming (changes) VALUES ($1::json)', [JSON.stringify(changes)]);
  }

  /** Never throws: the write is stored, and an error would let its caller write again. */
  async runAfterCommit(onError: (error: unknown) => void): Promise<void> {
    for (const act of this.#afterCommit)
      try {
        await act();
      } catch (error) {
        onError(error);
      }
  }

  async runAfterRollback(): Promise<void> {
    for (const act of this.#afterRollback.splice(0)) await act();
  }
}
