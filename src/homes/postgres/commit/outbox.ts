/**
 * Messages of commits that wait for delivery. A message is written in the transaction of its commit. Any
 * server delivers it afterwards, once, and in order within its room or inbox.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TransactionSql } from 'postgres';
import type { OutboxFacts } from '../../../commit/service.js';
import type { Limits } from '../../../core/settings/limits.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import type { Delivered, NewDirectMessage, NewMessage } from '../../../messaging/port.js';
import { byteLimitReached } from '../../../messaging/rooms/clock.js';
import { type PostgresSql, query } from '../database/connection.js';
import { inSteps } from '../database/in-steps.js';
import { takeTurn } from '../database/turns.js';
import { type DeliveryPort, OutboxDelivery } from './delivery.js';
import { byteWindow } from './schema.js';
import { within } from '../../../core/waiting/within.js';

/** A message with the id that makes its delivery unique. */
export interface QueuedMessage {
  delivery: string;
  message: NewMessage | NewDirectMessage;
}

export type DeliveryState =
  | { state: 'waiting' }
  | ({ state: 'delivered' } & Delivered)
  | { state: 'undeliverable'; reason: string };

export interface CommitOutboxOptions {
  sql: PostgresSql;
  port: DeliveryPort;
  limits: Limits;
  onError: (error: unknown) => void;
  sweepIntervalMs?: number | undefined;
}

const defaultSweepMs = 1_000;
/** Rooms and inboxes that one sweep delivers to. */
const sweptDestinationsMax = 1_000;
const sweptAtOnce = 4;
const deleteOldEveryMs = 60_000;
const isCurrentWindow = `began_at > clock_timestamp() - ${byteWindow}`;
/** Pause before the next try when another server is delivering to the same destination. */
const busyMs = 15;
/** Of the time that an answer waits: to read the state of its messages. */
const statesShare = 0.1;

export class CommitOutbox {
  readonly #options: CommitOutboxOptions;
  readonly #delivery: OutboxDelivery;
  readonly #sweeping: Periodic;
  #closing = false;

  constructor(options: CommitOutboxOptions) {
    this.#options = options;
    this.#delivery = new OutboxDelivery({ ...options, isClosing: () => this.#closing });
    const everyMs = options.sweepIntervalMs ?? defaultSweepMs;
    this.#sweeping = new Periodic({
      everyMs,
      run: () => this.#sweepInTurn(everyMs),
      onError: (error) => {
        if (!this.#closing) options.onError(error);
      },
    });
  }

  start(): void {
    this.#sweeping.start();
    this.#sweeping.runSoon();
  }

  /**
   * Writes a message in the transaction of its commit. If Redis has not counted the bytes of a room message,
   * they are counted in the same statement, whose row stays locked until the commit: parallel commits cannot
   * all use the same bytes.
   */
  async add(
    tx: TransactionSql,
    user: string,
    { delivery, message }: QueuedMessage,
    isCounted: boolean,
  ): Promise<void> {
    const [spent] = await query<{ bytes: string; wait_ms: string }>(
      tx,
      `WITH added AS (
        INSERT INTO commit_outbox (delivery, destination, message, user_id, is_counted)
          VALUES ($1::uuid, $2, $3::json, $4, $7)
      )
      INSERT INTO commit_bytes AS spent (author, began_at, bytes)
        SELECT $5::uuid, clock_timestamp(), $6::bigint WHERE $6::bigint IS NOT NULL
        ON CONFLICT (author) DO UPDATE SET
          bytes = excluded.bytes + CASE WHEN spent.${isCurrentWindow} THEN spent.bytes ELSE 0 END,
          began_at = CASE WHEN spent.${isCurrentWindow} THEN spent.began_at ELSE excluded.began_at END
        RETURNING bytes, extract(epoch FROM began_at + ${byteWindow} - clock_timestamp()) * 1000 AS wait_ms`,
      [
        delivery,
        destinationOf(message),
        JSON.stringify(message),
        user,
        message.from,
        'roomId' in message && !isCounted ? Buffer.byteLength(message.body) : null,
        isCounted,
      ],
    );
    if (Number(spent?.bytes ?? 0) > this.#options.limits.messageBytesPerMinuteMax)
      throw byteLimitReached(Number(spent?.wait_ms));
  }

  /** Delivers the messages of a commit, as many as possible before its answer must be sent. */
  async deliver(deliveries: readonly string[]): Promise<ReadonlyMap<string, DeliveryState>> {
    const waitMs = this.#options.limits.commitDeliveryWaitSeconds * 1_000;
    const startedMs = performance.now();
    // Work that fails later is tried again by the next sweep.
    const deliverMs = waitMs * (1 - statesShare);
    await within(deliverMs, this.#deliverNow(deliveries, startedMs + deliverMs));
    const states = await within(startedMs + waitMs - performance.now(), this.states(deliveries));
    return states ?? new Map();
  }

  async #deliverNow(deliveries: readonly string[], untilMs: number): Promise<void> {
    const waiting = await query<{ destination: string; delivery: string }>(
      this.#options.sql,
      `SELECT destination, delivery FROM commit_outbox
        WHERE delivery = ANY($1::uuid[]) AND state = 'waiting'`,
      [deliveries],
    );
    const destinations = [...new Set(waiting.map(({ destination }) => destination))];
    await Promise.all(
      destinations.map((destination) => {
        const rows = waiting.filter((row) => row.destination === destination);
        const ids = rows.map(({ delivery }) => delivery);
        return this.#deliverTo(destination, ids, untilMs);
      }),
    );
  }

  /** Delivers to a destination, or waits until the server that has it locked has delivered these messages. */
  async #deliverTo(destination: string, deliveries: readonly string[], untilMs: number): Promise<void> {
    while (!this.#closing && performance.now() < untilMs) {
      if (await this.#delivery.run(destination)) return;
      await sleep(busyMs);
      const states = await this.states(deliveries);
      if ([...states.values()].every(({ state }) => state !== 'waiting')) return;
    }
  }

  async states(deliveries: readonly string[]): Promise<Map<string, DeliveryState>> {
    const rows = await query<{
      delivery: string;
      state: string;
      message_id: string | null;
      ts_ms: string | null;
      reason: string | null;
    }>(
      this.#options.sql,
      `SELECT delivery, state, message_id, ts_ms, reason FROM commit_outbox
        WHERE delivery = ANY($1::uuid[])`,
      [deliveries],
    );
    return new Map(rows.map((row): [string, DeliveryState] => [row.delivery, stateOf(row)]));
  }

  async facts(): Promise<OutboxFacts> {
    const [row] = await query<{ waiting: string; undeliverable: string; oldest: string | null }>(
      this.#options.sql,
      `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting,
        count(*) FILTER (WHERE state = 'undeliverable') AS undeliverable,
        extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE state = 'waiting')) AS oldest
        FROM commit_outbox WHERE state <> 'delivered'`,
    );
    return {
      waiting: Number(row?.waiting ?? 0),
      undeliverable: Number(row?.undeliverable ?? 0),
      oldestWaitingSeconds: Number(row?.oldest ?? 0),
    };
  }

  /** Delivers due messages, including those that a stopped server left, and deletes old rows. */
  async sweep(): Promise<void> {
    await this.#deleteOld();
    await this.#deliverDue();
  }

  /** In each interval, one of the servers delivers messages that others left, and one deletes old rows. */
  async #sweepInTurn(intervalMs: number): Promise<void> {
    const { sql } = this.#options;
    if (await takeTurn(sql, 'outbox rows', deleteOldEveryMs)) await this.#deleteOld();
    if (await takeTurn(sql, 'outbox', intervalMs, this.#delivery.isFailing)) await this.#deliverDue();
  }

  async #deliverDue(): Promise<void> {
    const { sql } = this.#options;
    const heads = await query<{ destination: string }>(
      sql,
      `SELECT destination FROM (SELECT DISTINCT ON (destination) destination, next_attempt_at
          FROM commit_outbox WHERE state = 'waiting' ORDER BY destination, seq) AS heads
        WHERE next_attempt_at <= clock_timestamp() ORDER BY next_attempt_at LIMIT ${sweptDestinationsMax}`,
    );
    const due = heads.map(({ destination }) => destination);
    for (let at = 0; at < due.length && !this.#closing; at += sweptAtOnce) {
      const group = due.slice(at, at + sweptAtOnce);
      await Promise.all(group.map((destination) => this.#delivery.run(destination)));
    }
  }

  async #deleteOld(): Promise<void> {
    const { sql, limits } = this.#options;
    const steps = { rowsMax: limits.sweepStepMax, isOver: () => this.#closing };
    await inSteps(
      sql,
      `UPDATE commit_outbox SET state = 'undeliverable', done_at = clock_timestamp(),
        reason = 'not delivered in time' || coalesce(': ' || reason, '')`,
      {
        ...steps,
        table: 'commit_outbox',
        where: `state = 'waiting' AND created_at <= clock_timestamp() - $1 * interval '1 second'`,
        parameters: [limits.commitDeliverySecondsMax],
      },
    );
    await inSteps(sql, 'DELETE FROM commit_bytes', {
      ...steps,
      table: 'commit_bytes',
      where: `NOT ${isCurrentWindow}`,
    });
    await inSteps(sql, 'DELETE FROM commit_outbox', {
      ...steps,
      table: 'commit_outbox',
      where: `done_at <= clock_timestamp() - interval '1 second'
        * CASE state WHEN 'delivered' THEN $1::double precision ELSE $2::double precision END`,
      parameters: [limits.commitDeliveredKeptSeconds, limits.commitUndeliverableKeptSeconds],
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#sweeping.close();
    await this.#delivery.settled();
  }
}

/** The room or inbox that a message goes to. */
export function destinationOf(message: NewMessage | NewDirectMessage): string {
  return 'roomId' in message ? `room ${message.roomId}` : `inbox ${message.to}`;
}

function stateOf({
  state,
  message_id,
  ts_ms,
  reason,
}: {
  state: string;
  message_id: string | null;
  ts_ms: string | null;
  reason: string | null;
}): DeliveryState {
  if (state === 'delivered' && message_id !== null) return { state, id: message_id, tsMs: Number(ts_ms) };
  return state === 'undeliverable' ? { state, reason: reason ?? '' } : { state: 'waiting' };
}
