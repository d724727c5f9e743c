/** The change feed of a server: what happened, then what happens, over broken connections without a gap. */
import type { ChangeAnswer, ChangePage as Page } from '../feed/schemas.js';
import { requestOf } from '../api/call.js';
import { changes } from '../api/feed/operations.js';
import { StoaError } from '../core/errors.js';
import { type OnLost, reconnecting } from './follow.js';
import { methodsOf } from './methods.js';
import type { Transport } from './transport.js';

/** One thing that changed. It carries no value: read the thing for that. */
export type ChangeItem = ChangeAnswer;

/** What one or more commits changed, never a part of one; `position` is where to go on. */
export type ChangePage = Pick<Page, 'items' | 'position'>;

/** Which changes; the server sends no others. */
export interface ChangesFilter {
  /** Domains, or kinds such as `task.created`; all unless given. */
  topics?: readonly string[] | undefined;
  /** Only documents of this namespace of the user. */
  namespace?: string | undefined;
  /** With `namespace`: only keys that begin with it. A clear is always told. */
  prefix?: string | undefined;
  /** Only this project, its sessions and tasks, and workspaces. */
  project?: string | undefined;
  /** Only the thing with this id. */
  id?: string | undefined;
}

export interface FollowSettings extends ChangesFilter {
  /** A position; without it the feed begins now. */
  since?: string | undefined;
  /** Also pages without items, which only say how far the feed was looked through. */
  positions?: boolean | undefined;
  /** Called each time that the connection was lost or could not be made; what it throws ends the feed. */
  onLost?: OnLost | undefined;
  signal: AbortSignal;
}

export interface ReadChangesSettings extends ChangesFilter {
  since?: string | undefined;
  /** A position; what came after it is left out. */
  until?: string | undefined;
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export class ChangesClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** One page after a position, from the oldest that is kept unless given. */
  read({ topics, signal, ...query }: ReadChangesSettings = {}): Promise<Page> {
    return methodsOf(this.#transport, 'changes', changes).read({
      ...query,
      topics: topics?.join(','),
      signal,
    });
  }

  /**
   * Pages as they happen, until the signal is aborted. Throws `resync` when the feed no longer
   * holds what comes next: read the state anew, then follow from now on.
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
      // The server's own schema says what an event holds.
      const {
        items = [],
        position,
        detail,
      } = JSON.parse(event.data) as Partial<ChangePage> & { detail?: string };
      if (event.event === 'resync')
        throw new StoaError('resync', detail ?? 'The position is too old.', {
          fix: 'Read the state anew and follow from now on.',
        });
      at = position ?? at;
      if (items.length > 0 || positions) yield { items, position: at ?? '' };
    }
  }
}
