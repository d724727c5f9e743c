/**
 * The servers of `http.ts`, each in its own process: Stoa with some data, and a bare Fastify that answers the
 * same.
 */
import Fastify from 'fastify';
import { operatorCaller } from '../src/core/caller.js';
import { openStoa } from '../src/index.js';
import { createApp } from '../src/server/app.js';
import { settleProcess } from '../src/server/process-settings.js';
import { serve } from './child-server.js';
import { fileWords } from './file-words.js';

/** What the load needs to know of a server. */
export interface Served {
  url: string;
  token: string;
  agentIds: string[];
  /** What each route answers, as JSON. */
  answers: { agent: string; document: string; written: string };
}

/** More than any cache of records holds. */
const agents = 10_000;
export const documents = 10_000;
const inFlight = 64;
export const documentPath = (index: number): string => `/v1/data/bench/key-${index}`;

/**
 * About a kilobyte, as a small result of an agent is. Each number gives other text: the words of a document that is
 * written again with the same text are not filed again.
 */
export function documentValue(number: number): object {
  return { title: `result ${number}`, score: 0.75, text: 'x'.repeat(960) };
}
export const documentBody = (number: number): string => JSON.stringify({ value: documentValue(number) });

const [, , kind, argument = ''] = process.argv;
if (kind === 'stoa' || kind === 'bare') {
  if (kind === 'stoa') await serveStoa(argument);
  else serve(await serveBare(JSON.parse(argument) as Served));
}

async function serveStoa(data: string): Promise<void> {
  settleProcess();
  const stoa = await openStoa({ data, limits: { agentsPerUserMax: agents } });
  const caller = operatorCaller('alice');
  const agentIds: string[] = [];
  await eachOf(agents, async (index) => {
    const { agent_id: id } = await stoa.registry.createAgent(caller, {
      name: `agent-${index}`,
      labels: { team: 'a' },
    });
    agentIds.push(id);
  });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'alice', {}, null);
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  const authorization = `Bearer ${token}`;
  const ask = async (path: string, init: RequestInit = {}) =>
    (
      await fetch(url + path, { ...init, headers: { authorization, 'content-type': 'application/json' } })
    ).text();
  const put = (index: number) => ask(documentPath(index), { method: 'PUT', body: documentBody(index) });
  await eachOf(documents, put);
  const served: Served = {
    url,
    token,
    agentIds,
    answers: {
      agent: await ask(`/v1/agents/${agentIds[0]}`),
      document: await ask(documentPath(0)),
      written: await put(0),
    },
  };
  serve(served, () => fileWords(stoa));
}

/** Does the work for each number below `count`, some at a time. */
async function eachOf(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const line = async () => {
    while (next < count) {
      next += 1;
      await work(next - 1);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, line));
}

/** Fastify as its guide shows it: it parses what comes in and makes JSON of what goes out. */
async function serveBare(stoa: Served): Promise<Served> {
  const app = Fastify();
  const answers = {
    agent: JSON.parse(stoa.answers.agent) as unknown,
    document: JSON.parse(stoa.answers.document) as unknown,
    written: JSON.parse(stoa.answers.written) as unknown,
  };
  app.get('/v1/agents/:id', () => answers.agent);
  app.get('/v1/data/:ns/:key', () => answers.document);
  app.put('/v1/data/:ns/:key', (request) =>
    (request.body as { value?: unknown }).value === undefined ? {} : answers.written,
  );
  return { ...stoa, url: await app.listen({ port: 0, host: '127.0.0.1' }) };
}
