/**
 * Follows the change feed of a server: stored changes, then new ones, without gaps after broken connections.
 */
import type { ChangeAnswer, ChangePage as Page } from '../../feed/schemas.js';
import { requestOf } from '../../api/call.js';
import { changes } from '../../api/feed/operations.js';
import { StoaError } from '../../core/errors.js';
import { type OnLost, reconnecting } from './follow.js';
import { methodsOf } from '../methods.js';
import type { Transport } from '../transport/transport.js';

/** A change of one record. It has no value: read the record for that. */
export type ChangeItem = ChangeAnswer;

/** The changes of one or more complete commits; `position` is where to continue. */
export type ChangePage = Pick<Page, 'items' | 'position'>;

/** Which changes; the server sends no others. */
export interface ChangesFilter {
  /** Domains, or kinds such as `task.created`; all unless given. */
  topics?: readonly string[] | undefined;
  /** Only documents of this namespace of the user. */
  namespace?: string | undefined;
  /** With `namespace`: only keys that begin with it. A clear is always reported. */
  prefix?: string | undefined;
  /** Only this project, its sessions and tasks, and workspaces. */
  project?: string | undefined;
  /** Only the record with this id. */
  id?: string | undefined;
}

export interface FollowSettings extends ChangesFilter {
  /** A position; without it the feed starts now. */
  since?: string | undefined;
  /** Also returns pages without items, which only have a newer position. */
  positions?: boolean | undefined;
  /** Called each time that the connection was lost or could not be made. If it throws, the feed ends. */
  onLost?: OnLost | undefined;
  signal: AbortSignal;
}

export interface ReadChangesSettings extends ChangesFilter {
  since?: string | undefined;
  /** A position; changes after it are left out. */
  until?: string | undefined;
  /** Instead of `since`: start this many commits before `until`, or before the newest. */
  back?: number | undefined;
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export class ChangesClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** One page after a position. The default is the oldest stored position. */
  read({ topics, signal, ...query }: ReadChangesSettings = {}): Promise<Page> {
    return methodsOf(this.#transport, 'changes', changes).read({
      ...query,
      topics: topics?.join(','),
      signal,
    });
  }

  /**
   * New pages, until the signal is aborted. Throws `resync` if the feed no longer has the next changes:
   * read the state again, then follow from now on.
   *
   * @example
   * for await (const { items } of stoa.changes.follow({ topics: ['registry'], signal })) console.log(items);
   */
  async *follow({
    topics,
    since,
    positions = false,
    onLost,
    signal,
    ...filter
  }: FollowSettings): AsyncGenerator<ChangePage> {
    let at = since;
    const query = (): Record<string, string | undefined> => ({
      ...filter,
      topics: topics?.join(','),
      since: at,
    });
    const connections = reconnecting(
      () => this.#transport.events(requestOf(changes.read, query(), { signal })),
      signal,
      onLost,
    );
    for await (const event of connections) {
      // The server's schema declares the content of an event.
      const {
        items = [],
        position,
        detail,
      } = JSON.parse(event.data) as Partial<ChangePage> & { detail?: string };
      if (event.event === 'resync')
        throw new StoaError('resync', detail ?? 'The position is too old.', {
          fix: 'Read the state again and follow from now on.',
        });
      at = position ?? at;
      if (items.length > 0 || positions) yield { items, position: at ?? '' };
    }
  }
}
