/** The change feed of a server: what happened, then what happens, over broken connections without a gap. */
import type { ChangeAnswer, ChangePage as Page } from '../changes/schemas.js';
import { StoaError } from '../errors.js';
import type { Transport } from './transport.js';

/** One thing that changed. It carries no value: read the thing for that. */
export type ChangeItem = ChangeAnswer;

/** What one or more commits changed, never a part of one; `position` is where to go on. */
export type ChangePage = Pick<Page, 'items' | 'position'>;

export interface FollowSettings {
  /** Domains, or kinds such as `task.created`; all unless given. */
  topics?: readonly string[] | undefined;
  /** A position; without it the feed begins now. */
  since?: string | undefined;
  signal: AbortSignal;
}

export interface ReadChangesSettings {
  topics?: readonly string[] | undefined;
  since?: string | undefined;
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

const reconnectMsMax = 5_000;

export class ChangesClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** One page after a position, from the oldest that is kept unless given. */
  read({ topics, since, limit, signal }: ReadChangesSettings = {}): Promise<Page> {
    return this.#transport.call('GET', '/v1/changes', { query: { topics: topics?.join(','), since, limit }, signal });
  }

  /**
   * Pages as they happen, until the signal is aborted. Throws `resync` when the feed no longer
   * holds what comes next: read the state anew, then follow from now on.
   *
   * @example
   * for await (const { items } of stoa.changes.follow({ topics: ['registry'], signal })) console.log(items);
   */
  async *follow({ topics, since, signal }: FollowSettings): AsyncGenerator<ChangePage> {
    let at = since;
    for (let failures = 0; !signal.aborted; ) {
      try {
        for await (const event of this.#transport.events('/v1/changes', { query: { topics: topics?.join(','), since: at }, signal })) {
          failures = 0;
          // The server's own schema says what an event holds.
          const { items = [], position, detail } = JSON.parse(event.data) as Partial<ChangePage> & { detail?: string };
          if (event.event === 'resync') throw new StoaError('resync', detail ?? 'The position is too old.', { fix: 'Read the state anew and follow from now on.' });
          at = position ?? at;
          if (items.length > 0) yield { items, position: at ?? '' };
        }
      } catch (error) {
        if (signal.aborted) return;
        // A connection that breaks in the middle throws what the runtime throws; everything of ours but "away" is final.
        if (error instanceof StoaError && error.code !== 'unreachable' && error.code !== 'closed') throw error;
      }
      failures += 1;
      await new Promise((resolve) => setTimeout(resolve, Math.min(reconnectMsMax, 100 * 2 ** Math.min(failures, 10)) * Math.random()));
    }
  }
}
