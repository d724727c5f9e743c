/** Steps that write to Redis: messages of rooms, direct messages, and their deliveries out of commits. */
import type { Room } from '../../../messaging/model.js';
import type {
  Delivered,
  NewDirectMessage,
  NewMessage,
  Opened,
  OpeningMessage,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import { Outdated } from '../../../core/write.js';
import type { Queryable } from '../database/connection.js';
import { checkCallerToken } from '../identity/caller-check.js';
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';
import type { MessagingParts, PostgresMessagingOptions } from './parts.js';
import { type Delivery, type MessageDelivery, deliveredBefore } from './redis/deliveries.js';

/** Where a step that writes to Redis reads PostgreSQL, and when its change gets into the feed. */
interface RedisStep extends MessageDelivery {
  readonly sql: Queryable;
  readonly isInTransaction: boolean;
  /** Moves the list of the feed outbox, at once or after the commit. */
  announce(list: string): Promise<void>;
}

export class Sending {
  readonly #parts: MessagingParts;
  readonly #options: PostgresMessagingOptions;

  constructor(parts: MessagingParts, options: PostgresMessagingOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /**
   * Does not check again what the message was prepared with (room key, author's key): a script in Redis
   * cannot read PostgreSQL. `room` is the room, if it was read ahead: the script finds out whether it was
   * deleted or changed since.
   */
  post(input: NewMessage, room?: Room): PostgresStep<Delivered> {
    return this.inRedis((place) =>
      this.#once(place, input, () =>
        room === undefined || place.isInTransaction
          ? this.#post(input, place)
          : this.#postTo(room, input, { ...place, isReadAhead: true }),
      ),
    );
  }

  /** The room is written in the transaction in which Redis gets the message; no other server sees it before. */
  postOpening(opening: OpeningMessage): PostgresStep<Opened> {
    return new PostgresStep([], async (work) => {
      await work.checkBeforeEffect();
      const { room, created } = await this.openRoom(work, opening);
      await work.awaitSent();
      const input = { ...opening.message, roomId: room.id, parentId: null };
      const place = this.#inTransaction(work);
      const { id, tsMs } = await this.#once(place, input, () => this.#postTo(room, input, place));
      return { id, tsMs, roomId: room.id, created };
    });
  }

  /**
   * The room of a message that may be the first, in the transaction of the message. A private room is
   * accepted if an earlier message of the commit made it: only then the hash is the same.
   */
  async openRoom(work: Work, { room: wanted }: OpeningMessage): Promise<{ room: Room; created: boolean }> {
    const opened = await this.#parts.rooms.open(work, wanted);
    const { room, created } = opened;
    if (created || !room.isPrivate) return opened;
    // Null is also the hash of a private room whose key was lost.
    const keyHash = await this.#parts.rooms.keyHash(room.id, work.sql);
    if (keyHash === null || keyHash !== wanted.keyHash) throw new Outdated(`The room "${wanted.name}"`);
    return opened;
  }

  async #post(input: NewMessage, place: RedisStep): Promise<Delivered> {
    const room = await this.#parts.rooms.get(input.roomId, place.sql);
    if (room === undefined) throw refuse('roomUnknown');
    return this.#postTo(room, input, place);
  }

  async #postTo(room: Room, input: NewMessage, place: RedisStep): Promise<Delivered> {
    const { keys, messages } = this.#parts;
    const message = await messages.post(input, room, place);
    await place.announce(keys.roomFeedOutbox(room.id));
    return message;
  }

  /** Does not act if Redis remembers this delivery. */
  async #once(
    { delivery }: RedisStep,
    message: NewMessage | NewDirectMessage,
    act: () => Promise<Delivered>,
  ): Promise<Delivered> {
    const before =
      delivery === null ? undefined : await deliveredBefore(this.#parts, { id: delivery, message });
    const { id, tsMs } = before ?? (await act());
    return { id, tsMs };
  }

  deleteMessage(roomId: string, messageId: string): PostgresStep<boolean> {
    return this.inRedis(async (place) => {
      const room = await this.#parts.rooms.get(roomId, place.sql);
      const { keys, messages } = this.#parts;
      if (room === undefined || !(await messages.delete(room, messageId))) return false;
      await place.announce(keys.roomFeedOutbox(roomId));
      return true;
    });
  }

  send(message: NewDirectMessage): PostgresStep<Delivered> {
    return this.inRedis((place) => this.#once(place, message, () => this.#send(message, place)));
  }

  async #send(input: NewDirectMessage, place: RedisStep): Promise<Delivered> {
    const { keys, inboxes } = this.#parts;
    const message = await inboxes.send(input, place.delivery);
    await place.announce(keys.inboxFeedOutbox(input.to));
    return message;
  }

  deliver({ id, message }: Delivery, isCounted: boolean): Promise<Delivered> {
    const place: RedisStep = {
      ...this.#outsideTransaction,
      delivery: id,
      bytes: isCounted ? 'counted' : 'promised',
    };
    return this.#once(place, message, async () => {
      if ('roomId' in message) return this.#post(message, place);
      if ((await this.#parts.identities.get(message.to)) === undefined) throw refuse('recipientUnknown');
      return this.#send(message, place);
    });
  }

  get #outsideTransaction(): RedisStep {
    return {
      sql: this.#options.sql,
      delivery: null,
      bytes: 'limited',
      isInTransaction: false,
      announce: (list) => this.#parts.feedOutbox.posted(list),
    };
  }

  #inTransaction(work: Work): RedisStep {
    return {
      sql: work.sql,
      delivery: work.effectName(),
      bytes: 'limited',
      isInTransaction: true,
      announce: async (list) => work.afterCommit(() => this.#parts.feedOutbox.posted(list)),
    };
  }

  /**
   * A step that writes to Redis, which is not part of the transaction in PostgreSQL. The token is checked
   * right before. With a fence, the lease stays locked until Redis has answered. Inside a transaction, the
   * step uses no second connection: many such steps at once would wait for each other's connections. With an
   * Idempotency-Key, Redis remembers the message too: a repeat finds it, also if the transaction failed.
   */
  inRedis<Result>(run: (place: RedisStep) => Promise<Result>): PostgresStep<Result> {
    const { sql, nowMs } = this.#options;
    return new PostgresStep(
      [],
      async (work) => {
        await work.checkBeforeEffect();
        return run(this.#inTransaction(work));
      },
      async (caller) => {
        await checkCallerToken(sql, caller, nowMs());
        return run(this.#outsideTransaction);
      },
    );
  }
}
