/**
 * Indexes messages that are missing from the search. On a cluster a message and its words are on different
 * nodes: if a server stops or a node fails between the two writes, the words are missing. A repair runs when
 * a server starts, and then periodically on one of the servers.
 */
import type { Limits } from '../../../../../core/settings/limits.js';
import { Periodic } from '../../../../../core/waiting/periodic.js';
import type { RedisGuards } from '../guards.js';
import type { Room } from '../../../../../messaging/model.js';
import { retentionOf } from '../../../../../messaging/rooms/visibility.js';
import type { PostgresRooms } from '../../rooms.js';
import type { RedisMessages } from '../messages.js';
import { unindexedPart } from '../keys.js';
import type { PostgresSql } from '../../../database/connection.js';
import { takeTurn } from '../../../database/turns.js';
import type { WordIndex } from './word-index.js';

export interface SearchRepairOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly rooms: PostgresRooms;
  readonly messages: RedisMessages;
  readonly words: WordIndex;
  readonly guards: RedisGuards;
  readonly onError: (error: unknown, about: string) => void;
}

const roomOfKey = new RegExp(`^room:\\{(.+)\\}:${unindexedPart}$`);

export class SearchRepair {
  readonly #options: SearchRepairOptions;
  readonly #repairing: Periodic;
  #isStarting = true;
  #closed = false;

  constructor(options: SearchRepairOptions) {
    this.#options = options;
    const everyMs = options.limits.searchRepairSeconds * 1_000;
    this.#repairing = new Periodic({
      everyMs,
      run: () => this.#repairInTurn(everyMs),
      onError: (error) => this.#report(error),
    });
  }

  start(): void {
    this.#repairing.start();
    this.#repairing.runSoon();
  }

  /** Waits for the step that is running. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#repairing.close();
  }

  /** At its start each server does this, and then one of the servers in each period. */
  async #repairInTurn(everyMs: number): Promise<void> {
    const isDue = this.#isStarting || (await takeTurn(this.#options.sql, 'search repair', everyMs));
    this.#isStarting = false;
    if (isDue) await this.#repair();
  }

  async #repair(): Promise<void> {
    for (const key of await this.#options.guards.scan(`room:*:${unindexedPart}`)) {
      const roomId = roomOfKey.exec(key)?.[1];
      if (this.#closed || roomId === undefined) continue;
      // An error in one room must not stop the repair of the others.
      await this.#repairRoom(roomId).catch((error: unknown) => this.#report(error));
    }
  }

  /**
   * Indexes the messages that are missing now, and not later ones: every post adds its message to the list
   * for a moment, so the list of a busy room is never empty.
   */
  async #repairRoom(roomId: string): Promise<void> {
    const newest = await this.#options.words.newestMissing(roomId);
    const room = newest === undefined ? undefined : await this.#options.rooms.get(roomId);
    if (newest === undefined || room === undefined) return;
    while (!this.#closed && (await this.#repairBatch(room, newest)));
  }

  /** Returns false if no message up to this time is missing. */
  async #repairBatch(room: Room, upTo: string): Promise<boolean> {
    const { messages, words, limits } = this.#options;
    const roomId = room.id;
    const ids = await words.missing(roomId, upTo);
    if (ids.length === 0) return false;
    const places = ids.map((messageId) => ({ roomId, messageId }));
    for (const message of await messages.findMany(places, retentionOf(room, limits)))
      await words.add(room, { ...message, roomId });
    await words.markIndexed(roomId, ids);
    return true;
  }

  #report(error: unknown): void {
    this.#options.onError(error, 'adding messages to the search; it is tried again');
  }
}
