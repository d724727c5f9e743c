/** What a signed post, a page of a room and a thousand live readers cost over HTTP. */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type SigningKeys, aicqSignedText, sign, signingKeysOf } from '../src/identity/signatures.js';
import { forkServer } from './child-server.js';
import { type Row, median } from './frame.js';
import { Listener, load } from './messaging-load.js';

const connections = 64;
const roundMs = 2_500;
const turns = 5;
/** More than a round can send: making them while the clock runs would measure the client. */
const requestsReady = 25_000;
const warmUpPosts = 50_000;

interface Server {
  url: string;
  cpuUs(): Promise<number>;
  end(): void;
}

interface Rates {
  answered: number;
  byCpu: number;
  byClock: number;
}

export async function messagingHttpRows(directory: string): Promise<Row[]> {
  const data = join(directory, 'server');
  await rm(data, { recursive: true, force: true });
  const keys = signingKeysOf(randomBytes(32));
  const publicKey = keys.publicKey.toString('base64');
  const stoa = await start('stoa', data);
  const post = signedPosts(keys, await register(stoa, publicKey));
  const posting = (server: Server) => {
    const ready = Array.from({ length: requestsReady }, () => post(server.url));
    return rates(server, 201, () => ready.pop());
  };
  // Until the code is warm, a server with more of it looks slower than it is.
  for (let posted = 0; posted < warmUpPosts;) posted += (await posting(stoa)).answered;
  const bare = await start('bare', publicKey, await (await fetch(`${stoa.url}/room/global`)).text());
  const rows = [
    ...(await compare(
      'signed POST /room/{id} / bare Fastify that verifies one signature',
      0.5,
      stoa,
      bare,
      posting,
    )),
    ...(await compare(
      'GET /room/{id}, newest 50 / bare Fastify with the same bytes',
      0.4,
      stoa,
      bare,
      reading,
    )),
    ...(await listenerRows(stoa.url, post)),
  ];
  stoa.end();
  bare.end();
  return rows;
}

async function compare(
  what: string,
  atLeast: number,
  stoa: Server,
  bare: Server,
  measure: (server: Server) => Promise<Rates>,
): Promise<Row[]> {
  const measured: { ours: Rates; reference: Rates }[] = [];
  // The first turn warms up and counts for nothing.
  for (let turn = -1; turn < turns; turn += 1) {
    const both = { reference: await measure(bare), ours: await measure(stoa) };
    if (turn >= 0) measured.push(both);
  }
  const row = (by: 'byCpu' | 'byClock', about: string): Row => ({
    what: `${what}, ${about}`,
    ours: median(measured.map(({ ours }) => ours[by])),
    reference: median(measured.map(({ reference }) => reference[by])),
    unit: '/s',
    target: { atLeast },
  });
  return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
}

async function rates(server: Server, expected: number, next: () => string | undefined): Promise<Rates> {
  const startedUs = await server.cpuUs();
  const { perSecond, statuses } = await load(server.url, connections, roundMs, next);
  const usedUs = (await server.cpuUs()) - startedUs;
  if ([...statuses.keys()].some((status) => status !== expected))
    throw new Error(`Expected ${expected}, got ${JSON.stringify([...statuses])}.`);
  const answered = statuses.get(expected) ?? 0;
  return { answered, byClock: perSecond, byCpu: (answered / usedUs) * 1_000_000 };
}

function reading(server: Server): Promise<Rates> {
  const request = `GET /room/global HTTP/1.1\r\nHost: ${new URL(server.url).host}\r\n\r\n`;
  return rates(server, 200, () => request);
}

async function register({ url }: Server, publicKey: string): Promise<string> {
  const registered = await fetch(`${url}/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ public_key: publicKey }),
  });
  return ((await registered.json()) as { id: string }).id;
}

/** Posts of one agent, each with its own signature, as bytes for the wire. */
function signedPosts({ secretKey }: SigningKeys, agentId: string): (url: string) => string {
  const body = JSON.stringify({
    body: 'A message of the usual length, with a dozen words that go into the index.',
  });
  const bytes = Buffer.from(body);
  return (url) => {
    const nonce = randomBytes(16).toString('hex');
    const timestamp = String(Date.now());
    const signature = sign(secretKey, aicqSignedText(bytes, nonce, timestamp)).toString('base64');
    return `POST /room/global HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\nX-AICQ-Agent: ${agentId}\r\nX-AICQ-Nonce: ${nonce}\r\nX-AICQ-Timestamp: ${timestamp}\r\nX-AICQ-Signature: ${signature}\r\n\r\n${body}`;
  };
}

/** Every one of a thousand readers gets every post; the time is from the moment that the post is sent. */
async function listenerRows(url: string, post: (url: string) => string): Promise<Row[]> {
  const count = 1_000;
  const posts = 20;
  const listeners = Array.from({ length: count }, () => new Listener(url, '/room/global/stream'));
  await Promise.all(listeners.map(({ ready }) => ready));
  const sentMs: number[] = [];
  for (let index = 0; index < posts; index += 1) {
    sentMs.push(performance.now());
    const request = post(url);
    let sent = false;
    await load(url, 1, 10_000, () => (sent ? undefined : ((sent = true), request)));
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  const deadlineMs = performance.now() + 10_000;
  while (listeners.some(({ seen }) => seen.length < posts) && performance.now() < deadlineMs)
    await new Promise((resolve) => setTimeout(resolve, 20));
  const missed = listeners.reduce((sum, { seen }) => sum + posts - seen.length, 0);
  const delays = listeners
    .flatMap(({ seen }) => seen.map(({ atMs }, index) => atMs - (sentMs[index] as number)))
    .toSorted((a, b) => a - b);
  for (const { socket } of listeners) socket.destroy();
  return [
    {
      what: 'a post reaches 1,000 readers of a room, p99 / 250 ms',
      ours: delays[Math.floor(delays.length * 0.99)] ?? Infinity,
      reference: 250,
      unit: 'ms',
      target: { atMost: 1 },
    },
    {
      what: 'deliveries that 1,000 readers missed / none',
      ours: missed + 1,
      reference: 1,
      unit: '',
      target: { atMost: 1 },
    },
  ];
}

async function start(...given: readonly string[]): Promise<Server> {
  const { child, served, cpuUs } = await forkServer<{ url: string }>('messaging-server.js', given);
  return { ...served, cpuUs, end: () => child.disconnect() };
}
