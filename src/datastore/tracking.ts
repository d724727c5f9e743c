/** Counted reads: added up in memory and written in batches, so that the read itself never waits. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../core/errors.js';
import { compareCodePoints } from './documents/code-point-order.js';
import { type AccessRead, type DocumentReads, PartlyRecorded } from './port.js';
import type { DocumentRecord, Scope } from './model.js';
import { laterTime, timeOfMs } from './documents/times.js';

interface Tally {
  readonly scope: Scope;
  readonly key: string;
  /** The count in the database without these reads, as far as this process knows. */
  readonly countBefore: number;
  count: number;
  lastAgent: string | null;
  lastAtMs: number;
  /** Includes the last reader. Most documents have one reader at a time. */
  readonly agents: Set<string>;
}

export interface AccessTrackerOptions {
  port: Pick<DocumentReads, 'recordAccess' | 'capabilities'>;
  /**
   * When this many documents wait, they are written at once. If that fails, reads of further documents are
   * not counted.
   */
  entriesMax: number;
  /** How long a close keeps trying. */
  closingSecondsMax: number;
  nowMs: () => number;
  /** A flush failed; its reads are kept and tried again. */
  onError: (error: unknown) => void;
}

/** Reads handed to the database in one step. */
const batchMax = 1_000;
/** When closing, a database that is just coming back gets a few more attempts. */
const closingAttemptsMax = 4;
const closingPauseMs = 250;

export class AccessTracker {
  readonly #options: AccessTrackerOptions;
  readonly #exact: boolean;
  #pending = new Map<string, Tally>();
  /**
   * The last batch that was sent. A read may have seen the database before or after it was applied, so the
   * batch stays until the next one, unless the backend reports the exact moment.
   */
  #handedOver = new Map<string, Tally>();
  #flushing: Promise<void> | undefined;
  /** The next flush, if a caller waits for it. */
  #next: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The last flush failed. A database that serves reads and refuses writes must not fill the memory. */
  #isFailing = false;
  #isClosed = false;
  /** Reads that were not counted for that reason. */
  dropped = 0;

  constructor(options: AccessTrackerOptions) {
    this.#options = options;
    this.#exact = options.port.capabilities.reportsAccessVisible;
  }

  /**
   * Counts one read. It costs one look-up in a map and cannot fail. A read after the close is not counted.
   */
  read(scope: Scope, key: string, agent: string, storedCount: number): void {
    if (this.#isClosed) return;
    const id = idOf(scope, key);
    const tally = this.#pending.get(id);
    if (tally !== undefined) {
      tally.count += 1;
      tally.lastAtMs = this.#options.nowMs();
      if (tally.lastAgent === agent) return;
      tally.lastAgent = agent;
      tally.agents.add(agent);
      return;
    }
    if (this.#pending.size >= this.#options.entriesMax) {
      if (this.#isFailing) {
        this.#drop();
        return;
      }
      void this.flush();
    }
    const handedOver = this.#handedOver.get(id);
    // The read may have seen the document before the batch that is being written.
    const countBefore =
      handedOver === undefined
        ? storedCount
        : Math.max(storedCount, handedOver.countBefore + handedOver.count);
    this.#pending.set(id, {
      scope,
      key,
      countBefore,
      count: 1,
      lastAgent: agent,
      lastAtMs: this.#options.nowMs(),
      agents: new Set([agent]),
    });
    this.#schedule();
  }

  /** Counts a read of each document. Reads by a caller without an agent name are not counted. */
  readAll(scope: Scope, records: readonly DocumentRecord[], agent: string | null): void {
    if (agent === null) return;
    for (const { key, accessCount } of records) this.read(scope, key, agent, accessCount);
  }

  /** The document with the reads of this process that the database may not show yet. */
  shown(scope: Scope, record: DocumentRecord): DocumentRecord {
    if (this.#pending.size === 0 && this.#handedOver.size === 0) return record;
    const id = idOf(scope, record.key);
    const pending = this.#pending.get(id);
    const handedOver = this.#handedOver.get(id);
    if (pending === undefined && handedOver === undefined) return record;
    let accessCount = record.accessCount;
    if (handedOver !== undefined) {
      accessCount = this.#exact
        ? accessCount + handedOver.count
        : Math.max(accessCount, handedOver.countBefore + handedOver.count);
    }
    accessCount += pending?.count ?? 0;
    let { lastAccessedAt, lastAccessedByAgent } = record;
    for (const tally of [handedOver, pending]) {
      if (tally === undefined || tally.lastAgent === null) continue;
      const at = timeOfMs(tally.lastAtMs);
      if (laterTime(at, lastAccessedAt) !== at) continue;
      lastAccessedAt = at;
      lastAccessedByAgent = tally.lastAgent;
    }
    return { ...record, accessCount, lastAccessedAt, lastAccessedByAgent };
  }

  /** This process wrote the document after the reads, so the writer is the last agent that used it. */
  written(scope: Scope, key: string): void {
    for (const tallies of [this.#pending, this.#handedOver]) {
      const tally = tallies.get(idOf(scope, key));
      if (tally !== undefined) tally.lastAgent = null;
    }
  }

  /** The document was deleted: its reads must not count for a later document under the same key. */
  forget(scope: Scope, key: string): void {
    this.#pending.delete(idOf(scope, key));
    this.#handedOver.delete(idOf(scope, key));
  }

  /**
   * A step of a clear removed the documents between two keys. Documents that were created again elsewhere
   * keep their reads.
   */
  forgetCleared(scope: Scope, after: string | null, through: string | null): void {
    for (const tallies of [this.#pending, this.#handedOver]) {
      for (const [id, tally] of tallies) {
        if (tally.scope.user !== scope.user || tally.scope.namespace !== scope.namespace) continue;
        const isBehind = after === null || compareCodePoints(tally.key, after) > 0;
        if (isBehind && (through === null || compareCodePoints(tally.key, through) <= 0)) tallies.delete(id);
      }
    }
  }

  /**
   * Writes everything that was counted before the call. Never throws: reads that could not be written are
   * tried again later.
   */
  flush(): Promise<void> {
    // Reads that came after the flush began are not in it.
    if (this.#flushing !== undefined && this.#pending.size > 0) {
      this.#next ??= this.#flushing.then(() => {
        this.#next = undefined;
        return this.flush();
      });
      return this.#next;
    }
    this.#flushing ??= this.#flushAll().finally(() => {
      this.#flushing = undefined;
      if (this.#pending.size >= this.#options.entriesMax && !this.#isFailing) void this.flush();
      else if (this.#pending.size > 0) this.#schedule();
    });
    return this.#flushing;
  }

  /** Flushes everything, until the database has failed several times in a row or the time is over. */
  async close(): Promise<void> {
    const endMs = performance.now() + this.#options.closingSecondsMax * 1_000;
    for (let refusals = 0; this.#pending.size > 0 || this.#flushing !== undefined;) {
      await this.flush();
      refusals = this.#isFailing ? refusals + 1 : 0;
      if (refusals === 0) continue;
      const pauseMs = closingPauseMs * refusals;
      // No attempt begins after the time is over, so a pause for it would be in vain.
      if (refusals === closingAttemptsMax || performance.now() + pauseMs >= endMs) break;
      await sleep(pauseMs);
    }
    clearTimeout(this.#timer);
    this.#isClosed = true;
    if (this.#pending.size > 0)
      this.#options.onError(
        new StoaError(
          'backend_unavailable',
          `The data store is closing. The reads of ${this.#pending.size} documents could not be written and are lost.`,
        ),
      );
  }

  #drop(): void {
    if (this.dropped === 0)
      this.#options.onError(
        new StoaError(
          'overloaded',
          `Reads of ${this.#options.entriesMax} documents wait because writing them fails. Reads of other documents are not counted.`,
        ),
      );
    this.dropped += 1;
  }

  async #flushAll(): Promise<void> {
    const batch = this.#pending;
    this.#pending = new Map();
    this.#handedOver = batch;
    const tallies = [...batch.entries()];
    for (let start = 0; start < tallies.length; start += batchMax) {
      const step = tallies
        .slice(start, start + batchMax)
        .filter(([id]) => batch.has(id))
        .map(([id, tally]) => ({ id, tally, read: accessRead(tally) }));
      if (step.length === 0) continue;
      const ids = new Map(step.map(({ id, read }) => [read, id]));
      try {
        await this.#options.port.recordAccess([...ids.keys()], (visible) => {
          if (this.#exact) for (const read of visible) batch.delete(ids.get(read) ?? '');
        });
      } catch (error) {
        const failure =
          error instanceof PartlyRecorded
            ? error
            : new PartlyRecorded(
                step.map(({ read }) => read),
                error,
              );
        for (const { id, tally, read } of step)
          if (failure.unrecorded.includes(read)) this.#takeBack(id, tally, batch);
        for (const [id, tally] of tallies.slice(start + batchMax)) this.#takeBack(id, tally, batch);
        this.#isFailing = true;
        this.#options.onError(failure.cause);
        return;
      }
    }
    this.#isFailing = false;
  }

  /** A batch that could not be written is added to the reads since then. */
  #takeBack(id: string, tally: Tally, batch: Map<string, Tally>): void {
    if (!batch.delete(id)) return;
    const later = this.#pending.get(id);
    if (later === undefined) {
      this.#pending.set(id, tally);
      return;
    }
    tally.count += later.count;
    if (later.lastAgent !== null) {
      tally.lastAgent = later.lastAgent;
      tally.lastAtMs = later.lastAtMs;
    }
    for (const agent of later.agents) tally.agents.add(agent);
    this.#pending.set(id, tally);
  }

  #schedule(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.flush();
    }, this.#options.port.capabilities.accessFlushMs / 2);
    this.#timer.unref();
  }
}

function accessRead(tally: Tally): AccessRead {
  const last = tally.lastAgent === null ? null : { agent: tally.lastAgent, at: timeOfMs(tally.lastAtMs) };
  return { scope: tally.scope, key: tally.key, count: tally.count, last, agents: [...tally.agents] };
}

/** Namespaces and user ids contain no control characters, so a line break can separate them. */
function idOf(scope: Scope, key: string): string {
  return `${scope.user}\n${scope.namespace}\n${key}`;
}
