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
import type { MessagingPort, NewDirectMessage, NewMessage, OpeningMessage } from '../../../messaging/port.js';
import type { PostgresMessaging } from '../messaging/messaging.js';
import type { Work } from '../write/work.js';
import { refuse } from '../../../messaging/refusals.js';
import type { MessagingService } from '../../../messaging/service.js';
import { CommitOutbox, type DeliveryState, type QueuedMessage, destinationOf } from './outbox.js';

export interface PostgresCommitOptions {
  limits: Limits;
  messaging: MessagingService;
  openRoom: PostgresMessaging['openRoom'];
  onError: (error: unknown, about: string) => void;
  sweepIntervalMs?: number | undefined;
}

/** The answer for a message that is not delivered yet. */
interface Queued {
  delivery: string;
  queued: true;
  room?: string;
  room_created?: true;
}

export class PostgresCommit implements CommitHome {
  readonly writer: PostgresWriter;
  readonly #outbox: CommitOutbox;
  readonly #options: PostgresCommitOptions;

  constructor({ sql, writer }: Pick<PostgresBase, 'sql' | 'writer'>, options: PostgresCommitOptions) {
    const { limits, messaging, onError, sweepIntervalMs } = options;
    this.writer = writer;
    this.#options = options;
    this.#outbox = new CommitOutbox({
      sql,
      port: messaging.port,
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
   * What PostgreSQL decides is checked in the transaction: room, token, and the bytes that the author put into
   * commits. What only Redis knows is asked for before. Without Redis, a message is refused only if it names a
   * parent or is signed; its bytes then count among commits alone.
   */
  messages(caller: Caller): (operation: MessageOperation) => Promise<MessageStep> {
    const { messaging } = this.#options;
    const bytesLeft = new BytesLeft(messaging.port);
    return async (operation) => {
      const { message, nonce } = await messaging.steps.prepareMessage(caller, operation);
      const said = 'room' in message ? message.message : message;
      if (!('to' in message)) {
        if ('roomId' in message) await this.#checkParent(message);
        await bytesLeft.use(said.from, Buffer.byteLength(said.body));
      }
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
        await this.#outbox.add(work.sql, caller.user, queued);
        return queuedAnswer(queued, created);
      });
      return { checks: nonce === null ? [] : [this.#useNonce(nonce)], step };
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

/** The bytes that authors have left beside their posts. All messages of one author in a commit count together. */
class BytesLeft {
  readonly #port: Pick<MessagingPort, 'bytesLeft'>;
  readonly #left = new Map<string, number>();
  #isAway = false;

  constructor(port: Pick<MessagingPort, 'bytesLeft'>) {
    this.#port = port;
  }

  async use(author: string, bytes: number): Promise<void> {
    const left = (this.#left.get(author) ?? (await this.#ask(author))) - bytes;
    if (left < 0) throw refuse('byteRate');
    this.#left.set(author, left);
  }

  /** A Redis that does not answer is asked once for a commit, because each question may take seconds. */
  async #ask(author: string): Promise<number> {
    if (this.#isAway) return Infinity;
    try {
      return await this.#port.bytesLeft(author);
    } catch (error) {
      if (!(error instanceof StoaError) || error.code !== 'backend_unavailable') throw error;
      this.#isAway = true;
      return Infinity;
    }
  }
}

function queuedAnswer({ delivery, message }: QueuedMessage, created: boolean): Queued {
  return {
    delivery,
    queued: true,
    ...('roomId' in message && { room: message.roomId }),
    ...(created && { room_created: true as const }),
  };
}

function isQueued(result: unknown): result is Queued {
  return typeof result === 'object' && result !== null && 'delivery' in result && 'queued' in result;
}

/** The answer for a message in its current state: delivered, undeliverable or still queued. */
function shownAnswer(queued: Queued, state: DeliveryState | undefined): unknown {
  const { delivery, queued: _, ...where } = queued;
  if (state?.state === 'delivered') return { id: state.id, ts: state.tsMs, ...where };
  if (state?.state === 'undeliverable') return { delivery, undeliverable: state.reason, ...where };
  return queued;
}
