/** Answers that wait in memory because their clients do not read them as fast as they were made. */
import type { ServerResponse } from 'node:http';
import type { Limits } from '../../core/settings/limits.js';

/**
 * A client that asks for large answers and reads none costs the server their bytes. Its connection is closed
 * if nothing moves for a while. If all such answers together are too large, the one that has waited longest
 * goes first: clients that read are done before.
 */
export class UnreadAnswers {
  readonly #limits: Limits;
  /** The size of each answer, the oldest first. */
  readonly #sizes = new Map<ServerResponse, number>();
  #bytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Takes a response that has ended, but whose bytes did not all go to the socket. */
  add(response: ServerResponse, sizeBytes: number): void {
    this.#sizes.set(response, sizeBytes);
    this.#bytes += sizeBytes;
    response.once('close', () => this.#remove(response));
    response.setTimeout(this.#limits.streamStallSecondsMax * 1_000, () => response.destroy());
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= this.#limits.unreadAnswerBytesMax) break;
      this.#remove(oldest);
      oldest.destroy();
    }
  }

  #remove(response: ServerResponse): void {
    this.#bytes -= this.#sizes.get(response) ?? 0;
    this.#sizes.delete(response);
  }
}
