/** Messages of commits on their way to messaging: written with the commit, delivered after it, by any server, in order, once. */
import type { TransactionSql } from 'postgres';
import type { OutboxFacts } from '../../../commit/service.js';
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Delivered, MessagingPort, NewDirectMessage, NewMessage } from '../../../messaging/port.js';
import { type Parameter, type PostgresSql, query, transaction } from '../connection.js';
import { valuesList } from '../datastore/sql.js';
import { inSteps } from '../in-steps.js';
import { takeTurn } from '../turns.js';

/** A message with the id under which it is delivered once. */
export interface Promised {
  delivery: string;
  message: NewMessage | NewDirectMessage;
}

/** What has become of a promised message. */
export type DeliveryState =
  | { state: 'waiting' }
  | ({ state: 'delivered' } & Delivered)
  | { state: 'undeliverable'; reason: string };

export interface CommitOutboxOptions {
  sql: PostgresSql;
  port: Pick<MessagingPort, 'deliver'>;
  limits: Limits;
  onError: (error: unknown) => void;
  sweepIntervalMs?: number | undefined;
}

interface WaitingRow {
  seq: string;
  delivery: string;
  message: string;
  attempts: number;
}

interface Outcome {
  seq: string;
  state: 'waiting' | 'delivered' | 'undeliverable';
  reason: string | null;
  at: Delivered | null;
}

const defaultSweepMs = 1_000;
/** Rows of one room or inbox that one transaction delivers. */
const batchRows = 100;
/** Rooms and inboxes that one sweep looks at, and how many at once. */
const sweptPlacesMax = 1_000;
const sweptAtOnce = 4;
const tidyEveryMs = 60_000;
const retrySecondsMax = 30;
/** A place that another server is at is looked at again after this. */
const busyMs = 15;

/** Refusals that stay refusals: the room, the recipient or the parent is gone, or may not be written to. */
const final: ReadonlySet<string> = new Set([
  'not_found',
  'unprocessable',
  'forbidden',
  'invalid_request',
  'too_large',
  'unsupported',
]);

export class CommitOutbox {
  readonly #options: CommitOutboxOptions;
  /** Who asks for a place while it is being emptied shares the next time. */
  readonly #running = new Map<string, { current: Promise<boolean>; next: Promise<boolean> | undefined }>();
  #sweeping: NodeJS.Timeout | undefined;
  #sweep: Promise<void> | undefined;
  #closing = false;

  constructor(options: CommitOutboxOptions) {
    this.#options = options;
  }

  start(): void {
    const { sweepIntervalMs = defaultSweepMs } = this.#options;
    const begin = (): void => void this.#inTurn(sweepIntervalMs);
    this.#sweeping = setInterval(begin, sweepIntervalMs);
    this.#sweeping.unref();
    begin();
  }

  /** Writes a message into the transaction of its commit. */
  async add(tx: TransactionSql, user: string, { delivery, message }: Promised): Promise<void> {
    await query(
      tx,
      'INSERT INTO commit_outbox (delivery, place, message, user_id) VALUES ($1::uuid, $2, $3::json, $4)',
      [delivery, placeOf(message), JSON.stringify(message), user],
    );
  }

  /** Delivers what a commit has promised, as far as that goes in the time that its answer waits. */
  async deliver(deliveries: readonly string[]): Promise<Map<string, DeliveryState>> {
    const untilMs = performance.now() + this.#options.limits.commitDeliveryWaitSeconds * 1_000;
    const waiting = await query<{ place: string; delivery: string }>(
      this.#options.sql,
      "SELECT place, delivery FROM commit_outbox WHERE delivery = ANY($1::uuid[]) AND state = 'waiting'",
      [deliveries],
    );
    const places = [...new Set(waiting.map(({ place }) => place))];
    const at = (place: string): string[] =>
      waiting.filter((row) => row.place === place).map(({ delivery }) => delivery);
    await Promise.all(places.map((place) => within(untilMs, () => this.#reach(place, at(place), untilMs))));
    return this.states(deliveries);
  }

  /** Empties a place, or waits until the server that is at it has taken these messages along. */
  async #reach(place: string, ours: readonly string[], untilMs: number): Promise<void> {
    while (!this.#closing && performance.now() < untilMs) {
      if (await this.#empty(place)) return;
      await new Promise((resolve) => setTimeout(resolve, busyMs));
      const states = await this.states(ours);
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
      'SELECT delivery, state, message_id, ts_ms, reason FROM commit_outbox WHERE delivery = ANY($1::uuid[])',
      [deliveries],
    );
    return new Map(rows.map((row): [string, DeliveryState] => [row.delivery, stateOf(row)]));
  }

  async facts(): Promise<OutboxFacts> {
    const [row] = await query<{ waiting: string; undeliverable: string; oldest: string | null }>(
      this.#options.sql,
      `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'undeliverable') AS undeliverable,
        extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE state = 'waiting')) AS oldest FROM commit_outbox WHERE state <> 'delivered'`,
    );
    return {
      waiting: Number(row?.waiting ?? 0),
      undeliverable: Number(row?.undeliverable ?? 0),
      oldestWaitingSeconds: Number(row?.oldest ?? 0),
    };
  }

  /** Delivers what is due, also what a server that is gone has left; forgets what is long done. */
  sweep(): Promise<void> {
    return this.#alone(async () => {
      await this.#tidy();
      await this.#deliverDue();
    });
  }

  /** Of all servers one delivers in an interval what others have left, and one tidies. */
  #inTurn(intervalMs: number): Promise<void> {
    const { sql } = this.#options;
    return this.#alone(async () => {
      if (await takeTurn(sql, 'outbox rows', tidyEveryMs)) await this.#tidy();
      if (await takeTurn(sql, 'outbox', intervalMs)) await this.#deliverDue();
    });
  }

  #alone(work: () => Promise<void>): Promise<void> {
    if (this.#closing) return Promise.resolve();
    this.#sweep ??= work()
      .catch((error: unknown) => {
        if (!this.#closing) this.#options.onError(error);
      })
      .finally(() => {
        this.#sweep = undefined;
      });
    return this.#sweep;
  }

  async #deliverDue(): Promise<void> {
    const { sql } = this.#options;
    const heads = await query<{ place: string; due: boolean }>(
      sql,
      `SELECT DISTINCT ON (place) place, next_attempt_at <= clock_timestamp() AS due FROM commit_outbox
        WHERE state = 'waiting' ORDER BY place, seq LIMIT ${sweptPlacesMax}`,
    );
    const due = heads.filter((head) => head.due).map(({ place }) => place);
    for (let at = 0; at < due.length && !this.#closing; at += sweptAtOnce)
      await Promise.all(due.slice(at, at + sweptAtOnce).map((place) => this.#empty(place)));
  }

  async #tidy(): Promise<void> {
    const { sql, limits } = this.#options;
    const steps = { rowsMax: limits.sweepStepMax, isOver: () => this.#closing };
    await inSteps(
      sql,
      `UPDATE commit_outbox SET state = 'undeliverable', done_at = clock_timestamp(), reason = 'not delivered in time' || coalesce(': ' || reason, '')`,
      {
        ...steps,
        table: 'commit_outbox',
        where: `state = 'waiting' AND created_at <= clock_timestamp() - $1 * interval '1 second'`,
        parameters: [limits.commitDeliverySecondsMax],
      },
    );
    await inSteps(sql, 'DELETE FROM commit_outbox', {
      ...steps,
      table: 'commit_outbox',
      where: `done_at <= clock_timestamp() - CASE state WHEN 'delivered' THEN $1::double precision ELSE $2::double precision END * interval '1 second'`,
      parameters: [limits.commitDeliveredKeptSeconds, limits.commitUndeliverableKeptSeconds],
    });
  }

  /** Delivers what waits in a place. False: another server is at it. */
  #empty(place: string): Promise<boolean> {
    const running = this.#running.get(place);
    if (running === undefined) return this.#begin(place);
    running.next ??= running.current.then(
      () => this.#begin(place),
      () => this.#begin(place),
    );
    return running.next;
  }

  #begin(place: string): Promise<boolean> {
    const current = this.#emptyNow(place).finally(() => {
      if (this.#running.get(place)?.current === current && this.#running.get(place)?.next === undefined)
        this.#running.delete(place);
    });
    this.#running.set(place, { current, next: undefined });
    return current;
  }

  async #emptyNow(place: string): Promise<boolean> {
    const { sql } = this.#options;
    for (;;) {
      const step = await transaction(sql, async (tx) => {
        const [lock] = await query<{ got: boolean }>(
          tx,
          'SELECT pg_try_advisory_xact_lock(hashtextextended($1, 6)) AS got',
          [place],
        );
        if (lock?.got !== true) return 'busy';
        const rows = await query<WaitingRow>(
          tx,
          `SELECT seq, delivery, message, attempts FROM commit_outbox WHERE place = $1 AND state = 'waiting' ORDER BY seq LIMIT ${batchRows}`,
          [place],
        );
        const outcomes = await this.#deliverRows(rows);
        await noteOutcomes(tx, outcomes);
        return rows.length === batchRows &&
          outcomes.length === batchRows &&
          outcomes.at(-1)?.state !== 'waiting'
          ? 'more'
          : 'done';
      });
      if (step !== 'more' || this.#closing) return step !== 'busy';
    }
  }

  /** One after the other; behind one that has to wait, all wait: the order of a room is kept. */
  async #deliverRows(rows: readonly WaitingRow[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    for (const { seq, delivery, message } of rows) {
      const outcome = await this.#attempt(seq, delivery, message);
      outcomes.push(outcome);
      if (outcome.state === 'waiting') break;
    }
    return outcomes;
  }

  async #attempt(seq: string, delivery: string, message: string): Promise<Outcome> {
    try {
      // `add` above wrote it.
      const at = await this.#options.port.deliver({
        id: delivery,
        message: JSON.parse(message) as NewMessage | NewDirectMessage,
      });
      return { seq, state: 'delivered', reason: null, at };
    } catch (error) {
      const isFinal = error instanceof StoaError && final.has(error.code);
      this.#options.onError(error);
      return { seq, state: isFinal ? 'undeliverable' : 'waiting', reason: messageOf(error), at: null };
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#sweeping);
    await this.#sweep;
    await Promise.allSettled([...this.#running.values()].flatMap(({ current, next }) => [current, next]));
  }
}

/** What is delivered stays here only as a fact: its text lives and ends with its room. */
async function noteOutcomes(tx: TransactionSql, outcomes: readonly Outcome[]): Promise<void> {
  if (outcomes.length === 0) return;
  await query(
    tx,
    `UPDATE commit_outbox o SET state = v.state, reason = v.reason, message_id = v.message_id, ts_ms = v.ts_ms, attempts = o.attempts + 1,
        done_at = CASE WHEN v.state = 'waiting' THEN NULL ELSE clock_timestamp() END,
        message = CASE WHEN v.state = 'delivered' THEN '{}'::json ELSE o.message END,
        next_attempt_at = clock_timestamp() + least(${retrySecondsMax}, 0.25 * power(2, least(o.attempts, 20))) * interval '1 second'
      FROM (VALUES ${valuesList(outcomes.length, ['bigint', 'text', 'text', 'text', 'bigint'])}) AS v (seq, state, reason, message_id, ts_ms) WHERE o.seq = v.seq`,
    outcomes.flatMap(({ seq, state, reason, at }): Parameter[] => [
      seq,
      state,
      reason,
      at?.id ?? null,
      at?.tsMs ?? null,
    ]),
  );
}

/** The room or inbox that a message goes to. */
export function placeOf(message: NewMessage | NewDirectMessage): string {
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

/** Resolves with the work or at the time, whichever comes first. What fails is tried again by the next sweep. */
async function within(untilMs: number, work: () => Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, untilMs - performance.now()));
  });
  try {
    await Promise.race([work(), over]);
  } finally {
    clearTimeout(timer);
  }
}
