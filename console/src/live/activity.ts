/** What each agent wrote and said last, as far as the feed tells: the newest changes, then some older ones. */
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { Observable } from '../observable.js';
import type { View } from '../stoa.js';
import type { LiveFeed } from './feed.js';
import { windowsBack } from './history.js';
import type { AgentAnswer } from './world.js';

/** Whom an identity that the server keeps speaks for. */
export interface Speaker {
  readonly name: string;
  readonly isKept: boolean;
}

export interface Activity {
  readonly wroteAtMs: number | undefined;
  readonly wrote: ChangeItem | undefined;
  readonly saidAtMs: number | undefined;
}

const nothingYet: Activity = { wroteAtMs: undefined, wrote: undefined, saidAtMs: undefined };
/** Older changes cost requests, and say less and less about now. */
const windowsMax = 6;
const pauseMs = 250;

/** Names are unique within a user only. */
export function agentKey(user: string | null, name: string): string {
  return `${user ?? ''} ${name}`;
}

export class Activities {
  /** Grows when older changes were read; the feed has its own round for new ones. */
  readonly round = new Observable(0);
  readonly #view: View;
  readonly #feed: LiveFeed;
  readonly #stop = new AbortController();
  readonly #byAgent = new Map<string, Activity>();
  /** The last message of each identity in public rooms. */
  readonly #byIdentity = new Map<string, number>();
  #stopListening: (() => void) | undefined;

  constructor(view: View, feed: LiveFeed) {
    this.#view = view;
    this.#feed = feed;
  }

  /** Reads the past when the first view needs it. */
  use(): void {
    if (this.#stopListening !== undefined) return;
    this.#stopListening = this.#feed.listen((changes) => this.#take(changes));
    const fill = (): void => {
      if (this.#feed.round.value === 0) return;
      stopWaiting();
      this.#take(this.#feed.recent);
      this.round.set(this.round.value + 1);
      void this.#readPast();
    };
    const stopWaiting = this.#feed.round.subscribe(fill);
    fill();
  }

  stop(): void {
    this.#stopListening?.();
    this.#stop.abort();
  }

  async #readPast(): Promise<void> {
    const { earliest } = this.#feed;
    if (earliest === null) return;
    const filter = { topics: ['data', 'message.posted'] };
    let windows = 0;
    try {
      for await (const { items } of windowsBack(this.#view.stoa, filter, this.#stop.signal, earliest)) {
        this.#take(items);
        this.round.set(this.round.value + 1);
        windows += 1;
        if (windows >= windowsMax) return;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    } catch {
      // Older deeds stay unknown; the state of the connection is shown beside the navigation.
    }
  }

  #take(changes: readonly ChangeItem[]): void {
    for (const change of changes) {
      const isMessage = change.kind === 'message.posted';
      if (!isMessage && change.domain !== 'data') continue;
      const atMs = Date.parse(change.at);
      const from = change.facts?.['from'];
      // A public room hides the agent of an author.
      if (isMessage && change.agent === null && typeof from === 'string')
        this.#byIdentity.set(from, Math.max(atMs, this.#byIdentity.get(from) ?? 0));
      if (change.agent === null) continue;
      const key = agentKey(change.user, change.agent);
      const known = this.#byAgent.get(key) ?? nothingYet;
      if (isMessage) this.#byAgent.set(key, { ...known, saidAtMs: Math.max(atMs, known.saidAtMs ?? 0) });
      else if (atMs >= (known.wroteAtMs ?? 0))
        this.#byAgent.set(key, { ...known, wroteAtMs: atMs, wrote: change });
    }
  }

  /** Identities that have said something lately. */
  get speakers(): readonly string[] {
    return [...this.#byIdentity.keys()];
  }

  /** `names` has the agent of an identity that the server keeps. */
  of({ user, name }: AgentAnswer, names: ReadonlyMap<string, Speaker>): Activity | undefined {
    const known = this.#byAgent.get(agentKey(user, name));
    for (const [identity, atMs] of this.#byIdentity) {
      const speaker = names.get(identity);
      if (speaker?.isKept === true && speaker.name === name && atMs > (known?.saidAtMs ?? 0))
        return { ...(known ?? nothingYet), saidAtMs: atMs };
    }
    return known;
  }
}

export function keyText({ facts, id }: ChangeItem): string {
  const { namespace, key } = facts ?? {};
  return typeof key === 'string' ? `${String(namespace)}/${key}` : id;
}
