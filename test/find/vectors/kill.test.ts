/** A server that is killed while it embeds, and searches its graphs of vectors, leaves what was acknowledged. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import type { FindPage } from '../../../src/find/answers.js';
import { openStoa } from '../../../src/index.js';
import { useProgram } from '../../cli/program.js';
import { compiledSources } from '../../compiled.js';
import { type EmbedderServer, dimensions, startEmbedder, vectorOf } from '../../servers/embedder.js';
import { until } from '../../until.js';

const program = useProgram();
/** `npm run test:find` kills more often. */
const rounds = Number(process.env['KILL_ROUNDS'] ?? 2);
vi.setConfig({ testTimeout: rounds * 60_000 });
const documents = 240;
const writers = 4;
/** Above so many vectors of a namespace a graph is used. */
const limits = { vectorsExactMax: 160 };
/** Acknowledged writes and deletes before the server is killed. */
const enough = 80;
const ada = operatorCaller('ada');
let embedder: EmbedderServer;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  embedder = await startEmbedder();
});
afterAll(async () => {
  for (const child of running) child.kill('SIGKILL');
  await embedder.stop();
});

/** A text that a key had before. */
interface Replaced {
  readonly key: string;
  readonly text: string;
}

/** What is stored under each key; null after a delete. A key whose last write was not answered has both. */
type Expected = Map<string, (string | null)[]>;

const ask = async (
  { url, token }: Server,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; json: unknown }> => {
  const answer = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'stoa-user': 'ada',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok && answer.status !== 404) throw new Error(`${method} ${path}: ${text}`);
  return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) };
};

const near = async (server: Server, q: string): Promise<FindPage> => {
  const { json } = await ask(server, 'POST', '/v1/find', { q, mode: 'vector', namespace: 'many', limit: 5 });
  return json as FindPage; // The schema of the operation says so.
};

/** Each text has words of its own. */
class Texts {
  count = 0;
  next(): string {
    this.count += 1;
    return `walrus${this.count} swims${this.count * 7} north`;
  }
}
const texts = new Texts();

interface Server {
  readonly url: string;
  readonly token: string;
  kill(): Promise<void>;
}

/** The program cannot set these limits, a program that embeds Stoa can. */
const serving = `
  const [sources, data, embedder, dimensions, limits] = process.argv.slice(1);
  const { openStoa } = await import(sources + '/index.js');
  const { createApp } = await import(sources + '/server/app.js');
  const { httpEmbedder } = await import(sources + '/find/vectors/http-embedder.js');
  const { limitsWith } = await import(sources + '/core/settings/limits.js');
  const given = JSON.parse(limits);
  const stoa = await openStoa({
    data,
    limits: given,
    sweepIntervalMs: 20,
    embedder: httpEmbedder({
      url: embedder, model: 'test', dimensions: Number(dimensions), token: null, limits: limitsWith(given),
    }),
  });
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  process.stdout.write(JSON.stringify({ url, token: stoa.operatorToken }) + '\\n');
`;

async function serve(data: string): Promise<Server> {
  const args = [await compiledSources(), data, embedder.url, String(dimensions), JSON.stringify(limits)];
  const child = spawn(process.execPath, ['--input-type=module', '-e', serving, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return {
    ...(JSON.parse(line) as { url: string; token: string }),
    kill: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Writes until the server is gone. Each writer has its own keys. */
async function write(server: Server, writer: number, stored: Expected, replaced: Replaced[]): Promise<void> {
  for (let step = 0; ; step += 1) {
    const key = `key-${writer + writers * (step % (documents / writers))}`;
    const next = step % 5 === 4 ? null : texts.next();
    const before = stored.get(key)?.at(-1);
    if (typeof before === 'string') replaced.push({ key, text: before });
    stored.set(key, [...(stored.get(key) ?? []).slice(-1), next]);
    try {
      if (next === null) await ask(server, 'DELETE', `/v1/data/many/${key}`);
      else await ask(server, 'PUT', `/v1/data/many/${key}`, { value: { text: next } });
    } catch (error) {
      if (error instanceof TypeError) return;
      throw error;
    }
    stored.set(key, [next]);
  }
}

const statusOf = async (server: Server): Promise<{ waiting: number }> => {
  const { json } = await ask(server, 'GET', '/v1/status');
  return (json as { embedding: { waiting: number } }).embedding;
};

test('after a kill the doctor finds nothing, and searches find every document by its newest text', async () => {
  const data = program.path('kill-graph');
  const stored: Expected = new Map();
  for (let round = 0; round < rounds; round += 1) {
    const server = await serve(data);
    await ask(server, 'PATCH', '/v1/namespaces/many', { embed: true, embed_fields: ['text'] });
    const set: Record<string, { text: string }> = {};
    for (let at = 0; at < documents; at += 1) {
      const text = texts.next();
      set[`key-${at}`] = { text };
      stored.set(`key-${at}`, [text]);
    }
    await ask(server, 'POST', '/v1/data/many', { set });
    await until(async () => (await statusOf(server)).waiting === 0);
    // One list has all vectors, so only a search in a graph leaves some out.
    await until(async () => !(await near(server, 'walrus')).examined_all);
    const last = texts.count + enough;
    const replaced: Replaced[] = [];
    const working = Array.from({ length: writers }, (_, writer) => write(server, writer, stored, replaced));
    while (texts.count < last) await near(server, `walrus${texts.count}`);
    await server.kill();
    await Promise.all(working);
    const { status, stdout, stderr } = await program.stoa(['doctor', '--data', data, '--json']);
    expect(status, stdout + stderr).toBe(0);
    await expectFound(data, stored, replaced);
  }
});

async function embed(asked: readonly string[]): Promise<number[][]> {
  return asked.map(vectorOf);
}

/** Once the waiting texts are embedded, one by one and then with a graph. */
async function expectFound(data: string, stored: Expected, replaced: readonly Replaced[]): Promise<void> {
  const stoa = await openStoa({
    data,
    limits,
    sweepIntervalMs: 20,
    embedder: { model: 'test', dimensions, embed },
  });
  /** The key whose text is that of the search. */
  const sameAs = async (q: string): Promise<string | undefined> => {
    const page = await stoa.find.find(ada, { q, mode: 'vector', namespace: 'many', limit: 5 });
    return page.items.find(({ score }) => score === 1)?.key;
  };
  const isChosen = async (): Promise<boolean> =>
    !(await stoa.find.find(ada, { q: 'walrus', mode: 'vector', namespace: 'many' })).examined_all;
  try {
    await until(async () => (await stoa.find.port.vectors.backlog()).documents === 0);
    for (const withGraph of [false, true]) {
      if (withGraph) await until(isChosen);
      for (const [key, allowed] of stored) {
        const document = (await stoa.data.get(ada, 'many', key)) as { text: string } | undefined;
        expect(allowed, key).toContain(document?.text ?? null);
        if (document !== undefined) expect(await sameAs(document.text)).toBe(key);
        stored.set(key, [document?.text ?? null]);
      }
      for (const { key, text } of replaced)
        if (!stored.get(key)?.includes(text)) expect(await sameAs(text), text).toBeUndefined();
    }
  } finally {
    await stoa.close();
  }
}
