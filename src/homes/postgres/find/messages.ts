/** What the search needs from messaging on this home. */
import type { EntryName } from '../../../find/model.js';
import type { Message } from '../../../messaging/model.js';

export interface ReadMessage {
  readonly message: Message;
  readonly expiresAtMs: number;
}

export interface MessageReader {
  /** The messages that exist, in any order. */
  read(names: readonly EntryName[]): Promise<ReadMessage[]>;
}

export interface SearchedMessages extends MessageReader {
  /** Marks the messages that Redis has and PostgreSQL does not know of yet; null means in all rooms. */
  markAll(rooms: readonly string[] | null): Promise<void>;
  /** The rooms that a search without named rooms covers. */
  readableRooms(owner: string | null): Promise<ReadonlySet<string>>;
  /** The places of all messages. */
  all(): AsyncIterable<EntryName>;
}
