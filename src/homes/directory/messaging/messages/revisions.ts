/** How often each room and each inbox has changed, for readers that cache them. */

import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../../../core/entries-at-most.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import type { TopicName } from '../../../../messaging/port.js';
import type { Store } from '../../kernel/store.js';
import { families } from '../rows.js';

/**
 * Rooms and inboxes with their own number. One that is removed from the cache counts as changed, like all
 * that are not in it.
 */
const topicsMax = 10_000;
const idBytes = 16;

/** The families whose rows are shown on pages. Their keys begin with the id of the room or of the agent. */
const kinds = new Map<string, TopicName['kind']>([
  [families.rooms, 'room'],
  [families.messages, 'room'],
  [families.inboxes, 'inbox'],
]);

export class Revisions {
  readonly #known: LRUCache<string, number>;
  /** Grows with every change, so that a topic never has the same number twice. */
  #last = 0;
  /** The number of every topic that is not in the cache. */
  #unknown = 0;

  constructor(store: Store, max: number = topicsMax) {
    this.#known = new LRUCache({
      ...entriesAtMost(max),
      dispose: (_revision, _topic, reason) => {
        if (reason === 'evict') this.#unknown = this.#last += 1;
      },
    });
    store.onWritten((writes) => {
      for (const { family, key } of writes) {
        const kind = kinds.get(family);
        if (kind !== undefined) this.#known.set(nameOf(kind, key.subarray(0, idBytes)), (this.#last += 1));
      }
    });
  }

  of({ kind, id }: TopicName): number {
    return this.#known.get(nameOf(kind, uuidBytes(id))) ?? this.#unknown;
  }
}

function nameOf(kind: TopicName['kind'], id: Buffer): string {
  return `${kind} ${id.toString('latin1')}`;
}
