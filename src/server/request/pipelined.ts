/** Requests that a client sends on one connection before it has the answers to its earlier ones. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';

/**
 * Such requests run one after the other. Node starts all of them at once and keeps their answers until the
 * client reads: one packet of requests for large answers would fill the memory, and a read behind a write
 * would not see it.
 */
export class PipelinedRequests {
  readonly #limits: Limits;
  readonly #waiting = new WeakMap<Socket, number>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /**
   * Undefined if no earlier answer of the connection is missing; otherwise resolves when all are sent. If the
   * connection ends before, it never resolves, and the request does nothing.
   */
  turnOf({ socket }: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    // Node gives the socket to one response at a time.
    if (response.socket !== null) return undefined;
    const waiting = (this.#waiting.get(socket) ?? 0) + 1;
    if (waiting > this.#limits.pipelinedRequestsMax)
      throw limitError('overloaded', {
        subject: 'With this request the connection',
        unit: 'requests that wait for earlier answers',
        limit: 'pipelinedRequestsMax',
        limits: this.#limits,
        received: waiting,
        advice: 'Read the answers before sending more requests',
      });
    this.#waiting.set(socket, waiting);
    return new Promise((resolve) => {
      response.once('socket', () => {
        this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1);
        // Other connections have their turn in between.
        setImmediate(resolve);
      });
    });
  }
}
