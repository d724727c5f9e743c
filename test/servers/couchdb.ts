/** CouchDB for the tests: express-pouchdb with what it lacks, an emulator, or the server in COUCHDB_URL. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { callbackify, promisify } from 'node:util';
import expressPouchdb, { type FindQuery, type FoundPage } from 'express-pouchdb';
import memory from 'pouchdb-adapter-memory';
import PouchDB from 'pouchdb-core';
// The one for browsers reads the functions of a view once, where the other makes a virtual machine for each document.
import mapReduce from 'pouchdb-mapreduce/lib/index-browser.js';
import type { TestServer } from './child.js';

/** CouchDB answers so many documents to a `_find` without a limit; PouchDB answers all. */
const findLimitDefault = 25;
/** With each write of a document PouchDB goes through all its revisions; CouchDB keeps a thousand. */
const revisionsKept = 20;

export async function start(): Promise<TestServer> {
  const given = process.env['COUCHDB_URL'];
  if (given !== undefined && given !== '')
    return { url: given, describe: `CouchDB at ${given} (given)`, stop: async () => undefined };
  const databases = PouchDB.plugin(memory)
    .plugin(mapReduce)
    .defaults({ adapter: 'memory', revs_limit: revisionsKept });
  const app = expressPouchdb(databases, {
    mode: 'minimumForPouchDB',
    overrideMode: { include: ['routes/find'], exclude: ['compression'] },
  });
  app.dbWrapper.registerWrapper((_name, database, next) => {
    const find = promisify(database.find.bind(database));
    database.find = callbackify((query: FindQuery) => findWithBookmark(find, query));
    return next();
  });
  const server = createServer((request, response) => {
    if (request.url === '/_up')
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"status":"ok","seeds":{}}');
    else app(request, response);
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
 * documents already given. As in CouchDB, the last page has a bookmark too.
 */
async function findWithBookmark(
  find: (query: FindQuery) => Promise<FoundPage>,
  query: FindQuery,
): Promise<FoundPage> {
  const { bookmark, limit = findLimitDefault, skip: asked = 0, ...rest } = query;
  const given = typeof bookmark === 'string' && bookmark !== 'nil' ? bookmark : undefined;
  const skip =
    given === undefined ? Number(asked) : Number(Buffer.from(given, 'base64url').toString() || NaN);
  if (!Number.isSafeInteger(skip))
    throw Object.assign(new Error(`Invalid bookmark value: ${JSON.stringify(bookmark)}`), {
      name: 'invalid_bookmark',
      status: 400,
    });
  const page = { ...rest, selector: withInclusiveStarts(rest['selector']), limit, skip };
  for (let attempts = 0; ; attempts += 1) {
    try {
      const answer = await find(page);
      return { ...answer, bookmark: Buffer.from(String(skip + answer.docs.length)).toString('base64url') };
    } catch (error) {
      // PouchDB stumbles over a document that is deleted between its look into the index and its look at the document.
      if (attempts === 20 || !(error instanceof Error && error.message.includes('of undefined (reading')))
        throw error;
    }
  }
}

/**
 * PouchDB takes an exclusive start off the page after it has counted the page's documents, so that
 * pages come short. After a text, the next possible one is the text with a zero character.
 */
function withInclusiveStarts(selector: unknown): unknown {
  if (typeof selector !== 'object' || selector === null || Array.isArray(selector)) return selector;
  const fields = Object.entries(selector).map(([name, value]) =>
    name === '$gt' && typeof value === 'string' ? ['$gte', `${value}\0`] : [name, withInclusiveStarts(value)],
  );
  return Object.fromEntries(fields) as unknown;
}
