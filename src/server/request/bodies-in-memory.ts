/** The bytes of all request bodies that are in memory: those that arrive, and those of running requests. */
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';

/** Bodies up to this size are not counted: a connection costs the server nearly as much without one. */
const countedBytesMin = 64 * 1024;

/**
 * A client that sends large bodies slowly, or many at once, costs the server their bytes. If all bodies
 * together are too large, the one that has been arriving longest goes first: clients that send without
 * pauses are done before. A request whose body is complete is never ended, because it may be writing.
 */
export class BodiesInMemory {
  readonly #limits: Limits;
  /** Bodies that are not complete, with their bytes so far, the oldest first. */
  readonly #arriving = new Map<IncomingMessage, number>();
  #arrivingBytes = 0;
  #completeBytes = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Called right before the first byte of a body is read. */
  follow({ raw, routeOptions }: FastifyRequest, reply: FastifyReply): void {
    const isChunked = raw.headers['transfer-encoding'] !== undefined;
    const declaredBytes = isChunked ? 0 : Number(raw.headers['content-length'] ?? 0);
    if (!isChunked && declaredBytes <= countedBytesMin) return;
    // Fastify refuses it without reading it.
    if (routeOptions.bodyLimit !== undefined && declaredBytes > routeOptions.bodyLimit) return;
    if (this.#completeBytes + declaredBytes > this.#limits.bodiesBytesMax)
      throw limitError('overloaded', {
        subject: 'With this request the total of the bodies of running requests',
        unit: 'bytes',
        limit: 'bodiesBytesMax',
        limits: this.#limits,
        advice: 'Try again shortly',
      });
    this.#arriving.set(raw, 0);
    raw.on('data', (chunk: Buffer) => this.#add(raw, chunk.length));
    raw.once('end', () => this.#completed(raw, reply));
    reply.raw.once('close', () => this.#remove(raw));
  }

  #add(body: IncomingMessage, bytes: number): void {
    const before = this.#arriving.get(body);
    if (before === undefined) return;
    this.#arriving.set(body, before + bytes);
    this.#arrivingBytes += bytes;
    for (const oldest of this.#arriving.keys()) {
      if (this.#completeBytes + this.#arrivingBytes <= this.#limits.bodiesBytesMax) break;
      this.#remove(oldest);
      oldest.destroy();
    }
  }

  #completed(body: IncomingMessage, reply: FastifyReply): void {
    const bytes = this.#remove(body);
    this.#completeBytes += bytes;
    reply.raw.once('close', () => (this.#completeBytes -= bytes));
  }

  #remove(body: IncomingMessage): number {
    const bytes = this.#arriving.get(body) ?? 0;
    this.#arrivingBytes -= bytes;
    this.#arriving.delete(body);
    return bytes;
  }
}
