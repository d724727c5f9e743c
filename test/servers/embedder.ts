/**
 * An embedder on loopback in the shape of OpenAI's `/v1/embeddings`. It is deterministic: each word has a direction,
 * and words of one meaning have the same. It can be told to misbehave.
 */
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export const dimensions = 32;

export const failures = [
  'fails',
  'garbage',
  'short',
  'few',
  'infinite',
  'hangs',
  'huge',
  'refuses',
  'nan',
  'limits',
  'drops',
  'redirects',
  'trickles',
] as const;

export type Behaviour = 'works' | (typeof failures)[number];

/** Words of one line mean the same. */
const meanings = [
  ['database', 'postgres', 'storage', 'datenbank'],
  ['car', 'vehicle', 'automobile', 'auto'],
  ['soup', 'stew', 'broth'],
  ['rain', 'storm', 'weather'],
];

/** A text with this word is refused, whatever the others are. */
export const refusedWord = 'unspeakable';

const path = '/v1/embeddings';

/** What it asks for while it `limits`. */
export const retryAfterSeconds = 2;

export interface EmbedderServer {
  readonly url: string;
  /** The texts of each request. */
  readonly requests: string[][];
  /** Requests to another address than that of the embedder. */
  readonly strayed: string[];
  /** The Authorization headers. */
  readonly credentials: (string | undefined)[];
  behave(behaviour: Behaviour): void;
  /** Closes the port and all connections, as an embedder that is restarted. */
  pauseListening(): Promise<() => Promise<void>>;
  /** Holds every answer back until the returned function is called. */
  hold(): () => void;
  stop(): Promise<void>;
}

/** The vector of a text, before it gets the length 1. */
export function vectorOf(text: string): number[] {
  const sum = Array.from({ length: dimensions }, () => 0);
  for (const word of text.toLowerCase().split(/[^\p{L}\p{N}]+/u)) {
    if (word === '') continue;
    const root = meanings.find((words) => words.includes(word))?.[0] ?? word;
    const bytes = createHash('sha256').update(root).digest();
    for (let at = 0; at < dimensions; at += 1) sum[at] = (sum[at] ?? 0) + ((bytes[at] ?? 0) - 127.5) / 128;
  }
  return sum;
}

export async function startEmbedder(): Promise<EmbedderServer> {
  let behaviour: Behaviour = 'works';
  let held: Promise<void> | undefined;
  const requests: string[][] = [];
  const strayed: string[] = [];
  const credentials: (string | undefined)[] = [];
  const answer = async (request: IncomingMessage, reply: ServerResponse): Promise<void> => {
    if (request.url !== path) strayed.push(String(request.url));
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { input } = JSON.parse(Buffer.concat(chunks).toString()) as { input: string[] };
    requests.push(input);
    credentials.push(request.headers.authorization);
    await held;
    respond(reply, behaviour, input);
  };
  const server = createServer((request, reply) => void answer(request, reply).catch(() => reply.destroy()));
  const listen = (at: number): Promise<void> =>
    new Promise<void>((resolve) => void server.listen(at, '127.0.0.1', resolve));
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  await listen(0);
  // A server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${path}`,
    requests,
    strayed,
    credentials,
    behave: (next) => {
      behaviour = next;
    },
    hold: () => {
      const gate = new EventEmitter();
      held = once(gate, 'open').then(() => undefined);
      return () => gate.emit('open');
    },
    pauseListening: async () => {
      await stop();
      return () => listen(port);
    },
    stop,
  };
}

function respond(reply: ServerResponse, behaviour: Behaviour, input: readonly string[]): void {
  const send = (status: number, body: unknown): void => {
    reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  if (behaviour === 'hangs') return;
  if (behaviour === 'drops') return void reply.write('{"data": [', () => reply.destroy());
  if (behaviour === 'redirects')
    return void reply.writeHead(307, { location: '/elsewhere', 'content-type': 'text/plain' }).end();
  if (behaviour === 'trickles') {
    // The answer goes on and on.
    const more = setInterval(() => reply.write(' '), 20);
    return void reply.on('close', () => clearInterval(more));
  }
  if (behaviour === 'limits') {
    reply.setHeader('retry-after', String(retryAfterSeconds));
    return send(429, { error: { message: 'slow down' } });
  }
  if (behaviour === 'fails') return send(503, { error: { message: 'overloaded' } });
  if (behaviour === 'refuses' || input.some((text) => text.includes(refusedWord)))
    return send(400, { error: { message: 'bad input' } });
  if (behaviour === 'garbage') return void reply.end('{"data": [{"embedding": "AAAA"');
  if (behaviour === 'huge') return void reply.end(`{"data": "${'x'.repeat(3_000_000)}"}`);
  const vectors = input.map(vectorOf).map((vector) => {
    if (behaviour === 'short') return vector.slice(1);
    // JSON has no NaN: it becomes null.
    if (behaviour === 'nan') return [...vector.slice(1), NaN];
    return behaviour === 'infinite' ? [...vector.slice(1), '1e999'] : vector;
  });
  const given = behaviour === 'few' ? vectors.slice(1) : vectors;
  // The last first: the place of a vector is its index.
  const data = given.map((embedding, index) => ({ object: 'embedding', index, embedding })).toReversed();
  send(200, { object: 'list', data, model: 'test' });
}
