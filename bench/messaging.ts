/** What a signed post, a page, a search and a thousand listeners cost. */
import { fork, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { embeddedFamilies } from '../src/backends/embedded/families.js';
import { type EmbeddedMessaging, openEmbeddedMessaging } from '../src/backends/embedded/messaging.js';
import { postMessage } from '../src/backends/embedded/messaging-rooms.js';
import { aicqSignedText, sign, signingKeysOf } from '../src/identity/signatures.js';
import { type Kernel, openKernel } from '../src/kernel/kernel.js';
import { limitDefinitions, limitsWith } from '../src/limits.js';
import { limitVariableOf } from '../src/settings.js';
import { globalRoomId } from '../src/messaging/uuid.js';
import { type Bench, type Row, byTurns, rateInFlight } from './frame.js';
import { Listener, load } from './messaging-load.js';

const connections = 64;
const roundMs = 2_500;
const turns = 5;
const few = 10_000;
const many = Number(process.env['BENCH_MESSAGES'] ?? 1_000_000);

export const messagingBench: Bench = {
  name: 'messaging',
  run: async (directory) => [...(await httpRows(directory)), ...(await sizeRows(directory))],
};

async function httpRows(directory: string): Promise<Row[]> {
  const data = join(directory, 'server');
  await rm(data, { recursive: true, force: true });
  const keys = signingKeysOf(randomBytes(32));
  const publicKey = keys.publicKey.toString('base64');
  const stoa = await serveStoa(data);
  const registered = await fetch(`${stoa.url}/register`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ public_key: publicKey }) });
  const { id } = (await registered.json()) as { id: string };
  const post = (url: string): string => {
    const body = JSON.stringify({ body: 'A message of the usual length, with a dozen words that go into the index.' });
    const nonce = randomBytes(16).toString('hex');
    const timestamp = String(Date.now());
    const signature = sign(keys.secretKey, aicqSignedText(Buffer.from(body), nonce, timestamp)).toString('base64');
    return `POST /room/global HTTP/1.1\r\nHost: ${new URL(url).host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nX-AICQ-Agent: ${id}\r\nX-AICQ-Nonce: ${nonce}\r\nX-AICQ-Timestamp: ${timestamp}\r\nX-AICQ-Signature: ${signature}\r\n\r\n${body}`;
  };
  // Signing takes as long as verifying: requests are made before the clock runs.
  const posting = async (url: string): Promise<number> => {
    const ready = Array.from({ length: 15_000 }, () => post(url));
    const { perSecond, statuses } = await load(url, connections, roundMs, () => ready.pop());
    if ([...statuses.keys()].some((status) => status !== 201)) throw new Error(`Posting answered ${JSON.stringify([...statuses])}.`);
    return perSecond;
  };
  // Until the code is warm, a server with more of it looks slower than it is.
  for (let warm = 0; warm < 3; warm += 1) await posting(stoa.url);
  const page = await (await fetch(`${stoa.url}/room/global`)).text();
  const bare = await serveBare(publicKey, page);
  const posts = await byTurns(turns, () => posting(stoa.url), () => posting(bare.url));
  const reads = await byTurns(turns, () => reading(stoa.url), () => reading(bare.url));
  const listeners = await listenerRows(stoa.url, post);
  stoa.end();
  bare.end();
  return [
    { what: 'signed POST /room/{id} / bare Fastify that verifies one signature', ...posts, unit: '/s', target: { atLeast: 0.5 } },
    { what: 'GET /room/{id}, newest 50 / bare Fastify with the same bytes', ...reads, unit: '/s', target: { atLeast: 0.4 } },
    ...listeners,
  ];
}

async function reading(url: string): Promise<number> {
  const request = `GET /room/global HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;
  return (await load(url, connections, roundMs, () => request)).perSecond;
}

/** Every one of a thousand readers gets every post; the time is from the answer to the post's own sender. */
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
  while (listeners.some(({ seen }) => seen.length < posts) && performance.now() < deadlineMs) await new Promise((resolve) => setTimeout(resolve, 20));
  const missed = listeners.reduce((sum, { seen }) => sum + posts - seen.length, 0);
  const delays = listeners.flatMap(({ seen }) => seen.map(({ atMs }, index) => atMs - (sentMs[index] as number))).toSorted((a, b) => a - b);
  for (const { socket } of listeners) socket.destroy();
  return [
    { what: 'a post reaches 1,000 readers of a room, p99 / 250 ms', ours: delays[Math.floor(delays.length * 0.99)] ?? Infinity, reference: 250, unit: 'ms', target: { atMost: 1 } },
    { what: 'deliveries that 1,000 readers missed / none', ours: missed + 1, reference: 1, unit: '', target: { atMost: 1 } },
  ];
}

interface Served {
  url: string;
  end(): void;
}

const program = join(process.cwd(), 'bundle', 'main.js');

/** The program as it ships, with its rate limits out of the way. */
async function serveStoa(data: string): Promise<Served> {
  const rates = Object.keys(limitDefinitions).filter((name) => /Per(Minute|Hour)Max$/.test(name) || name === 'messageClockAheadSecondsMax');
  const environment = Object.fromEntries(rates.map((name) => [limitVariableOf(name), '1000000000000']));
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const child = spawn(process.execPath, [program, 'up', '--data', data, '--port', String(port)], { stdio: 'ignore', env: { ...process.env, ...environment, STOA_RATE_LIMIT_ALLOW: '127.0.0.1' } });
  const url = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${url}/livez`).then(({ ok }) => ok, () => false))) {
    if (child.exitCode !== null) throw new Error(`"stoa up" ended with ${child.exitCode}.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { url, end: () => child.kill('SIGTERM') };
}

async function serveBare(publicKey: string, body: string): Promise<Served> {
  const child = fork(fileURLToPath(new URL('messaging-server.js', import.meta.url)), [publicKey, body]);
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  return { url, end: () => child.disconnect() };
}

interface MessageSet {
  kernel: Kernel;
  port: EmbeddedMessaging;
  agent: string;
}

function search({ port }: MessageSet, words: readonly string[]): Promise<number> {
  return rateInFlight(1, () => port.search({ words, roomId: null, afterMs: 0, limit: 20 }), 800);
}

function post({ port, agent }: MessageSet): Promise<number> {
  return rateInFlight(64, () => port.post({ roomId: globalRoomId, from: agent, body: textOf(Math.floor(Math.random() * many)), parentId: null, proof: null, serverSigned: false }), 800);
}

async function sizeRows(directory: string): Promise<Row[]> {
  const large = await openFilled(join(directory, `messages-${many}`), many);
  const small = await openFilled(join(directory, `messages-${few}`), few);
  await rm(join(directory, 'empty'), { recursive: true, force: true });
  const empty = await openFilled(join(directory, 'empty'), 0);
  const full = await byTurns(turns, () => search(large, ['common', 'often']), () => search(small, ['common', 'often']));
  const rare = await search(large, ['odd', 'even']);
  const posts = await byTurns(turns, () => post(large), () => post(empty));
  const bytes = (await stat(join(directory, `messages-${many}`, 'shard-00', 'db', 'data.mdb')).catch(() => undefined))?.size ?? 0;
  const heapBytes = process.memoryUsage().rss;
  for (const { kernel, port } of [large, small, empty]) {
    await port.close();
    await kernel.close();
  }
  return [
    { what: 'search for two words with a full page, cost at 1M messages / 10k', ours: 1e6 / full.ours, reference: 1e6 / full.reference, unit: 'µs', target: { atMost: 1.3 } },
    { what: 'searches a second at 1M messages / 1,000', ours: full.ours, reference: 1_000, unit: '/s', target: { atLeast: 1 } },
    { what: 'search whose words never meet, at its bound / 1 s', ours: 1_000 / rare, reference: 1_000, unit: 'ms', target: { atMost: 1 } },
    { what: 'posting, cost with 1M messages stored / empty', ours: 1e6 / posts.ours, reference: 1e6 / posts.reference, unit: 'µs', target: { atMost: 1.2 } },
    { what: 'bytes on disk a message / 4 KiB', ours: bytes / many, reference: 4_096, unit: 'B', target: { atMost: 1 } },
    { what: 'memory of the process with 1M messages / 1 GiB', ours: heapBytes / 2 ** 20, reference: 1_024, unit: 'MiB', target: { atMost: 1 } },
  ];
}

/** Two words that are often together, two that never are, and some that vary. */
function textOf(index: number): string {
  return `common ${index % 2 === 0 ? 'even' : 'odd'} ${index % 3 === 0 ? 'often' : 'seldom'} word${index % 5_000} topic${index % 97} and number ${index}`;
}

async function openFilled(dataDir: string, count: number): Promise<MessageSet> {
  // What is stored for the bench must not expire between its runs.
  const limits = limitsWith({ messageRetentionSeconds: 1e9, messageBytesPerMinuteMax: 1e15, messageClockAheadSecondsMax: 1e9, feedBytesMax: 1 << 24, redoBytesMax: 1 << 24 });
  const kernel = await openKernel({ dataDir, engine: 'lmdb', families: embeddedFamilies, limits });
  const port = await openEmbeddedMessaging(kernel);
  const publicKey = signingKeysOf(Buffer.alloc(32, 7)).publicKey.toString('base64');
  const { identity } = await port.register({ publicKey, name: 'bench', email: null, proven: true });
  const mark = `${dataDir}.filled`;
  if (!existsSync(mark) && count > 0) {
    const perTransaction = 500;
    for (let first = 0; first < count; first += perTransaction) {
      await kernel.root.transact((tx) => {
        for (let index = first; index < first + perTransaction; index += 1) postMessage(tx, limits, { roomId: globalRoomId, from: identity.id, body: textOf(index), parentId: null, proof: null, serverSigned: false });
      });
      if (first % 50_000 === 0) await kernel.trim();
    }
    await writeFile(mark, '');
  }
  return { kernel, port, agent: identity.id };
}
