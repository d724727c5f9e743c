/**
 * The servers of `tasks-http.ts`, each in its own process: Stoa with tasks that wait, and a bare Fastify that
 * answers the same.
 */
import { fastify } from 'fastify';
import { operatorCaller } from '../src/core/caller.js';
import { openStoa } from '../src/index.js';
import { createApp } from '../src/server/app.js';
import { settleProcess } from '../src/server/process-settings.js';
import { serve } from './child-server.js';
import { fileWords } from './file-words.js';
import { close, openFilled, owner } from './tasks-set.js';

/** More than can be claimed while it is measured. */
const tasks = 250_000;

/** What the load needs to know of a server. */
export interface Served {
  url: string;
  path: string;
  token: string;
  body: string;
}

const [, , kind, argument = ''] = process.argv;
if (kind === 'stoa') await serveStoa(argument);
else if (kind === 'bare') serve(await serveBare(JSON.parse(argument) as Served));

async function serveStoa(data: string): Promise<void> {
  const set = await openFilled(data, 'lmdb', tasks);
  const path = `/v1/projects/${set.projectId}/tasks/claim`;
  await close(set);
  settleProcess();
  const stoa = await openStoa({ data });
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  const { token } = await stoa.identity.createToken(operatorCaller(), owner, {}, null);
  const answer = await fetch(url + path, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  const served: Served = { url, path, token, body: await answer.text() };
  serve(served, () => fileWords(stoa));
}

async function serveBare(stoa: Served): Promise<Served> {
  const app = fastify();
  // It makes the JSON for each answer, as a route with a changing answer does.
  const answer: unknown = JSON.parse(stoa.body);
  app.post(stoa.path, () => answer);
  return { ...stoa, url: await app.listen({ port: 0, host: '127.0.0.1' }) };
}
