/** The names of the keys in Redis. */
import type { RateKey } from '../../../../messaging/port.js';

/**
 * The names are the same as in the seed. On a cluster, the id is in braces (`room:{id}:messages`): keys with
 * the same text in braces are on the same node.
 */
export class RedisKeys {
  readonly #isCluster: boolean;

  constructor(isCluster: boolean) {
    this.#isCluster = isCluster;
  }

  #tag(id: string): string {
    return this.#isCluster ? `{${id}}` : id;
  }

  messages(roomId: string): string {
    return `room:${this.#tag(roomId)}:messages`;
  }

  /**
   * The newest time of a message in the room. It stays when that message is deleted, so that no time is used
   * twice.
   */
  roomClock(roomId: string): string {
    return `room:${this.#tag(roomId)}:clock`;
  }

  /** The number of messages ever posted. The feed outbox copies it to PostgreSQL. */
  roomCount(roomId: string): string {
    return `room:${this.#tag(roomId)}:count`;
  }

  /** That the room was deleted or changed a short time ago (see `RoomChange`). */
  roomChange(roomId: string): string {
    return `room:${this.#tag(roomId)}:change`;
  }

  /** Ids of messages whose words may not be in the search index yet. Only on a cluster. */
  unindexed(roomId: string): string {
    return `room:${this.#tag(roomId)}:${unindexedPart}`;
  }

  /**
   * `index` has the scores of messages whose score is not the time of their id (see `MessageScores`).
   * `readUpTo` is the score up to which the set of messages was searched for such messages.
   */
  scores(list: string): { index: string; readUpTo: string } {
    return { index: `${list}:scores`, readUpTo: `${list}:scores:read` };
  }

  /**
   * Changes that are not in the change feed yet: one list, or on a cluster a list on the node of each room.
   */
  roomFeedOutbox(roomId: string): string {
    return this.#isCluster ? `room:{${roomId}}:${feedOutboxPart}` : feedOutboxKey;
  }

  inboxFeedOutbox(agentId: string): string {
    return this.#isCluster ? `dm:{${agentId}}:${feedOutboxPart}` : feedOutboxKey;
  }

  thread(roomId: string, rootId: string): string {
    return `room:${this.#tag(roomId)}:thread:${rootId}`;
  }

  inbox(agentId: string): string {
    return `dm:${this.#tag(agentId)}:inbox`;
  }

  inboxClock(agentId: string): string {
    return `dm:${this.#tag(agentId)}:clock`;
  }

  acknowledged(agentId: string): string {
    return `dm:${this.#tag(agentId)}:acked`;
  }

  /** Messages that are not acknowledged. If the key is missing, it is built from the inbox. */
  pending(agentId: string): string {
    return `dm:${this.#tag(agentId)}:pending`;
  }

  /** The id and time of a message that a commit delivered to the room. It is on the node of the room. */
  roomDelivery(roomId: string, delivery: string): string {
    return `room:${this.#tag(roomId)}:delivery:${delivery}`;
  }

  inboxDelivery(agentId: string, delivery: string): string {
    return `dm:${this.#tag(agentId)}:delivery:${delivery}`;
  }

  /** A word of `roomWords`. Words of users' rooms have separate keys, which the seed's search never reads. */
  word(word: string): string {
    const [owner, own] = word.split(' ');
    return own === undefined ? `search:words:${word}` : `search:user-words:${owner}:${own}`;
  }

  nonce(agentId: string, nonce: string): string {
    return `nonce:${agentId}:${nonce}`;
  }

  /** The seed's name plus the endpoint, so that one endpoint does not use up the budget of another. */
  rate(scope: RateKey['scope'], subject: string, endpoint: string, windowSeconds: number): string {
    return `ratelimit:${scope}:${subject}:${endpoint}:${windowSeconds}`;
  }

  /** The requests per minute that a caller of /v1 and /mcp has left. */
  requests(caller: string): string {
    return `requests:${caller}`;
  }

  bytes(agentId: string): string {
    return `msgbytes:${agentId}`;
  }

  violations(address: string): string {
    return `violations:ip:${address}`;
  }

  blocked(address: string): string {
    return `${blockedPrefix}${address}`;
  }
}

export const blockedPrefix = 'blocked:ip:';
export const unindexedPart = 'unindexed';
export const feedOutboxPart = 'feed-outbox';
export const feedOutboxKey = 'stoa:feed-outbox';
