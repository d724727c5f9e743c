/** Closes the streams of an address when the address is blocked on any server. */
import type { MessagingPort, Notice } from '../port.js';

export class BlockWatch {
  readonly #port: MessagingPort;
  readonly #lookAgainMs: number;
  /** By counted address. */
  readonly #open = new Map<string, Set<() => void>>();
  readonly #stop: () => void;
  #checkedAtMs = 0;

  constructor(port: MessagingPort, lookAgainMs: number) {
    this.#port = port;
    this.#lookAgainMs = lookAgainMs;
    this.#stop = port.subscribe((notice) => this.#onNotice(notice));
  }

  /**
   * Calls `end` when the address is blocked, also if it was blocked since the request was admitted. Returns a
   * function that stops it.
   */
  enter(address: string, end: () => void): () => void {
    const ends = this.#open.get(address) ?? new Set();
    this.#open.set(address, ends.add(end));
    void this.#look(address, [end]);
    return () => {
      ends.delete(end);
      if (ends.size === 0 && this.#open.get(address) === ends) this.#open.delete(address);
    };
  }

  close(): void {
    this.#stop();
    this.#open.clear();
  }

  #onNotice(notice: Notice): void {
    if (notice.topic === 'block') for (const end of this.#open.get(notice.address) ?? []) end();
    if (notice.topic === 'all') this.#lookAgain();
  }

  /** Reading every address takes time and blocks last long, so this runs less often than notices may be lost. */
  #lookAgain(): void {
    const nowMs = performance.now();
    if (nowMs - this.#checkedAtMs < this.#lookAgainMs) return;
    this.#checkedAtMs = nowMs;
    for (const [address, ends] of this.#open) void this.#look(address, [...ends]);
  }

  async #look(address: string, ends: readonly (() => void)[]): Promise<void> {
    try {
      if ((await this.#port.blockOf(address)) === undefined) return;
    } catch {
      // The stream is closed rather than left unchecked. A client that reconnects gets the error of the
      // store.
    }
    for (const end of ends) end();
  }
}
