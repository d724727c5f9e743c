/** CouchDB for the tests: express-pouchdb with what it lacks, an emulator, or the server in COUCHDB_URL. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import expressPouchdb from 'express-pouchdb';
import memory from 'pouchdb-adapter-memory';
import PouchDB from 'pouchdb-core';
import mapReduce from 'pouchdb-mapreduce';
import type { TestServer } from './child.js';

/** CouchDB answers so many documents to a `_find` without a limit; PouchDB answers all. */
const findLimitDefault = 25;
/** With each write of a document PouchDB goes through all its revisions; CouchDB keeps a thousand. */
const revisionsKept = 20;
const plainFind = 'stoa-plain-find';

export async function start(): Promise<TestServer> {
  const given = process.env['COUCHDB_URL'];
  if (given !== undefined && given !== '') return { url: given, describe: `CouchDB at ${given} (given)`, stop: async () => undefined };
  const databases = PouchDB.plugin(memory).plugin(mapReduce).defaults({ adapter: 'memory', revs_limit: revisionsKept });
  const app = expressPouchdb(databases, { mode: 'minimumForPouchDB', overrideMode: { include: ['routes/find'] } });
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? '';
    if (path === '/_up') sendJson(response, 200, { status: 'ok', seeds: {} });
    else if (request.method === 'POST' && /^\/[^/]+\/_find$/.test(path) && request.headers[plainFind] === undefined) {
      findWithBookmark(request, response).catch((error: unknown) => sendJson(response, 500, { error: 'shim', reason: String(error) }));
    } else app(request, response);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const { port } = server.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  return {
    url: `http://127.0.0.1:${port}`,
    describe: 'CouchDB emulator (express-pouchdb)',
    stop: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)));
        server.closeAllConnections();
      }),
  };
}

/**
 * CouchDB pages a `_find` by bookmark, PouchDB only by skip: the bookmark here is the number of
 * documents already given. As in CouchDB, the last page has a bookmark too. The query goes once
 * more through this server, marked, so that the answer can be completed.
 */
async function findWithBookmark(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const query = await readJson(request);
  if (query === undefined) {
    sendJson(response, 400, { error: 'bad_request', reason: 'invalid UTF-8 JSON' });
    return;
  }
  const { bookmark, limit = findLimitDefault, skip: asked = 0, ...rest } = query;
  const given = typeof bookmark === 'string' && bookmark !== 'nil' ? bookmark : undefined;
  const skip = given === undefined ? Number(asked) : Number(Buffer.from(given, 'base64url').toString() || NaN);
  if (!Number.isSafeInteger(skip)) {
    sendJson(response, 400, { error: 'invalid_bookmark', reason: `Invalid bookmark value: ${JSON.stringify(bookmark)}` });
    return;
  }
  const find = () =>
    fetch(`http://${request.headers.host}${request.url}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', [plainFind]: '1' },
      body: JSON.stringify({ ...rest, selector: withInclusiveStarts(rest['selector']), limit, skip }),
    });
  let answer = await find();
  let body = (await answer.json()) as { docs?: unknown[]; reason?: string };
  // PouchDB stumbles over a document that is deleted between its look into the index and its look at the document.
  for (let attempts = 0; attempts < 20 && answer.status === 400 && body.reason?.includes('of undefined (reading') === true; attempts += 1) {
    answer = await find();
    body = (await answer.json()) as { docs?: unknown[]; reason?: string };
  }
  const next = body.docs === undefined ? {} : { bookmark: Buffer.from(String(skip + body.docs.length)).toString('base64url') };
  sendJson(response, answer.status, { ...body, ...next });
}

/**
 * PouchDB takes an exclusive start off the page after it has counted the page's documents, so that
 * pages come short. After a text, the next possible one is the text with a zero character.
 */
function withInclusiveStarts(selector: unknown): unknown {
  if (typeof selector !== 'object' || selector === null || Array.isArray(selector)) return selector;
  const fields = Object.entries(selector).map(([name, value]) => (name === '$gt' && typeof value === 'string' ? ['$gte', `${value}\0`] : [name, withInclusiveStarts(value)]));
  return Object.fromEntries(fields) as unknown;
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown> | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  try {
    return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}
