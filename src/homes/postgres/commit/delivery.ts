/** Delivers the waiting messages of one destination (a room or an inbox) in order, one server at a time. */
import type { TransactionSql } from 'postgres';
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Delivered, NewDirectMessage, NewMessage } from '../../../messaging/port.js';
import type { Limits } from '../../../core/settings/limits.js';
import { Places } from '../../../core/waiting/places.js';
import { SharedRuns } from '../../../core/waiting/shared-runs.js';
import type { Delivery } from '../messaging/redis/deliveries.js';
import { tryLockKeySql } from '../database/advisory-locks.js';
import { type Parameter, type PostgresSql, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { valuesList } from '../datastore/sql.js';
import { byteWindow } from './schema.js';

export interface DeliveryPort {
  /**
   * Posts or sends the message at most once for the delivery's id; a repeat returns the first answer. Its
   * bytes count for the author but are not refused, because the commit has accepted them. `isCounted`: they
   * were counted when the commit was made.
   */
  deliver(delivery: Delivery, isCounted: boolean): Promise<Delivered>;
}

export interface OutboxDeliveryOptions {
  sql: PostgresSql;
  port: DeliveryPort;
  limits: Pick<Limits, 'commitIdleSecondsMax'>;
  onError: (error: unknown) => void;
  /** Read after each batch: a long queue does not delay the end of the process. */
  isClosing: () => boolean;
}

interface WaitingRow {
  seq: string;
  delivery: string;
  message: string;
  is_counted: boolean;
}

interface Outcome {
  seq: string;
  state: 'waiting' | 'delivered' | 'undeliverable';
  reason: string | null;
  at: Delivered | null;
}

/** Messages that one transaction delivers. */
const batchRows = 100;
const retrySecondsMax = 30;
/** Of the time that the database allows a transaction to be idle: a batch with a slow Redis ends earlier. */
const batchShare = 1 / 3;
/**
 * Destinations that a server delivers to at the same time. Each uses a connection for its transaction and
 * another one for the message, so they must leave connections free.
 */
const destinationsMax = 3;

/**
 * Errors that a retry cannot change: the room, the recipient or the parent is gone, or cannot be written to.
 */
const finalErrors: ReadonlySet<string> = new Set([
  'not_found',
  'unprocessable',
  'forbidden',
  'invalid_request',
  'too_large',
  'unsupported',
]);

export class OutboxDelivery {
  readonly #options: OutboxDeliveryOptions;
  readonly #places = new Places(destinationsMax);
  /** Whether the last message has to wait: Redis may answer other servers. */
  isFailing = false;
  readonly #deliveries = new SharedRuns((destination) =>
    this.#places.run(() => this.#deliverAll(destination)),
  );

  constructor(options: OutboxDeliveryOptions) {
    this.#options = options;
  }

  /** Delivers the waiting messages. Returns false if another server is delivering to this destination. */
  run(destination: string): Promise<boolean> {
    return this.#deliveries.run(destination);
  }

  /** Waits for the deliveries that are running. */
  settled(): Promise<void> {
    return this.#deliveries.settled();
  }

  async #deliverAll(destination: string): Promise<boolean> {
    const { sql, isClosing } = this.#options;
    for (;;) {
      const step = await transaction(sql, (tx) => this.#deliverBatch(tx, destination));
      if (step !== 'more' || isClosing()) return step !== 'busy';
    }
  }

  async #deliverBatch(tx: TransactionSql, destination: string): Promise<'busy' | 'more' | 'done'> {
    const [lock] = await query<{ taken: boolean }>(tx, tryLockKeySql('delivery'), [destination]);
    if (lock?.taken !== true) return 'busy';
    const rows = await query<WaitingRow>(
      tx,
      // The bytes of a message that waited longer belong to a minute that is over.
      `SELECT seq, delivery, message, is_counted OR created_at <= clock_timestamp() - ${byteWindow} AS is_counted
        FROM commit_outbox WHERE destination = $1 AND state = 'waiting' ORDER BY seq LIMIT ${batchRows}`,
      [destination],
    );
    const outcomes = await this.#deliverRows(rows);
    await storeOutcomes(tx, outcomes);
    const hasMore = rows.length === batchRows || outcomes.length < rows.length;
    return hasMore && outcomes.at(-1)?.state !== 'waiting' ? 'more' : 'done';
  }

  /**
   * One after the other. If a message has to wait, all later ones wait too, so that the order stays the same.
   */
  async #deliverRows(rows: readonly WaitingRow[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const { commitIdleSecondsMax: idleSeconds } = this.#options.limits;
    // PostgreSQL takes 0 for no limit.
    const untilMs = idleSeconds === 0 ? Infinity : performance.now() + idleSeconds * 1_000 * batchShare;
    for (const row of rows) {
      const outcome = await this.#attempt(row);
      outcomes.push(outcome);
      if (outcome.state === 'waiting' || performance.now() > untilMs) break;
    }
    return outcomes;
  }

  async #attempt({ seq, delivery, message, is_counted }: WaitingRow): Promise<Outcome> {
    try {
      const at = await this.#options.port.deliver(
        // Only `CommitOutbox.add` writes this column.
        { id: delivery, message: JSON.parse(message) as NewMessage | NewDirectMessage },
        is_counted,
      );
      this.isFailing = false;
      return { seq, state: 'delivered', reason: null, at };
    } catch (error) {
      const isFinal = error instanceof StoaError && finalErrors.has(error.code);
      this.isFailing = !isFinal;
      this.#options.onError(error);
      return { seq, state: isFinal ? 'undeliverable' : 'waiting', reason: messageOf(error), at: null };
    }
  }
}

/** The text of a delivered message is removed here: it must not outlive the message in its room. */
async function storeOutcomes(tx: TransactionSql, outcomes: readonly Outcome[]): Promise<void> {
  if (outcomes.length === 0) return;
  const values = valuesList(outcomes.length, ['bigint', 'text', 'text', 'text', 'bigint']);
  await query(
    tx,
    `UPDATE commit_outbox o SET state = v.state, reason = v.reason, message_id = v.message_id,
        ts_ms = v.ts_ms, attempts = o.attempts + 1,
        done_at = CASE WHEN v.state = 'waiting' THEN NULL ELSE clock_timestamp() END,
        message = CASE WHEN v.state = 'delivered' THEN '{}'::json ELSE o.message END,
        next_attempt_at = clock_timestamp()
          + least(${retrySecondsMax}, 0.25 * power(2, least(o.attempts, 20))) * interval '1 second'
      FROM (VALUES ${values}) AS v (seq, state, reason, message_id, ts_ms) WHERE o.seq = v.seq`,
    outcomes.flatMap(({ seq, state, reason, at }): Parameter[] => [
      seq,
      state,
      reason,
      at?.id ?? null,
      at?.tsMs ?? null,
    ]),
  );
}
