/** Stored documents in CouchDB: those of Stoa as other programs read them, and the reverse. */
import { dataOver } from '../../datastore/data-over.js';
import { expect, test } from 'vitest';
import { openCouchDataStore } from '../../../src/stores/couchdb/open.js';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { ProxiedCouchdb, callCouchdb, hastyLimits as limits } from './database.js';

const couch = new ProxiedCouchdb();
const caller = operatorCaller('user_123', 'agent');

async function call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  return (await callCouchdb(couch.server, method, path, body)).body;
}

test("another program finds the seed's fields under the seed's id, with the value as JSON", async () => {
  const data = await couch.open('seed_shape');
  await data.set(
    caller,
    'files:my-repo',
    'src/main.py',
    { lines: [1, [2]] },
    { metadata: { language: 'python' } },
  );
  const document = await call(
    'GET',
    `/${couch.database('seed_shape')}/${encodeURIComponent('user_123:files:my-repo:c3JjL21haW4ucHk=')}`,
  );
  expect(document).toMatchObject({
    userId: 'user_123',
    namespace: 'files:my-repo',
    key: 'src/main.py',
    value: { lines: [1, [2]] },
    metadata: { language: 'python' },
    createdByAgent: 'agent',
    accessCount: 0,
  });
  expect((await call('GET', `/${couch.database('seed_shape')}/_index`))['indexes']).toEqual(
    expect.arrayContaining([expect.objectContaining({ name: 'idx-user-namespace' })]),
  );
  await data.close();
});

test('a user id that CouchDB reserves can be stored', async () => {
  const data = await couch.open('odd_ids');
  for (const user of ['_design', '_local/x', '%5Fdesign']) {
    await data.set(operatorCaller(user), 'n', 'k', user);
    expect(await data.getEntry(operatorCaller(user), 'n', 'k')).toMatchObject({
      value: user,
      _id: `${user}:n:aw==`,
    });
  }
  expect((await data.port.exportPage(null, 100)).documents).toHaveLength(3);
  await data.close();
});

test('a document that another program overwrote is read with its new content', async () => {
  const data = await couch.open('shared_writes');
  await data.set(caller, 'n', 'k', 'ours', { metadata: { a: 1 } });
  const path = `/${couch.database('shared_writes')}/${encodeURIComponent('user_123:n:aw==')}`;
  const { _rev } = await call('GET', path);
  await call('PUT', path, {
    _rev,
    userId: 'user_123',
    namespace: 'n',
    key: 'k',
    value: { theirs: true },
    createdAt: '2026-01-01T00:00:00',
    updatedAt: '2026-01-02T00:00:00',
  });
  expect(await data.getEntry(caller, 'n', 'k')).toMatchObject({
    value: { theirs: true },
    metadata: {},
    version: 1,
    updatedAt: '2026-01-02T00:00:00Z',
  });
  await data.set(caller, 'n', 'k', 'again');
  expect((await data.listKeys(caller, 'n')).items).toMatchObject([{ key: 'k', version: 2, sizeBytes: 7 }]);
  await data.close();
});

test("namespaces that CouchDB's collation considers equal are both listed (emulator)", async () => {
  const data = await couch.open('collation');
  const names = ['e\u0301', '\u00e9', 'z'];
  for (const name of names) await data.set(operatorCaller('user_123'), name, 'k', 1);
  // The emulator compares code units; CouchDB finds nothing between two spellings of one letter.
  couch.proxy.intercept = ({ body }) => {
    const { selector } = (body.startsWith('{') ? JSON.parse(body) : {}) as {
      selector?: { namespace?: { $gt?: unknown } };
    };
    return selector?.namespace?.$gt === names[0]
      ? { status: 200, body: { docs: [], bookmark: 'nil' } }
      : undefined;
  };
  expect((await data.listNamespaces(caller)).items.map(({ namespace, count }) => [namespace, count])).toEqual(
    [
      [names[0], 1],
      ['z', 1],
      [names[1], 1],
    ],
  );
  await data.close();
});

test('a list of namespaces makes the same number of requests for many documents as for few', async () => {
  const small = limitsWith({ ...limits, pageItemsMax: 5, clearStepMax: 5 });
  const data = dataOver({
    port: await openCouchDataStore(couch.urlOf('listing'), { limits: small, nowMs: Date.now }),
    limits: small,
  });
  const asked = async (user: string, count: number): Promise<string[]> => {
    for (const namespace of ['n', 'm'])
      await data.setMany(
        operatorCaller(user, 'agent'),
        namespace,
        Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'é'])),
      );
    const targets: string[] = [];
    couch.proxy.intercept = ({ target }) => {
      targets.push(target.split('?')[0] ?? '');
      return undefined;
    };
    expect((await data.listNamespaces(operatorCaller(user))).items).toMatchObject(
      ['m', 'n'].map((namespace) => ({ namespace, count, sizeBytes: count * 4, agents: ['agent'] })),
    );
    couch.proxy.heal();
    return targets;
  };
  const few = await asked('few', 1);
  expect(await asked('many', 30)).toEqual(few);
  await data.close();
});

function putForeign(key: string, fields: Record<string, unknown>): Promise<unknown> {
  const id = `user_123:～:${Buffer.from(key).toString('base64')}`;
  return call('PUT', `/${couch.database('counting')}/${encodeURIComponent(id)}`, {
    userId: 'user_123',
    namespace: '～',
    key,
    createdAt: '2026-01-01T00:00:00',
    ...fields,
  });
}

test('a namespace counts documents of other programs, and none that has expired', async () => {
  let nowMs = Date.parse('2026-03-01T00:00:00Z');
  const data = dataOver({
    port: await openCouchDataStore(couch.urlOf('counting'), { limits, nowMs: () => nowMs }),
    limits,
    nowMs: () => nowMs,
  });
  await putForeign('theirs', {
    value: ['é😀'],
    updatedAt: '2026-02-01T00:00:00.123456',
    createdByAgent: 'python',
  });
  await putForeign('older', { value: 1, updatedAt: '2026-02-01T01:00:00+02:00' });
  await data.set(caller, '😀', 'stays', 'x');
  await data.set(caller, '😀', 'expires', 'yyyy', { ttl: 60 });
  await data.set(caller, 'gone', 'expires', 1, { ttl: 60 });
  const theirs = {
    namespace: '～',
    count: 2,
    sizeBytes: 11,
    updatedAt: '2026-02-01T00:00:00.123456Z',
    agents: ['python'],
  };
  expect((await data.listNamespaces(caller)).items).toEqual([
    { namespace: 'gone', count: 1, sizeBytes: 1, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
    theirs,
    { namespace: '😀', count: 2, sizeBytes: 9, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
  ]);
  nowMs += 60_000;
  const live = [
    theirs,
    { namespace: '😀', count: 1, sizeBytes: 3, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
  ];
  expect((await data.listNamespaces(caller)).items).toEqual(live);
  await data.port.sweepExpired?.(10);
  expect((await data.listNamespaces(caller)).items).toEqual(live);
  expect((await data.port.exportPage(null, 100)).documents.map(({ key }) => key).toSorted()).toEqual([
    'older',
    'stays',
    'theirs',
  ]);
  await data.close();
});

test('an export leaves nothing out when the last document of a page is deleted before the next', async () => {
  const data = await couch.open('export_deleted');
  for (const key of ['a', 'b', 'c', 'd']) await data.set(caller, 'n', key, key);
  const keys: string[] = [];
  let after: string | null = null;
  do {
    const page = await data.port.exportPage(after, 2);
    keys.push(...page.documents.map(({ key }) => key));
    if (page.documents.length > 0) await data.delete(caller, 'n', keys.at(-1) ?? '');
    after = page.after;
  } while (after !== null);
  expect(keys).toEqual(['a', 'b', 'c', 'd']);
  await data.close();
});

test('many documents of another program are indexed a few at a time', async () => {
  const data = await couch.open('many_foreign');
  const documents = Array.from({ length: 120 }, (_, index) => {
    const key = `k${String(index).padStart(3, '0')}`;
    return {
      _id: `user_123:n:${Buffer.from(key).toString('base64')}`,
      userId: 'user_123',
      namespace: 'n',
      key,
      value: index,
      createdAt: '2026-01-01T00:00:00',
      updatedAt: '2026-01-01T00:00:00',
    };
  });
  await call('POST', `/${couch.database('many_foreign')}/_bulk_docs`, { docs: documents });
  const written: number[] = [];
  couch.proxy.intercept = ({ target, body }) => {
    if (target === `/${couch.database('many_foreign')}/_bulk_docs`)
      written.push((JSON.parse(body) as { docs: unknown[] }).docs.length);
    return undefined;
  };
  expect((await data.listKeys(caller, 'n', { limit: 200 })).items.map(({ key }) => key)).toEqual(
    documents.map(({ key }) => key),
  );
  expect(written).toEqual([50, 50, 20]);
  await data.close();
});

/** A document as the seed's own program writes it. */
function seedDocument(namespace: string, key: string, value: unknown): Record<string, unknown> {
  return {
    _id: documentId('user_123', namespace, key),
    userId: 'user_123',
    namespace,
    key,
    value,
    createdAt: '2026-01-01T00:00:00',
    updatedAt: '2026-01-01T00:00:00',
  };
}

test('a list examines only the unindexed documents of a namespace', async () => {
  const data = await couch.open('large', { foreignDocumentsSeconds: 0 });
  const keys = Array.from({ length: 300 }, (_, index) => `k${String(index).padStart(3, '0')}`);
  await data.setMany(caller, 'n', Object.fromEntries(keys.map((key) => [key, 1])));
  const examined: unknown[] = [];
  couch.proxy.before = async ({ target, body }) => {
    if (target !== `/${couch.database('large')}/_find`) return;
    const counted = { ...(JSON.parse(body) as object), execution_stats: true };
    const { execution_stats: stats } = await call('POST', target, counted);
    examined.push((stats as { total_docs_examined: number }).total_docs_examined);
  };
  for (const key of ['a', 'b', 'c'])
    await call('POST', `/${couch.database('large')}`, seedDocument('n', key, key));
  const list = async (): Promise<string[]> =>
    (await data.listKeys(caller, 'n', { limit: 5 })).items.map(({ key }) => key);
  expect(await list()).toEqual(['a', 'b', 'c', 'k000', 'k001']);
  expect(examined).toEqual([3, 5]);
  examined.length = 0;
  await list();
  expect(examined).toEqual([0, 5]);
  examined.length = 0;
  expect(await data.clear(caller, 'n')).toBe(303);
  // The last look is for documents that were written meanwhile.
  expect(examined).toEqual([0, 303, 0]);
  await data.close();
});

test('a document that another program adds later is listed within seconds', async () => {
  const data = await couch.open('later', {});
  await data.set(caller, 'n', 'b', 1);
  const list = async (): Promise<string[]> => (await data.listKeys(caller, 'n')).items.map(({ key }) => key);
  expect(await list()).toEqual(['b']);
  for (const key of ['a', 'c'])
    await call('POST', `/${couch.database('later')}`, seedDocument('n', key, key));
  await expect.poll(list, { interval: 500 }).toEqual(['a', 'b', 'c']);
  await data.close();
});

test('a document that the server refuses to index is an error that names it', async () => {
  const data = await couch.open('refusing');
  await call('POST', `/${couch.database('refusing')}`, seedDocument('n', 'k', 1));
  couch.proxy.intercept = ({ target }) =>
    target === `/${couch.database('refusing')}/_bulk_docs`
      ? { status: 201, body: [{ id: 'user_123:n:aw==', error: 'forbidden', reason: 'read only' }] }
      : undefined;
  await expect(data.listKeys(caller, 'n')).rejects.toMatchObject({
    code: 'engine',
    message: 'CouchDB refused the document "user_123:n:aw==": read only.',
  });
  await data.close();
});

test("the index of the seed's own program is used, not built a second time", async () => {
  const path = `/${couch.database('seed_index')}`;
  await call('PUT', path);
  const { id } = await call('POST', `${path}/_index`, {
    index: { fields: ['userId', 'namespace'] },
    name: 'idx-user-namespace',
    type: 'json',
  });
  const data = await couch.open('seed_index');
  await data.set(caller, 'n', 'k', 1);
  const { indexes } = (await call('GET', `${path}/_index`)) as { indexes: { ddoc: string; name: string }[] };
  expect(indexes.filter(({ name }) => name === 'idx-user-namespace')).toMatchObject([{ ddoc: id }]);
  const used: unknown[] = [];
  couch.proxy.intercept = ({ target, body }) => {
    if (target === `${path}/_find`) used.push((JSON.parse(body) as { use_index: unknown }).use_index);
    return undefined;
  };
  expect((await data.listNamespaces(caller)).items).toMatchObject([{ namespace: 'n', count: 1 }]);
  expect(new Set(used)).toEqual(new Set([String(id).replace('_design/', '')]));
  await data.close();
});

test('namespaces are added up by a reduce that is built into the server', async () => {
  const data = await couch.open('built_in');
  const { rows } = (await call(
    'GET',
    `/${couch.database('built_in')}/_all_docs?startkey="_design/stoa"&endkey="_design/stoa~"&include_docs=true`,
  )) as { rows: { doc: { views: Record<string, { reduce: string }> } }[] };
  const reduces = rows.flatMap(({ doc }) => Object.values(doc.views).map(({ reduce }) => reduce));
  expect(reduces).toEqual(['_stats']);
  await data.close();
});

test('numbers that the server would round to 0 are kept as text, and only for the write they belong to', async () => {
  const data = await couch.open('numbers');
  const path = `/${couch.database('numbers')}/${encodeURIComponent('user_123:n:aw==')}`;
  await data.set(caller, 'n', 'k', { smallest: 5e-324 }, { metadata: { low: -1e-310 } });
  expect(await data.getEntry(caller, 'n', 'k')).toMatchObject({
    value: { smallest: 5e-324 },
    metadata: { low: -1e-310 },
  });
  const stored = await call('GET', path);
  expect(stored['value']).toEqual({ smallest: 0 });
  await call('PUT', path, {
    ...stored,
    value: 'theirs',
    metadata: { a: 1 },
    updatedAt: '2030-01-01T00:00:00Z',
  });
  expect(await data.getEntry(caller, 'n', 'k')).toMatchObject({ value: 'theirs', metadata: { a: 1 } });
  await data.set(caller, 'n', 'k', 1);
  expect(await call('GET', path)).not.toHaveProperty('valueText');
  await data.close();
});
