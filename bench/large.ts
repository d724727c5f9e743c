/**
 * Long work on a server in use: an import, a full backup, and the doctor. Targets are times for a document, which
 * hold for any number of documents: 20,000, or a million with `--large`. While the work runs, `/livez` and a
 * document are read without a pause; the longest wait is a row too.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bench, type Row, isLarge } from './frame.js';
import type { Measured } from './http-load.js';
import { type Served, withStore } from './store-server.js';

const documents = Number(process.env['BENCH_DOCUMENTS'] ?? (isLarge ? 1_000_000 : 20_000));
const namespaces = 50;
const wordCount = 20_000;
/** Allowed for 200,000 documents imported, and a million examined or copied: 30 s, 120 s and 20 s. */
const allowedUs = { import: 150, doctor: 120, backup: 20 };
const waitMsMax = 100;
/** Of a second. A process that uses less has nothing to do. */
const idleUsMax = 50_000;

export const largeBench: Bench = {
  name: 'large',
  run: () =>
    withStore(async (server) => {
      const directory = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
      try {
        const file = join(directory, 'documents.jsonl');
        await pipeline(Readable.from(lines()), createWriteStream(file));
        await ask(server, 'PUT', '/v1/data/waiting/one', { value: 'read while the work runs' });
        const imported = await rowsOf(server, 'import', () => importFile(server, file));
        await untilIdle(server);
        return [
          ...imported,
          ...(await rowsOf(server, 'backup', () =>
            ask(server, 'POST', '/v1/backups', { directory: join(directory, 'backups'), kind: 'full' }),
          )),
          ...(await rowsOf(server, 'doctor', () => ask(server, 'POST', '/v1/doctor', { repair: false }))),
        ];
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    }),
};

const names: Readonly<Record<keyof typeof allowedUs, string>> = {
  import: 'import of documents from a file',
  backup: 'full backup during use',
  doctor: 'doctor during use',
};

async function rowsOf(
  server: Served & Measured,
  work: keyof typeof allowedUs,
  run: () => Promise<unknown>,
): Promise<Row[]> {
  const waits = new Waits(server);
  const startedUs = await server.cpuUs();
  const startedMs = performance.now();
  const running = run().finally(() => waits.stop());
  const [longestMs] = await Promise.all([waits.longestMs(), running]);
  const passedMs = performance.now() - startedMs;
  const cpuSeconds = ((await server.cpuUs()) - startedUs) / 1e6;
  const seconds = `${(passedMs / 1_000).toFixed(1)} s, ${cpuSeconds.toFixed(1)} s of processor time`;
  const about = `${names[work]}, ${documents.toLocaleString('en')} documents (${seconds})`;
  return [
    {
      what: `${about}, time for a document / allowed`,
      ours: (passedMs * 1_000) / documents,
      reference: allowedUs[work],
      unit: 'µs',
      target: { atMost: 1 },
    },
    {
      what: `${about}, longest wait of another request / allowed`,
      ours: longestMs,
      reference: waitMsMax,
      unit: 'ms',
      target: { atMost: 1 },
    },
  ];
}

/** How long others wait meanwhile. */
class Waits {
  readonly #server: Served;
  #isOver = false;

  constructor(server: Served) {
    this.#server = server;
  }

  stop(): void {
    this.#isOver = true;
  }

  async longestMs(): Promise<number> {
    let longestMs = 0;
    while (!this.#isOver) {
      for (const path of ['/livez', '/v1/data/waiting/one']) {
        const startedMs = performance.now();
        await ask(this.#server, 'GET', path);
        longestMs = Math.max(longestMs, performance.now() - startedMs);
      }
      await sleep(5);
    }
    return longestMs;
  }
}

/** Words are filed for the search after the import. */
async function untilIdle({ cpuUs }: Measured): Promise<void> {
  for (let usedUs = Infinity; usedUs > idleUsMax;) {
    const beforeUs = await cpuUs();
    await sleep(1_000);
    usedUs = (await cpuUs()) - beforeUs;
  }
}

async function importFile({ url, operatorToken }: Served, file: string): Promise<void> {
  const response = await fetch(`${url}/v1/documents/lines`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/x-ndjson' },
    // Both are streams of bytes of the web; the types of Node have two of them.
    body: Readable.toWeb(createReadStream(file)) as unknown as ReadableStream,
    duplex: 'half',
  } as RequestInit);
  const answer = (await response.json()) as { imported?: number };
  if (answer.imported !== documents)
    throw new Error(`The import answered ${response.status}: ${JSON.stringify(answer)}`);
}

async function ask(
  { url, operatorToken }: Served,
  method: string,
  path: string,
  body?: object,
): Promise<void> {
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${operatorToken}`,
      'stoa-user': 'alice',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
}

/** About a kilobyte of words each, most of them rare, of ten users. */
function* lines(): Generator<string> {
  const at = new Date().toISOString();
  for (let index = 0; index < documents; index += 1) {
    const words = Array.from({ length: 100 }, () => word(Math.floor(wordCount * Math.random() ** 2)));
    yield `${JSON.stringify({
      userId: `user-${index % 10}`,
      namespace: `namespace-${index % namespaces}`,
      key: `documents/${String(index).padStart(7, '0')}`,
      value: { title: `result ${index}`, text: words.join(' ') },
      version: 1,
      createdAt: at,
      updatedAt: at,
    })}\n`;
  }
}

const syllables = [
  'ka',
  'to',
  'mi',
  'ren',
  'sul',
  'da',
  'vo',
  'pe',
  'lin',
  'gar',
  'shu',
  'ne',
  'bo',
  'ti',
  'mar',
];

/** A word of letters. With digits in it, the search would index its parts too. */
function word(number: number): string {
  const base = syllables.length;
  return number < base
    ? (syllables[number] as string)
    : word(Math.floor(number / base)) + (syllables[number % base] as string);
}
