/**
 * Messaging under a load that spreads over all agents, rooms and words: wrk with 64 connections, over HTTP, with
 * signatures made in advance. A row is the processor time of the server for a request, against a goal. The goals come
 * from AICQ's own server, which was measured on another occasion on two cores, and is not part of this run.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type SigningKeys, aicqSignedText, sign, signingKeysOf } from '../src/identity/signatures.js';
import { forkServer } from './child-server.js';
import type { Bench, Row } from './frame.js';
import { type Request, runWrk } from './wrk.js';

const agentCount = 200;
const roomCount = 20;
const wordCount = 4_000;
/** Posts, direct messages and reads of inboxes, each with its own signature. */
const signedCount = Number(process.env['BENCH_SPREAD'] ?? 20_000);
const signedPerRun = 5_000;
/** Requests of a read, which are sent again and again. */
const readCount = 5_000;
/** Of one run of wrk. */
const seconds = 4;

interface SpreadAgent {
  readonly id: string;
  readonly keys: SigningKeys;
}

interface Server {
  readonly url: string;
  readonly pid: number;
  cpuUs(): Promise<number>;
}

export const messagingSpreadBench: Bench = {
  name: 'messaging-spread',
  async run(directory) {
    const data = join(directory, 'server');
    await rm(data, { recursive: true, force: true });
    const { child, served, cpuUs } = await forkServer<{ url: string }>('messaging-server.js', ['stoa', data]);
    const server: Server = { url: served.url, pid: child.pid as number, cpuUs };
    try {
      return await new Spread(server, directory).rows();
    } finally {
      child.disconnect();
    }
  },
};

class Spread {
  readonly #server: Server;
  readonly #directory: string;
  #agents: SpreadAgent[] = [];
  #rooms: string[] = [];

  constructor(server: Server, directory: string) {
    this.#server = server;
    this.#directory = directory;
  }

  async rows(): Promise<Row[]> {
    await this.#fill();
    const rows = [
      await this.#row('signed posts', 293, () => this.#post()),
      await this.#row('signed direct messages', 177, () => this.#direct()),
      await this.#row(
        'room reads, newest 50',
        134,
        get(() => `/room/${any(this.#rooms)}`),
      ),
      await this.#row(
        'search, one word',
        444,
        get(() => `/find?q=${word()}`),
      ),
      await this.#row(
        'search, two words',
        347,
        get(() => `/find?q=${word()}+${word()}`),
      ),
      await this.#row(
        'GET /channels',
        140,
        get(() => '/channels'),
      ),
      await this.#row(
        'GET /who/{id}',
        70,
        get(() => `/who/${any(this.#agents).id}`),
      ),
      await this.#row('signed inbox reads', 278, () => this.#signed(any(this.#agents), 'GET', '/dm', '')),
    ];
    return [...rows, await this.#memory()];
  }

  async #fill(): Promise<void> {
    for (let index = 0; index < agentCount; index += 1) {
      const keys = signingKeysOf(randomBytes(32));
      const body = JSON.stringify({ public_key: keys.publicKey.toString('base64'), name: `agent${index}` });
      const { id } = (await this.#ask({ method: 'POST', path: '/register', body })) as { id: string };
      this.#agents.push({ id, keys });
    }
    for (let index = 0; index < roomCount; index += 1) {
      const body = JSON.stringify({ name: `room${index}` });
      const made = await this.#ask(this.#signed(any(this.#agents), 'POST', '/room', body));
      this.#rooms.push((made as { id: string }).id);
    }
  }

  async #ask({ method, path, headers = {}, body }: Request): Promise<unknown> {
    const response = await fetch(`${this.#server.url}${path}`, {
      method,
      headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  }

  #post(): Request {
    const path = `/room/${any(this.#rooms)}`;
    return this.#signed(any(this.#agents), 'POST', path, JSON.stringify({ body: text(12) }));
  }

  #direct(): Request {
    const [from, to] = [any(this.#agents), any(this.#agents)];
    return this.#signed(from, 'POST', `/dm/${to.id}`, JSON.stringify({ body: text(4) }));
  }

  #signed({ id, keys }: SpreadAgent, method: string, path: string, body: string): Request {
    const nonce = randomBytes(16).toString('hex');
    const timestamp = String(Date.now());
    const text = aicqSignedText(Buffer.from(body === '' ? '{}' : body), nonce, timestamp);
    const headers = {
      'X-AICQ-Agent': id,
      'X-AICQ-Nonce': nonce,
      'X-AICQ-Timestamp': timestamp,
      'X-AICQ-Signature': sign(keys.secretKey, text).toString('base64'),
    };
    return { method, path, headers, ...(body !== '' && { body }) };
  }

  async #row(what: string, goalUs: number, make: () => Request): Promise<Row> {
    const isOnce = make().headers !== undefined;
    const wanted = isOnce ? signedCount : 1;
    const startedUs = await this.#server.cpuUs();
    let answered = 0;
    // A signature is valid for half a minute, so signed requests are made and sent in parts.
    while (answered < wanted) {
      const requests = times(isOnce ? signedPerRun : readCount, make);
      answered += await runWrk(this.#server.url, requests, { directory: this.#directory, seconds, isOnce });
    }
    const usedUs = (await this.#server.cpuUs()) - startedUs;
    return {
      what: `${what}, spread, processor time / goal of ${goalUs} µs`,
      ours: usedUs / answered,
      reference: goalUs,
      unit: 'µs',
      target: { atMost: 1 },
    };
  }

  async #memory(): Promise<Row> {
    const status = await readFile(`/proc/${this.#server.pid}/status`, 'utf8');
    const megabytes = Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1_024;
    const what = 'memory of the server after the spread load / 250 MB';
    return { what, ours: megabytes, reference: 250, unit: 'MB', target: { atMost: 1 } };
  }
}

/** Makes reads of paths. */
function get(path: () => string): () => Request {
  return () => ({ method: 'GET', path: path() });
}

/** Some words are in many messages and most are in few. */
function word(): string {
  return `word${Math.floor(wordCount * Math.random() ** 2)}`;
}

function text(words: number): string {
  return times(words, word).join(' ');
}

function any<Item>(items: readonly Item[]): Item {
  return items[Math.floor(Math.random() * items.length)] as Item;
}

function times<Item>(count: number, make: () => Item): Item[] {
  return Array.from({ length: count }, make);
}
