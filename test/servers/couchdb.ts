/** CouchDB for the tests: express-pouchdb with what it lacks, an emulator, or the server in COUCHDB_URL. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { callbackify, promisify } from 'node:util';
import expressPouchdb, { type Database, type FindQuery, type FoundPage, type Index } from 'express-pouchdb';
import memory from 'pouchdb-adapter-memory';
import PouchDB from 'pouchdb-core';
// The one for browsers reads the functions of a view once, where the other makes a virtual machine for each
// document.
import mapReduce from 'pouchdb-mapreduce/lib/index-browser.js';
import type { TestServer } from './child.js';

/** CouchDB answers so many documents to a `_find` without a limit; PouchDB answers all. */
const findLimitDefault = 25;
/** With each write of a document PouchDB goes through all its revisions; CouchDB keeps a thousand. */
const revisionsKept = 20;
/** Every CouchDB 3 has an administrator, and refuses strangers. */
const administrator = { name: 'admin', password: 'p@ss/word' };

export async function start(): Promise<TestServer> {
  const given = process.env['COUCHDB_URL'];
  if (given !== undefined && given !== '')
    return { url: given, describe: `CouchDB at ${new URL(given).host} (given)`, stop: async () => undefined };
  const databases = PouchDB.plugin(memory)
    .plugin(mapReduce)
    .defaults({ adapter: 'memory', revs_limit: revisionsKept });
  const app = expressPouchdb(databases, {
    mode: 'minimumForPouchDB',
    overrideMode: { include: ['routes/find'], exclude: ['compression'] },
  });
  app.dbWrapper.registerWrapper((_name, database, next) => {
    behaveLikeCouchdb(database);
    return next();
  });
  const { name, password } = administrator;
  const authorization = `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
    };
    if (request.url === '/_up') answer(200, { status: 'ok', seeds: {} });
    else if (request.headers.authorization !== authorization)
      answer(401, { error: 'unauthorized', reason: 'You are not authorized to access this db.' });
    else app(request, response);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve());
  });
  const { port } = server.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  return {
    url: `http://${name}:${encodeURIComponent(password)}@127.0.0.1:${port}`,
    describe: 'CouchDB emulator (express-pouchdb)',
    stop: () =>
      new Promise((resolve, reject) => {
        server.close((error) => (error === undefined ? resolve() : reject(error)));
        server.closeAllConnections();
      }),
  };
}

function behaveLikeCouchdb(database: Database): void {
  const find = promisify(database.find.bind(database));
  const explain = promisify(database.explain.bind(database));
  const createIndex = promisify(database.createIndex.bind(database));
  const bulkDocs = database.bulkDocs.bind(database);
  database.find = callbackify(async (query: FindQuery) => {
    const { execution_stats: isCounted, ...rest } = query;
    const page = await findWithBookmark(find, rest);
    if (isCounted !== true) return page;
    const examined = await examinedBy(find, rest, (await explain({ ...rest })).index, page);
    return { ...page, execution_stats: { total_docs_examined: examined } };
  });
  database.createIndex = callbackify(async (request: { index: Index; name?: string; ddoc?: string }) => {
    await prepareUpdate(database, request);
    return createIndex(request);
  });
  database.bulkDocs = (request, options, done) =>
    bulkDocs({ ...request, docs: request.docs.map(withoutSmallest) }, options, done);
}

/** PouchDB fills an index with the documents of its filter only where the design document already says so. */
async function prepareUpdate(
  database: Database,
  { index, name, ddoc }: { index: Index; name?: string; ddoc?: string },
): Promise<void> {
  const { partial_filter_selector } = index;
  if (partial_filter_selector === undefined) return;
  if (name === undefined || ddoc === undefined)
    throw new Error('The emulator needs the names of an index that has a filter.');
  const fields = Object.fromEntries(index.fields.map((field) => [String(field), 'asc']));
  const view = { map: { fields, partial_filter_selector }, reduce: '_count', options: { def: index } };
  try {
    await database.put({ _id: `_design/${ddoc}`, language: 'query', views: { [name]: view } });
  } catch (error) {
    if (!(error instanceof Error && 'status' in error && error.status === 409)) throw error;
  }
}

/** CouchDB reads the smallest numbers, those below 2.3e-308, as 0. */
function withoutSmallest<T>(document: T): T {
  return JSON.parse(JSON.stringify(document), (_name, value: unknown) =>
    typeof value === 'number' && Math.abs(value) < 2 ** -1022 ? 0 : value,
  ) as T;
}

/** The documents that CouchDB would look at: those in the index's range, up to the last one of the page. */
async function examinedBy(
  find: (query: FindQuery) => Promise<FoundPage>,
  { selector, use_index: useIndex, limit }: FindQuery,
  index: { def: Index },
  page: FoundPage,
): Promise<number> {
  const indexed = index.def.fields.map((field) =>
    typeof field === 'string' ? field : Object.keys(field)[0],
  );
  const range = Object.entries(selector as object).filter(([name]) => indexed.includes(name));
  const { docs } = await find({ selector: Object.fromEntries(range), use_index: useIndex });
  const last = page.docs.at(-1)?._id;
  return page.docs.length < Number(limit ?? findLimitDefault)
    ? docs.length
    : docs.findIndex(({ _id }) => _id === last) + 1;
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
      // PouchDB fails if a document is deleted between its read of the index and of the document.
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
