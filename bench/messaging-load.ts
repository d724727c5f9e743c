/**
 * Load for the messaging bench: ready-made requests on bare sockets, because a client library costs more than
 * the server.
 */
import { type Socket, connect } from 'node:net';

const headEnd = Buffer.from('\r\n\r\n');

export interface LoadResult {
  perSecond: number;
  statuses: Map<number, number>;
}

/** Sends `next()` on so many connections, one after the other on each, for about `milliseconds`. */
export async function load(
  url: string,
  connections: number,
  milliseconds: number,
  next: () => string | undefined,
): Promise<LoadResult> {
  const { port } = new URL(url);
  const statuses = new Map<number, number>();
  const startedMs = performance.now();
  let answered = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(Number(port), '127.0.0.1');
      const answers = new Answers(socket);
      while (performance.now() - startedMs < milliseconds) {
        const request = next();
        if (request === undefined) break;
        socket.write(request);
        const { status } = await answers.next();
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        answered += 1;
      }
      socket.destroy();
    }),
  );
  return { perSecond: (answered / (performance.now() - startedMs)) * 1000, statuses };
}

/** Answers with a Content-Length, as they come in on one socket. */
class Answers {
  #received: Buffer = Buffer.alloc(0);
  #waiting: ((answer: { status: number }) => void) | undefined;

  constructor(socket: Socket) {
    // Without an encoding a socket gives bytes.
    socket.on('data', (chunk: Buffer) => {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      this.#take();
    });
  }

  next(): Promise<{ status: number }> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
      this.#take();
    });
  }

  #take(): void {
    const end = this.#received.indexOf(headEnd);
    if (end < 0 || this.#waiting === undefined) return;
    const head = this.#received.toString('latin1', 0, end);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return;
    this.#received = this.#received.subarray(end + 4 + length);
    const resolve = this.#waiting;
    this.#waiting = undefined;
    resolve({ status: Number(head.slice(9, 12)) });
  }
}

/** A reader of server-sent events that notes when each message came. */
export class Listener {
  readonly socket: Socket;
  readonly seen: { id: string; atMs: number }[] = [];
  ready: Promise<void>;

  constructor(url: string, path: string) {
    const { port, host } = new URL(url);
    this.socket = connect(Number(port), '127.0.0.1');
    this.socket.setEncoding('utf8');
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`);
    let open: () => void;
    this.ready = new Promise((resolve) => {
      open = resolve;
    });
    this.socket.on('data', (chunk: string) => {
      if (chunk.includes('event: position')) open();
      for (const [, id] of chunk.matchAll(/data: \{"id":"([0-9A-Z]{26})"/g))
        this.seen.push({ id: id as string, atMs: performance.now() });
    });
  }
}
