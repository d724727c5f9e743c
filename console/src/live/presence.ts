/** When agents came and went, for as long as the feed remembers, at most a day. */
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { Observable } from '../observable.js';
import type { View } from '../stoa.js';
import type { LiveFeed } from './feed.js';
import { windowsBack } from './history.js';

const kinds = ['agent.present', 'agent.lost', 'agent.released'];
export const presenceMsMax = 24 * 3_600_000;
/** So that a page that stays open for weeks does not grow. */
const changesMax = 20_000;

export class PresenceLog {
  /** Grows with each change. */
  readonly round = new Observable(0);
  /** Oldest first. */
  changes: readonly ChangeItem[] = [];
  readonly #view: View;
  readonly #feed: LiveFeed;
  readonly #stop = new AbortController();
  #stopListening: (() => void) | undefined;

  constructor(view: View, feed: LiveFeed) {
    this.#view = view;
    this.#feed = feed;
  }

  /** Reads the past when the first view needs it. */
  use(): void {
    if (this.#stopListening !== undefined) return;
    this.#stopListening = this.#feed.listen((changes) => {
      const found = changes.filter(({ kind }) => kinds.includes(kind));
      if (found.length > 0) this.#set([...this.changes, ...found]);
    });
    void this.#readPast();
  }

  stop(): void {
    this.#stopListening?.();
    this.#stop.abort();
  }

  async #readPast(): Promise<void> {
    const sinceMs = Date.now() - presenceMsMax;
    try {
      const windows = windowsBack(this.#view.stoa, { topics: kinds }, this.#stop.signal);
      for await (const { items } of windows) {
        // The feed may have reported the newest ones already.
        const known = this.changes[0]?.seq ?? Infinity;
        this.#set([...items.filter(({ seq }) => seq < known), ...this.changes]);
        if (items[0] !== undefined && Date.parse(items[0].at) < sinceMs) return;
      }
    } catch {
      // The line begins later; the state of the connection is shown beside the navigation.
    }
  }

  #set(changes: readonly ChangeItem[]): void {
    this.changes = changes.slice(-changesMax);
    this.round.set(this.round.value + 1);
  }
}

export interface Presence {
  readonly atMs: number;
  readonly present: number;
  readonly isLoss: boolean;
}

/** How many agents were present, at each moment when that changed. Oldest first. */
export function presenceOver(changes: readonly ChangeItem[], presentNow: number, nowMs: number): Presence[] {
  const points = [{ atMs: nowMs, present: presentNow, isLoss: false }];
  let present = presentNow;
  for (const { kind, at } of changes.toReversed()) {
    const isLoss = kind === 'agent.lost';
    points.push({ atMs: Date.parse(at), present, isLoss });
    present = kind === 'agent.present' ? Math.max(0, present - 1) : present + 1;
  }
  const oldest = changes[0]?.at;
  if (oldest !== undefined) points.push({ atMs: Date.parse(oldest), present, isLoss: false });
  return points.toReversed();
}
