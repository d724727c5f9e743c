/** Commits in PostgreSQL: steps of several domains in one transaction, messages through the outbox. */
import { randomUUID } from 'node:crypto';
import type { MessageOperation } from '../../../commit/operations.js';
import type { CommitHome, MessageStep } from '../../../commit/home.js';
import type { OutboxFacts } from '../../../commit/service.js';
import type { Caller } from '../../../core/caller.js';
import { PostgresStep } from '../write/step.js';
import type { PostgresBase } from '../base.js';
import { StoaError } from '../../../core/errors.js';
import type { PostgresWriter } from '../write/writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import { isoTime } from '../../../core/text/iso-time.js';
import type { NewDirectMessage, NewMessage, OpeningMessage } from '../../../messaging/port.js';
import type { PostgresMessaging } from '../messaging/messaging.js';
import { refuse } from '../../../messaging/refusals.js';
import type { MessagingService } from '../../../messaging/service.js';
import type { Work } from '../write/work.js';
import type { DeliveryPort } from './delivery.js';
import { CommitOutbox, type DeliveryState, type QueuedMessage, destinationOf } from './outbox.js';
import { within } from '../../../core/waiting/within.js';

export interface PostgresCommitOptions {
  limits: Limits;
  messaging: MessagingService;
  openRoom: PostgresMessaging['openRoom'];
  /** Where messages are delivered to, and where the bytes of all authors are counted. */
  redis: CountingPort;
  onError: (error: unknown, about: string) => void;
  sweepIntervalMs?: number | undefined;
}

interface CountingPort extends DeliveryPort {
  /** Throws if the author has used up the bytes of this minute. */
  countBytes(author: string, bytes: number): Promise<void>;
  returnBytes(author: string, bytes: number): Promise<void>;
}

/** How long commits do not wait for Redis after it did not answer. Their messages are queued meanwhile. */
const redisAwayMs = 2_000;

/** The answer for a message that is not delivered yet. */
interface Queued {
  delivery: string;
  queued: true;
  room_id?: string;
  room_created?: true;
}

export class PostgresCommit implements CommitHome {
  readonly writer: PostgresWriter;
  readonly #outbox: CommitOutbox;
  readonly #options: PostgresCommitOptions;
  #redisAwayUntilMs = 0;

  constructor({ sql, writer }: Pick<PostgresBase, 'sql' | 'writer'>, options: PostgresCommitOptions) {
    const { limits, redis, onError, sweepIntervalMs } = options;
    this.writer = writer;
    this.#options = options;
    this.#outbox = new CommitOutbox({
      sql,
      port: redis,
      limits,
      onError: (error) => onError(error, 'delivering messages of commits'),
      sweepIntervalMs,
    });
  }

  /** Starts to deliver waiting messages. */
  start(): void {
    this.#outbox.start();
  }

  /**
   * What PostgreSQL decides is checked in the transaction: room and token. The bytes of the author are
   * counted in Redis, together with those of single posts, and given back if the commit is refused. Without
   * Redis, a message is refused only if it names a parent or is signed; its bytes then count among commits
   * alone.
   */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep> {
    const { messaging } = this.#options;
    const prepare = messaging.steps.prepareMessages(caller, (count) => this.#runCount(count));
    return async (operation) => {
      const { message, keeping, nonce } = await prepare(operation);
      const said = 'room' in message ? message.message : message;
      if ('roomId' in message) await this.#checkParent(message);
      const delivery = randomUUID();
      const destination =
        'room' in message ? `name ${message.room.owner} ${message.room.name}` : destinationOf(message);
      const locks = [
        { table: 'rooms', key: destination },
        { table: 'agents', key: said.from },
      ] as const;
      const step = new PostgresStep(locks, async (work) => {
        const { placed, created } = await this.#placed(work, message);
        const queued: QueuedMessage = { delivery, message: placed };
        const isCounted = 'roomId' in placed && (await this.#countBytes(work, placed));
        await this.#outbox.add(work.sql, caller.user, queued, isCounted);
        return queuedAnswer(queued, created);
      });
      return {
        checks: nonce === null ? [] : [this.#useNonce(nonce)],
        step: messaging.port.keepFirst(keeping, step),
      };
    };
  }

  async #checkParent({ roomId, parentId }: NewMessage): Promise<void> {
    if (parentId === null) return;
    const { port } = this.#options.messaging;
    const room = await port.room(roomId);
    if (room === undefined || (await port.message(room, parentId)) === undefined)
      throw refuse('parentUnknown');
  }

  /** A room that the message creates is written in the transaction of the commit. */
  async #placed(
    work: Work,
    message: NewMessage | NewDirectMessage | OpeningMessage,
  ): Promise<{ placed: NewMessage | NewDirectMessage; created: boolean }> {
    if (!('room' in message)) return { placed: message, created: false };
    const { room, created } = await this.#options.openRoom(work, message);
    return { placed: { ...message.message, roomId: room.id, parentId: null }, created };
  }

  /** Counts the message in Redis. A message that Redis cannot count waits in the outbox. */
  async #runCount(count: () => Promise<void>): Promise<void> {
    if (performance.now() < this.#redisAwayUntilMs) return;
    const counting = count().then(() => true, isRedisAway);
    const isCounted = await within(this.#options.limits.commitRedisWaitSeconds * 1_000, counting);
    if (isCounted !== true) this.#redisAwayUntilMs = performance.now() + redisAwayMs;
  }

  /** False if Redis does not answer in time. */
  async #countBytes(work: Work, { from, body }: NewMessage): Promise<boolean> {
    const { redis, limits, onError } = this.#options;
    if (performance.now() < this.#redisAwayUntilMs) return false;
    const bytes = Buffer.byteLength(body);
    const giveBack = (): Promise<void> =>
      redis.returnBytes(from, bytes).catch((error: unknown) => onError(error, 'giving back bytes'));
    const counting = redis.countBytes(from, bytes).then(() => true, isRedisAway);
    const isCounted = await within(limits.commitRedisWaitSeconds * 1_000, counting);
    if (isCounted === true) {
      work.afterRollback(giveBack);
      return true;
    }
    // Redis may count them late. They are given back then, because the delivery counts them.
    if (isCounted === undefined)
      void counting.then(
        (isLate) => (isLate ? giveBack() : undefined),
        () => undefined,
      );
    this.#redisAwayUntilMs = performance.now() + redisAwayMs;
    return false;
  }

  /**
   * Uses up the nonce in Redis right before the commit. If the commit is refused, the nonce is released
   * again. If the connection is lost during the commit, the nonce stays used, because the commit may have
   * succeeded.
   */
  #useNonce({ agentId, nonce }: { agentId: string; nonce: string }): PostgresStep<void> {
    const { messaging, onError } = this.#options;
    return new PostgresStep([], async (work) => {
      work.beforeCommit(async () => {
        const { fresh, durable, release } = await messaging.port.claimNonce(agentId, nonce);
        if (!fresh) throw refuse('nonceUsed');
        work.afterRollback(() => release().catch((error: unknown) => onError(error, 'releasing a nonce')));
        await durable;
      });
    });
  }

  /** Delivers the messages now if possible. Delivered messages are returned with their id and time. */
  async delivered(_operations: unknown, results: readonly unknown[]): Promise<unknown[]> {
    const deliveries = results.flatMap((result) => (isQueued(result) ? [result.delivery] : []));
    if (deliveries.length === 0 || performance.now() < this.#redisAwayUntilMs) return [...results];
    const states = await this.#deliver(deliveries);
    return results.map((result) =>
      isQueued(result) ? shownAnswer(result, states.get(result.delivery)) : result,
    );
  }

  async #deliver(deliveries: readonly string[]): Promise<ReadonlyMap<string, DeliveryState>> {
    try {
      return await this.#outbox.deliver(deliveries);
    } catch (error) {
      // The commit succeeded, and its messages are in the outbox. A later sweep delivers them.
      this.#options.onError(error, 'delivering messages of commits');
      return new Map();
    }
  }

  outbox(): Promise<OutboxFacts> {
    return this.#outbox.facts();
  }

  close(): Promise<void> {
    return this.#outbox.close();
  }
}

/** A Redis that does not answer, or is full: messages wait in the outbox. */
function isRedisAway(error: unknown): false {
  if (error instanceof StoaError && /^(backend_unavailable|disk_full)$/.test(error.code)) return false;
  throw error;
}

function queuedAnswer({ delivery, message }: QueuedMessage, created: boolean): Queued {
  return {
    delivery,
    queued: true,
    ...('roomId' in message && { room_id: message.roomId }),
    ...(created && { room_created: true as const }),
  };
}

function isQueued(result: unknown): result is Queued {
  return typeof result === 'object' && result !== null && 'delivery' in result && 'queued' in result;
}

/** The answer for a message in its current state: delivered, undeliverable or still queued. */
function shownAnswer(queued: Queued, state: DeliveryState | undefined): unknown {
  const { delivery, queued: _, ...where } = queued;
  if (state?.state === 'delivered') return { id: state.id, ts: isoTime(state.tsMs), ...where };
  if (state?.state === 'undeliverable') return { delivery, undeliverable: state.reason, ...where };
  return queued;
}
