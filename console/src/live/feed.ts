/**
 * The change feed of the console: the newest stored changes, then one stream for all views. A stream takes one of the
 * few connections that a browser has, so a hidden tab gives it back.
 */
import { StoaError } from '../../../src/client/index.js';
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { Observable } from '../observable.js';
import { readWindow } from './history.js';
import type { View } from '../stoa.js';

export type LiveState = 'connecting' | 'live' | 'lost';

export type Listener = (changes: readonly ChangeItem[]) => void;

/** Changes that are kept for views that open later. */
const keptMax = 6_000;
const firstCommits = 1_500;
/** Changes are handed on in groups, so that many of them cost one render. */
const groupMs = 200;
const hiddenMsMax = 20_000;
const lostAfterMs = 1_500;

export class LiveFeed {
  readonly state = new Observable<LiveState>('connecting');
  /** Grows with each group. */
  readonly round = new Observable(0);
  /** The position after the newest change. */
  position: string | undefined;
  /** Positions by the number of their commit, so that a change can be shared as a link. */
  readonly #positions = new Map<number, string>();
  /** Oldest first. */
  recent: ChangeItem[] = [];
  /** The position before the oldest of them; null if nothing is stored before it. */
  earliest: string | null = null;
  readonly #view: View;
  readonly #listeners = new Set<Listener>();
  readonly #resyncs = new Set<() => void>();
  readonly #stop = new AbortController();
  #pause = new AbortController();
  #waiting: ChangeItem[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #lostTimer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(view: View) {
    this.#view = view;
  }

  start(): void {
    document.addEventListener('visibilitychange', this.#onVisibility);
    void this.#run();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.#onVisibility);
    for (const timer of [this.#timer, this.#lostTimer, this.#hiddenTimer]) clearTimeout(timer);
    this.#stop.abort();
    this.#pause.abort();
  }

  /** Calls back with new changes, and with `onResync` when some were missed. Returns the way to stop it. */
  listen(listener: Listener, onResync?: () => void): () => void {
    this.#listeners.add(listener);
    if (onResync !== undefined) this.#resyncs.add(onResync);
    return () => {
      this.#listeners.delete(listener);
      if (onResync !== undefined) this.#resyncs.delete(onResync);
    };
  }

  positionOf(seq: number): string | undefined {
    return this.#positions.get(seq);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.position === undefined) await this.#readRecent(signal);
        await this.#follow();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof StoaError && error.code === 'resync') {
          this.position = undefined;
          for (const resync of this.#resyncs) resync();
        } else {
          this.state.set('lost');
          await new Promise((resolve) => setTimeout(resolve, 1_000));
        }
      }
    }
  }

  async #readRecent(signal: AbortSignal): Promise<void> {
    const window = await readWindow(this.#view.stoa, { back: firstCommits, signal }, { itemsMax: keptMax });
    this.position = window.position;
    this.recent = window.items;
    this.earliest = window.since;
    this.round.set(this.round.value + 1);
  }

  async #follow(): Promise<void> {
    this.#pause = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, this.#pause.signal]);
    const onLost = (): void => {
      // A short break is not worth a word.
      this.#lostTimer ??= setTimeout(() => this.state.set('lost'), lostAfterMs);
    };
    const pages = this.#view.stoa.changes.follow({ since: this.position, positions: true, signal, onLost });
    for await (const { items, position } of pages) {
      clearTimeout(this.#lostTimer);
      this.#lostTimer = undefined;
      this.state.set('live');
      this.position = position;
      if (items.length > 0) this.#take(items, position);
    }
    if (!this.#stop.signal.aborted && document.hidden) await untilVisible();
  }

  #take(items: readonly ChangeItem[], position: string): void {
    const seq = items.at(-1)?.seq;
    if (seq !== undefined) this.#positions.set(seq, position);
    if (this.#positions.size > keptMax) {
      const [oldest] = this.#positions.keys();
      if (oldest !== undefined) this.#positions.delete(oldest);
    }
    this.#waiting.push(...items);
    this.#timer ??= setTimeout(() => this.#handOn(), groupMs);
  }

  #handOn(): void {
    this.#timer = undefined;
    const changes = this.#waiting;
    this.#waiting = [];
    this.recent.push(...changes);
    if (this.recent.length > 2 * keptMax) {
      const [dropped] = this.recent.splice(0, this.recent.length - keptMax).slice(-1);
      this.earliest = this.#positions.get(dropped?.seq ?? 0) ?? null;
    }
    for (const listener of this.#listeners) listener(changes);
    this.round.set(this.round.value + 1);
  }

  readonly #onVisibility = (): void => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) this.#hiddenTimer = setTimeout(() => this.#pause.abort(), hiddenMsMax);
  };
}

function untilVisible(): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.hidden) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    look();
  });
}
