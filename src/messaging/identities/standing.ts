/** How far the author of a message is proven to a reader. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import type { Identity } from '../model.js';
import type { MessagingPort } from '../port.js';

/**
 * `member`: an agent of the reader's user. `linked`: an agent of another user of this server. `outside`: an
 * identity that anyone could have registered, under any name.
 */
export type Standing = 'member' | 'linked' | 'outside';

export interface KnownAuthor {
  /** The name of the agent that the identity belongs to, or the name that an outside identity gave itself. */
  name: string | null;
  /** The user whose agent it is; null for an outside identity. */
  user: string | null;
}

export function standingFor(user: string | null, author: KnownAuthor | undefined): Standing {
  const of = author?.user ?? null;
  if (of === null) return 'outside';
  return of === user ? 'member' : 'linked';
}

const authorsKept = 10_000;
/** A stream looks up the author of each message. A changed link is seen after this time. */
const keptMs = 1_000;

export class KnownAuthors {
  readonly #port: Pick<MessagingPort, 'identities'>;
  /** By identity. It saves a query for each message of a stream on PostgreSQL. */
  readonly #known = new LRUCache<string, KnownAuthor>({ ...entriesAtMost(authorsKept), ttl: keptMs });

  constructor(port: Pick<MessagingPort, 'identities'>) {
    this.#port = port;
  }

  /** The authors of messages by their ids, without unknown ones. */
  async of(messages: readonly { from: string }[]): Promise<ReadonlyMap<string, KnownAuthor>> {
    const found = new Map<string, KnownAuthor>();
    const wanted = new Set<string>();
    for (const { from } of messages) {
      const known = this.#known.get(from);
      if (known === undefined) wanted.add(from);
      else found.set(from, known);
    }
    if (wanted.size > 0)
      for (const [id, identity] of await this.#port.identities([...wanted])) {
        const author = knownAuthorOf(identity);
        this.#known.set(id, author);
        found.set(id, author);
      }
    return found;
  }
}

/** The server keeps keys only for agents of its users. */
export function knownAuthorOf({ name, link, serverKept }: Identity): KnownAuthor {
  return { name: link?.agentName ?? name, user: link?.user ?? (serverKept ? someUser : null) };
}

/** A user that no reader is. */
const someUser = '';
