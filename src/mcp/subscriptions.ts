/** Reports changes of resources to a client that subscribed to them, if its caller may see them. */
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { StoaError } from '../core/errors.js';
import { changesList, targetOf, touchedBy, uriOf } from './resources.js';
import { limitError } from '../core/settings/exceeds.js';

export interface ResourceListener {
  /** With the URI in the spelling that the client used to subscribe. */
  onUpdated(uri: string): void;
  onListChanged?(): void;
}

/** Follows the feed while there are subscriptions. */
export class ResourceWatch {
  readonly #stoa: Stoa;
  readonly #caller: Caller;
  readonly #listener: ResourceListener;
  /** The canonical URI and the client's spellings of it. */
  readonly #wanted = new Map<string, Set<string>>();
  #following: AbortController | undefined;
  #count = 0;

  constructor(stoa: Stoa, caller: Caller, listener: ResourceListener) {
    this.#stoa = stoa;
    this.#caller = caller;
    this.#listener = listener;
  }

  add(uri: string): void {
    const target = targetOf(uri);
    if (target === undefined) throw new StoaError('not_found', `Unknown resource ${uri.slice(0, 200)}.`);
    const spellings = this.#wanted.get(uriOf(target)) ?? new Set<string>();
    const { limits } = this.#stoa;
    if (!spellings.has(uri) && this.#count >= limits.mcpSubscriptionsMax)
      throw limitError('overloaded', {
        subject: 'With this resource the client',
        unit: 'subscriptions',
        limit: 'mcpSubscriptionsMax',
        limits,
        received: this.#count + 1,
        advice: 'Unsubscribe from resources that are no longer needed',
      });
    if (!spellings.has(uri)) this.#count += 1;
    this.#wanted.set(uriOf(target), spellings.add(uri));
    this.follow();
  }

  remove(uri: string): void {
    const target = targetOf(uri);
    const spellings = target === undefined ? undefined : this.#wanted.get(uriOf(target));
    if (target === undefined || spellings === undefined || !spellings.delete(uri)) return;
    this.#count -= 1;
    if (spellings.size === 0) this.#wanted.delete(uriOf(target));
  }

  /** Starts with changes after this call. */
  follow(): void {
    if (this.#following !== undefined) return;
    const following = new AbortController();
    this.#following = following;
    void this.#run(following.signal);
  }

  close(): void {
    this.#following?.abort();
  }

  async #run(signal: AbortSignal): Promise<void> {
    try {
      const pages = await this.#stoa.changes.follow(this.#caller, { topics: ['data', 'messaging'] }, signal);
      for await (const page of pages) {
        const changes = page.commits.flatMap((commit) => commit.changes);
        const touched = new Set(changes.flatMap(touchedBy).map(uriOf));
        for (const uri of touched)
          for (const spelling of this.#wanted.get(uri) ?? []) this.#listener.onUpdated(spelling);
        if (changes.some(changesList)) this.#listener.onListChanged?.();
      }
    } catch (error) {
      if (!signal.aborted) this.#stoa.onError(error, 'following changes for an MCP client');
    } finally {
      this.#following = undefined;
    }
  }
}
