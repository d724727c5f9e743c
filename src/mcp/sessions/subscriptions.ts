/** Reports changes of resources to a client that subscribed to them, if its caller may see them. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import { StoaError } from '../../core/errors.js';
import type { FeedPage } from '../../feed/port.js';
import { changesList, targetOf, touchedBy, uriOf } from '../resources.js';
import { limitError } from '../../core/settings/exceeds.js';

export interface ResourceListener {
  /** With the URI in the spelling that the client used to subscribe. */
  onUpdated(uri: string): void;
  onListChanged?(): void;
}

/** The wait after the feed could not be read. */
const followAgainMs = 1_000;

/** Refuses a URI that is not a resource of Stoa, or that not every home can keep. */
export function checkSubscribable({ limits }: Stoa, uri: string): void {
  if (uri.length > limits.mcpResourceUriCharactersMax)
    throw limitError('too_large', {
      subject: 'The URI of the resource',
      unit: 'characters',
      limit: 'mcpResourceUriCharactersMax',
      limits,
      received: uri.length,
      advice: 'Subscribe to a resource with a shorter URI',
    });
  // PostgreSQL refuses NUL, UTF-8 has no lone surrogates.
  if (targetOf(uri) === undefined || uri.includes('\0') || !uri.isWellFormed())
    throw new StoaError('not_found', `Unknown resource ${uri.slice(0, 200)}.`);
}

/** Follows the feed for one stream to a client. */
export class ResourceWatch {
  readonly #stoa: Stoa;
  readonly #caller: Caller;
  readonly #listener: ResourceListener;
  /** The canonical URI and the client's spellings of it. */
  readonly #wanted = new Map<string, Set<string>>();
  readonly #closed = new AbortController();
  #isFollowing = false;

  constructor(stoa: Stoa, caller: Caller, listener: ResourceListener) {
    this.#stoa = stoa;
    this.#caller = caller;
    this.#listener = listener;
  }

  /** The URI was checked before. */
  add(uri: string): void {
    const target = targetOf(uri);
    if (target === undefined) return;
    const canonical = uriOf(target);
    this.#wanted.set(canonical, (this.#wanted.get(canonical) ?? new Set()).add(uri));
  }

  remove(uri: string): void {
    const target = targetOf(uri);
    const spellings = target === undefined ? undefined : this.#wanted.get(uriOf(target));
    if (target === undefined || spellings === undefined) return;
    spellings.delete(uri);
    if (spellings.size === 0) this.#wanted.delete(uriOf(target));
  }

  /** Reports changes after this call, until the watch is closed. */
  async follow(): Promise<void> {
    if (this.#isFollowing) return;
    const since = await this.#stoa.changes.newest();
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    void this.#run(since);
  }

  /** Reports that these resources may have changed, and so may the list of resources. */
  announce(uris: Iterable<string>): void {
    for (const uri of uris) this.#listener.onUpdated(uri);
    this.#listener.onListChanged?.();
  }

  close(): void {
    this.#closed.abort();
  }

  /** A feed that cannot be read now is read again from where this was. */
  async #run(start: string): Promise<void> {
    const { signal } = this.#closed;
    let since: string | undefined = start;
    let isFailing = false;
    while (!signal.aborted) {
      try {
        const query = { topics: ['data', 'messaging'], since };
        const pages = await this.#stoa.changes.follow(this.#caller, query, signal);
        // The feed no longer has the changes in between.
        if (since === undefined) this.announce([...this.#wanted.values()].flatMap((uris) => [...uris]));
        for await (const page of pages) {
          this.#tell(page);
          since = page.position;
          isFailing = false;
        }
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof StoaError && error.code === 'resync') since = undefined;
        else if (!isFailing) this.#stoa.onError(error, 'following changes for an MCP client');
        isFailing = true;
        await sleep(followAgainMs, undefined, { ref: false });
      }
    }
  }

  #tell({ commits }: FeedPage): void {
    const changes = commits.flatMap((commit) => commit.changes);
    const touched = new Set(changes.flatMap(touchedBy).map(uriOf));
    for (const uri of touched)
      for (const spelling of this.#wanted.get(uri) ?? []) this.#listener.onUpdated(spelling);
    if (changes.some(changesList)) this.#listener.onListChanged?.();
  }
}
