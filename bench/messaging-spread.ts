/**
 * Messaging under a load that spreads over all agents, rooms and words: wrk with 64 connections, over HTTP, with
 * signatures made in advance. Each load has two rows: requests a second, and processor time of the server for a
 * request. The reference is AICQ's own server, which was measured on another occasion on two cores and is not part of
 * this run.
 */
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type SigningKeys, aicqSignedText, sign, signingKeysOf } from '../src/identity/signatures.js';
import { forkServer } from './child-server.js';
import type { Bench, Row } from './frame.js';
import { type Request, TooFewRequests, runWrk } from './wrk.js';

const agentCount = 200;
const roomCount = 20;
const wordCount = 4_000;
/** Posts, and direct messages. */
const signedCount = Number(process.env['BENCH_SPREAD'] ?? 20_000);
/** Requests that are made for the first run of wrk; reads are sent again and again. */
const signedPerSecond = 13_500;
const readsPerRun = 5_000;
/**
 * Of one run of wrk. Runs of writes are short, so that a faster server has hardly more messages: a search for two words
 * took 250 µs over 21,000 of them and 430 over 28,000.
 */
const [writeSeconds, readSeconds] = [1, 3];

/** A kind of request, what AICQ's own server reached, and what of that is the goal. */
interface Load {
  readonly what: string;
  readonly make: () => Request;
  readonly aicq: { readonly perSecond: number; readonly cpuUs: number };
  readonly rateAtLeast?: number;
  readonly cpuAtMost?: number;
}

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
    const rows: Row[] = [];
    for (const load of this.#loads()) rows.push(...(await this.#measure(load)));
    return [...rows, await this.#memory()];
  }

  #loads(): Load[] {
    return [
      {
        what: 'signed posts',
        make: () => this.#post(),
        aicq: { perSecond: 569, cpuUs: 2_287 },
        rateAtLeast: 6,
      },
      {
        what: 'signed direct messages',
        make: () => this.#direct(),
        aicq: { perSecond: 1_879, cpuUs: 710 },
        rateAtLeast: 3,
      },
      {
        what: 'room reads, newest 50',
        make: get(() => `/room/${any(this.#rooms)}`),
        aicq: { perSecond: 3_022, cpuUs: 536 },
        cpuAtMost: 0.25,
      },
      {
        what: 'search, one word',
        make: get(() => `/find?q=${word()}`),
        aicq: { perSecond: 15, cpuUs: 110_826 },
        rateAtLeast: 150,
      },
      {
        what: 'search, two words',
        make: get(() => `/find?q=${word()}+${word()}`),
        aicq: { perSecond: 48, cpuUs: 33_224 },
        rateAtLeast: 60,
        cpuAtMost: 0.015,
      },
      {
        what: 'GET /channels',
        make: get(() => '/channels'),
        aicq: { perSecond: 3_389, cpuUs: 468 },
        rateAtLeast: 1.5,
        cpuAtMost: 0.3,
      },
      {
        what: 'GET /who/{id}',
        make: get(() => `/who/${any(this.#agents).id}`),
        aicq: { perSecond: 10_067, cpuUs: 141 },
        rateAtLeast: 1.2,
        cpuAtMost: 0.5,
      },
      {
        // AICQ's pages had 9 KB too.
        what: 'signed inbox reads of 9 KB',
        make: () => this.#signed(any(this.#agents), 'GET', '/dm?limit=60', ''),
        aicq: { perSecond: 1_522, cpuUs: 928 },
        rateAtLeast: 2,
        cpuAtMost: 0.3,
      },
    ];
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

  async #measure({ what, make, aicq, rateAtLeast, cpuAtMost }: Load): Promise<Row[]> {
    const isWrite = make().method === 'POST';
    const isOnce = make().headers !== undefined;
    const wanted = isWrite ? signedCount : 1;
    let [answered, usedUs, passedSeconds] = [0, 0, 0];
    const seconds = isWrite ? writeSeconds : readSeconds;
    let perRun = isOnce ? signedPerSecond * seconds : readsPerRun;
    // A signature is valid for half a minute, so signed requests are made for each run.
    while (answered < wanted) {
      const requests = times(perRun, make);
      const startedUs = await this.#server.cpuUs();
      const run = await runWrk(this.#server.url, requests, {
        directory: this.#directory,
        seconds,
        isOnce,
      }).catch((error: unknown) => {
        if (!(error instanceof TooFewRequests)) throw error;
        return undefined;
      });
      if (run === undefined) {
        perRun *= 2;
        continue;
      }
      usedUs += (await this.#server.cpuUs()) - startedUs;
      answered += run.answered;
      passedSeconds += run.seconds;
    }
    return [
      {
        what: `${what}, spread / AICQ's own server`,
        ours: answered / passedSeconds,
        reference: aicq.perSecond,
        unit: '/s',
        ...(rateAtLeast !== undefined && { target: { atLeast: rateAtLeast } }),
      },
      {
        what: `${what}, spread, processor time of a request / AICQ's own server`,
        ours: usedUs / answered,
        reference: aicq.cpuUs,
        unit: 'µs',
        ...(cpuAtMost !== undefined && { target: { atMost: cpuAtMost } }),
      },
    ];
  }

  async #memory(): Promise<Row> {
    const status = await readFile(`/proc/${this.#server.pid}/status`, 'utf8');
    const megabytes = (name: string) =>
      Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) / 1_024;
    // The rest is the map of the database file and of programs, which the system takes back when it needs memory.
    const own = Math.round(megabytes('RssAnon'));
    const what = `memory of the server after the spread load (${own} MB are its own, the rest are mapped files) / 250 MB`;
    return { what, ours: megabytes('VmRSS'), reference: 250, unit: 'MB', target: { atMost: 1 } };
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
