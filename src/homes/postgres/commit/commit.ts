/** Commits in PostgreSQL: steps of several domains in one transaction, messages through the outbox. */
import { randomUUID } from 'node:crypto';
import type { MessageOperation } from '../../../commit/operations.js';
import type { CommitHome, MessageStep } from '../../../commit/placement.js';
import type { OutboxFacts } from '../../../commit/service.js';
import type { Caller } from '../../../core/caller.js';
import { migrateAnswers } from '../kept-answers.js';
import { PostgresStep } from '../step.js';
import { PostgresWriter } from '../writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import { refuse } from '../../../messaging/refusals.js';
import type { MessagingService } from '../../../messaging/service.js';
import { CommitOutbox, type DeliveryState, type Promised, placeOf } from './outbox.js';
import { migrateCommitsUp } from './schema.js';
import { type PostgresSql, boundStatements, closePostgres, openPostgres } from '../connection.js';
import { DatabaseClock } from '../database-clock.js';
import { documentsOf } from '../datastore/counts.js';

export interface PostgresCommitOptions {
  limits: Limits;
  messaging: MessagingService;
  /** Refuses a caller whose lease has passed on. */
  checkFence: (caller: Caller) => void;
  /** Whether the documents of the data store are in this database. */
  hasDocuments: boolean;
  /** Names the messaging that this server has. */
  messagingStore: string;
  onError: (error: unknown) => void;
  sweepIntervalMs?: number | undefined;
}

/** Opens a pool of its own, makes the tables where they are missing, and begins to deliver what waits. */
export async function openPostgresCommit(url: URL, options: PostgresCommitOptions): Promise<PostgresCommit> {
  const { limits, messaging, messagingStore, onError, sweepIntervalMs } = options;
  const sql = await openPostgres(url, { idleTransactionSecondsMax: limits.commitIdleSecondsMax, limits });
  const clock = new DatabaseClock(sql);
  try {
    await migrateCommitsUp(sql);
    await migrateAnswers(sql);
    boundStatements(sql, limits);
    await clock.keepRight();
  } catch (error) {
    await closePostgres(sql, 1);
    throw error;
  }
  const outbox = new CommitOutbox({
    sql,
    store: messagingStore,
    port: messaging.port,
    limits,
    onError,
    sweepIntervalMs,
  });
  outbox.start();
  return new PostgresCommit(sql, clock, outbox, options);
}

/** The answer of a message that is still on its way. */
interface Queued {
  delivery: string;
  queued: true;
  room?: string;
}

export class PostgresCommit implements CommitHome {
  readonly hasOutbox = true;
  readonly writer: PostgresWriter;
  readonly #sql: PostgresSql;
  readonly #outbox: CommitOutbox;
  readonly #options: PostgresCommitOptions;

  constructor(sql: PostgresSql, clock: DatabaseClock, outbox: CommitOutbox, options: PostgresCommitOptions) {
    this.#sql = sql;
    this.#outbox = outbox;
    this.#options = options;
    const { limits, checkFence, hasDocuments, onError } = options;
    this.writer = new PostgresWriter({
      sql,
      limits,
      clock,
      checkFence: async (work, caller) => work.beforeCommit(async () => checkFence(caller)),
      documentsOf: hasDocuments ? documentsOf : undefined,
      onCommitted: () => undefined,
      onError,
    });
  }

  /** The messages of one author count together against the bytes that it has left. */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep> {
    const { messaging } = this.#options;
    const spent = new Map<string, number>();
    return async (operation) => {
      const { message, nonce } = await messaging.steps.prepareMessage(caller, operation);
      if ('roomId' in message) {
        const { roomId, parentId } = message;
        if (parentId !== null && (await messaging.port.message(roomId, parentId)) === undefined)
          throw refuse('parentUnknown');
        const bytes = (spent.get(message.from) ?? 0) + Buffer.byteLength(message.body);
        if (bytes > (await messaging.port.bytesLeft(message.from))) throw refuse('byteRate');
        spent.set(message.from, bytes);
      }
      const promised: Promised = { delivery: randomUUID(), message };
      const step = new PostgresStep([{ table: 'rooms', key: placeOf(message) }], async (work) => {
        await this.#outbox.add(work.sql, caller.user, promised);
        return queuedAnswer(promised);
      });
      return { checks: nonce === null ? [] : [this.#useNonce(nonce)], step };
    };
  }

  /**
   * Used up right before the commit, in the store of messages. A commit that is refused frees it again; where the
   * connection is lost in the middle of the commit it stays used, because the commit may stand.
   */
  #useNonce({ agentId, nonce }: { agentId: string; nonce: string }): PostgresStep<void> {
    const { messaging, onError } = this.#options;
    return new PostgresStep([], async (work) => {
      work.beforeCommit(async () => {
        const { fresh, durable, release } = await messaging.port.claimNonce(agentId, nonce);
        if (!fresh) throw refuse('nonceUsed');
        work.afterRollback(() => release().catch(onError));
        await durable;
      });
    });
  }

  /** Delivers the messages now, as far as that goes, and shows those that stand in their rooms. */
  async delivered(_operations: unknown, results: readonly unknown[]): Promise<unknown[]> {
    const deliveries = results.flatMap((result) => (isQueued(result) ? [result.delivery] : []));
    if (deliveries.length === 0) return [...results];
    const states = await this.#deliver(deliveries);
    return results.map((result) =>
      isQueued(result) ? shownAnswer(result, states.get(result.delivery)) : result,
    );
  }

  async #deliver(deliveries: readonly string[]): Promise<ReadonlyMap<string, DeliveryState>> {
    try {
      return await this.#outbox.deliver(deliveries);
    } catch (error) {
      // The commit stands, and so do its promises: a sweep keeps them.
      this.#options.onError(error);
      return new Map();
    }
  }

  outbox(): Promise<OutboxFacts> {
    return this.#outbox.facts();
  }

  async close(): Promise<void> {
    await this.#outbox.close();
    await closePostgres(this.#sql, 5);
  }
}

function queuedAnswer({ delivery, message }: Promised): Queued {
  return { delivery, queued: true, ...('roomId' in message && { room: message.roomId }) };
}

function isQueued(result: unknown): result is Queued {
  return typeof result === 'object' && result !== null && 'delivery' in result && 'queued' in result;
}

/** As the message stands in its room, or as what is still on its way. */
function shownAnswer(queued: Queued, state: DeliveryState | undefined): unknown {
  const { delivery, room } = queued;
  const where = room === undefined ? {} : { room };
  if (state?.state === 'delivered') return { id: state.id, ts: state.tsMs, ...where };
  if (state?.state === 'undeliverable') return { delivery, undeliverable: state.reason, ...where };
  return queued;
}
