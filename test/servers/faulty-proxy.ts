/** A proxy in front of an HTTP server that can vanish, come back, and answer in the server's place. */
import {
  type IncomingMessage,
  type Server,
  type ServerResponse,
  createServer,
  request as forward,
} from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Answer {
  status: number;
  body: unknown;
}

/** Sees a request before the server; an answer is sent instead of the server's. */
export type Intercept = (request: { target: string; body: string }) => Answer | undefined;

export class FaultyProxy {
  readonly #target: URL;
  #server: Server | undefined;
  #port = 0;
  intercept: Intercept = () => undefined;
  /** The server executes the request, and the answer never arrives. */
  losesAnswer: (request: { target: string; body: string }) => boolean = () => false;

  /** Waited for before a request goes on to the server. */
  before: (request: { target: string; body: string }) => Promise<void> = async () => undefined;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The second time it comes back at the same address. */
  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#pass(request, response));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (server.address() as AddressInfo).port; // A TCP server that listens has an AddressInfo.
    this.#server = server;
  }

  /** From here on everything passes unchanged. */
  heal(): void {
    this.intercept = () => undefined;
    this.losesAnswer = () => false;
    this.before = async () => undefined;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    // A request without an encoding gives buffers.
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const seen = { target: String(request.headers['x-amz-target'] ?? request.url), body: body.toString() };
    await this.before(seen);
    const answer = this.intercept(seen);
    if (answer !== undefined) {
      response
        .writeHead(answer.status, { 'Content-Type': 'application/x-amz-json-1.0' })
        .end(JSON.stringify(answer.body));
      return;
    }
    const { hostname, port } = this.#target;
    const isLost = this.losesAnswer(seen);
    const onward = forward(
      { hostname, port, path: request.url, method: request.method, headers: request.headers },
      (back) => {
        if (isLost) {
          back.resume().on('end', () => response.destroy());
          return;
        }
        response.writeHead(back.statusCode ?? 502, back.headers);
        back.pipe(response);
      },
    );
    onward.on('error', (error) => response.destroy(error));
    onward.end(body);
  }
}
