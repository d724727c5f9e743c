/** The change feed for a caller: only changes that the caller may see and asks for. */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import { canSee } from '../identity/visibility.js';
import type { Feed, FeedPage, Interest } from './port.js';
import type { Change } from '../core/change.js';
import type { Limits } from '../core/settings/limits.js';
import { type ChangePage, changesOf } from './schemas.js';

export interface ChangesQuery {
  /** Exclusive. Without it a page starts at the oldest entry that is kept, and a stream at the newest. */
  since?: string | undefined;
  /**
   * Domains (`data`), kinds (`agent.created`) or the nouns of kinds (`agent`); undefined or empty means all.
   */
  topics?: readonly string[] | undefined;
  /** Only documents of this namespace of the caller's user. */
  namespace?: string | undefined;
  /** With `namespace`: only keys that begin with it. A clear is always reported. */
  prefix?: string | undefined;
  /** Only of this project: it, its sessions and tasks, and of workspaces. */
  project?: string | undefined;
  /** Only the record with this id. */
  id?: string | undefined;
}

type Accept = (change: Change) => boolean;

const topicPattern = /^[a-z][a-z_]*(\.[a-z_]+)?$/;
const topicsMax = 50;

export class ChangesService {
  readonly #feed: Feed;
  readonly #limits: Limits;
  /** The position of each open stream, for the metrics. */
  readonly #followers = new Set<{ position: string }>();

  constructor(feed: Feed, limits: Limits) {
    this.#feed = feed;
    this.#limits = limits;
  }

  /** The newest position. */
  async newest(): Promise<string> {
    return this.#feed.newest();
  }

  /** `until` is inclusive. With `back` the page starts that many commits before `until`, or before the newest. */
  async read(
    caller: Caller,
    query: ChangesQuery & {
      until?: string | undefined;
      limit?: number | undefined;
      back?: number | undefined;
    },
  ): Promise<ChangePage> {
    const limit = Math.min(query.limit ?? this.#limits.pageItemsDefault, this.#limits.pageItemsMax);
    const since =
      query.back === undefined
        ? query.since
        : await this.#feed.before(query.until ?? (await this.#feed.newest()), query.back);
    const page = await this.#feed.read({
      since,
      until: query.until,
      limit,
      accept: filterFor(caller, query),
    });
    return {
      items: page.commits.flatMap(changesOf),
      next_cursor: page.more ? page.position : null,
      position: page.position,
      since: since ?? null,
    };
  }

  /**
   * Endless pages of new changes; an empty page has only a position. An invalid position is refused before
   * the first page.
   */
  async follow(caller: Caller, query: ChangesQuery, signal: AbortSignal): Promise<AsyncGenerator<FeedPage>> {
    const accept = filterFor(caller, query);
    const since = query.since ?? (await this.#feed.newest());
    await this.#feed.read({ since, limit: 0 });
    return this.#pages({
      since,
      accept,
      interest: interestOf(caller, query),
      signal,
      limit: this.#limits.pageItemsMax,
      idleMs: this.#limits.streamHeartbeatSeconds * 1_000,
    });
  }

  /** Commits between the newest and the slowest open stream. */
  async lagCommits(): Promise<number> {
    const newest = await this.#feed.newest();
    let lag = 0;
    for (const { position } of this.#followers) lag = Math.max(lag, this.#feed.distance(position, newest));
    return lag;
  }

  async *#pages(options: Parameters<Feed['follow']>[0] & { since: string }): AsyncGenerator<FeedPage> {
    const follower = { position: options.since };
    this.#followers.add(follower);
    try {
      for await (const page of this.#feed.follow(options)) {
        yield page;
        follower.position = page.position;
      }
    } finally {
      this.#followers.delete(follower);
    }
  }
}

/**
 * Cheap tests that refuse most changes come first: each change is tested with the filters of many readers.
 */
function filterFor(caller: Caller, query: ChangesQuery): Accept {
  const tests = [scopeTest(caller, query), topicTest(query.topics)].filter((test) => test !== undefined);
  return (change) => tests.every((test) => test(change)) && canSee(caller, change);
}

function scopeTest(
  { user }: Caller,
  { namespace, prefix = '', project, id }: ChangesQuery,
): Accept | undefined {
  if (namespace !== undefined) {
    return ({ facts, domain, user: owner }) => {
      if (facts?.['namespace'] !== namespace || domain !== 'data' || owner !== user) return false;
      const { key } = facts;
      return typeof key !== 'string' || key.startsWith(prefix);
    };
  }
  if (project !== undefined)
    return (change) =>
      change.facts?.['project'] === project || change.id === project || change.kind.startsWith('workspace.');
  return id === undefined ? undefined : (change) => change.id === id;
}

/** The widest result of the filter, in the feed's terms; undefined if it can be anything. */
function interestOf(
  { user }: Caller,
  { namespace, prefix = '', project, id }: ChangesQuery,
): Interest | undefined {
  if (namespace !== undefined) return { user, namespace, prefix };
  return project !== undefined || id === undefined ? undefined : { id };
}

function topicTest(topics: readonly string[] | undefined): Accept | undefined {
  if (topics === undefined || topics.length === 0) return undefined;
  const wrong = topics.find((topic) => !topicPattern.test(topic));
  if (wrong !== undefined || topics.length > topicsMax) {
    const message =
      wrong === undefined
        ? `The request has ${topics.length} topics, which exceeds ${topicsMax}.`
        : `"${wrong.slice(0, 80)}" is not a topic.`;
    throw new StoaError('invalid_request', message, {
      fix: 'Use topics like "registry", "agent" or "agent.created", separated by commas.',
      details: { errors: [{ field: 'query.topics', message }] },
    });
  }
  const wanted = new Set(topics);
  return ({ domain, kind }) =>
    wanted.has(domain) || wanted.has(kind) || wanted.has(kind.slice(0, kind.indexOf('.')));
}
