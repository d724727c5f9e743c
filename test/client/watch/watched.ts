import { expect } from 'vitest';
import type { WatchEvent } from '../../../src/client/index.js';
import { eventually } from '../../until.js';

/** All events of a running watch. */
export class Watched<Item, Change> {
  readonly events: WatchEvent<Item, Change>[] = [];
  ended = false;
  readonly #stop = new AbortController();
  readonly done: Promise<void>;

  constructor(open: (signal: AbortSignal) => AsyncGenerator<WatchEvent<Item, Change>>) {
    this.done = this.#read(open(this.#stop.signal));
  }

  async #read(events: AsyncGenerator<WatchEvent<Item, Change>>): Promise<void> {
    for await (const event of events) this.events.push(event);
    this.ended = true;
  }

  get snapshot(): Item[] {
    return this.events.flatMap((event) => (event.kind === 'snapshot' ? event.items : []));
  }

  get changes(): Change[] {
    return this.events.flatMap((event) => (event.kind === 'changes' ? event.items : []));
  }

  async live(): Promise<this> {
    await eventually(() => expect(this.events.some(({ kind }) => kind === 'live')).toBe(true));
    return this;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.done;
  }
}
