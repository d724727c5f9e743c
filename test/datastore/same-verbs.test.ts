/** The library's handle and the client's have the same verbs, take the same and answer the same. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { DataClient } from '../../src/client/data.js';
import { DataNamespace } from '../../src/datastore/namespaces/namespace.js';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

const verbs = (handle: { prototype: object }): string[] =>
  Object.getOwnPropertyNames(handle.prototype).toSorted();

/** In the library the settings of all namespaces are `stoa.namespaceSettings`. */
const settingsVerbs = ['settings', 'changeSettings'];

test('library and client have the same verbs', () => {
  const ofClient = verbs(DataClient).filter((verb) => !settingsVerbs.includes(verb));
  expect(verbs(DataNamespace)).toEqual(ofClient);
});

const refused = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'taken',
    ({ code }: { code: string }) => code,
  );

/** Everything that a handle answers, without what depends on the time. */
async function story(notes: DataClient): Promise<unknown[]> {
  const expiresAt = '2099-01-01T00:00:00.000Z';
  const told: unknown[] = [
    (await notes.set('a', { n: 1, old: true }, { metadata: { by: 'test' }, expiresAt })).version,
    await notes.get('a'),
    await notes.get('missing', 'fallback'),
    await notes.mergePatch('a', { n: 2, old: null }, { ifVersion: 1 }),
    await refused(notes.mergePatch('a', { n: 3 }, { ifVersion: 1 })),
    await notes.append('list', [1, { two: 2 }]),
    await notes.append('list', [[3]], { ifVersion: 1 }),
    await refused(notes.append('list', [4], { ifVersion: 1 })),
    await notes.increment('count'),
    await notes.increment('count', 4, { ifVersion: 1 }),
    await refused(notes.increment('count', 1, { ifVersion: 7 })),
    await notes.update('count', (current) => Number(current) * 2, { metadata: { doubled: true } }),
    await notes.update('a', () => 'updated'),
    await notes.setMany({ x: 1, y: 2 }, { metadata: { many: true } }),
    await notes.getMany(['x', 'missing']),
    await notes.batch({ set: { z: 3 }, delete: ['x', 'missing'], get: ['y', 'z'], expiresAt }),
    await notes.getAll({ prefix: 'z' }),
    (await notes.listKeys()).items.map(({ key, version, sizeBytes }) => [key, version, sizeBytes]),
    (await notes.listNamespaces()).items
      .filter(({ namespace }) => namespace === notes.namespace)
      .map(({ count, agents }) => [count, agents]),
    await refused(notes.set('a', 1, { ifVersion: 0 })),
    await notes.delete('y', { ifVersion: 1 }),
    await notes.delete('y'),
  ];
  for await (const { key, value, metadata, version, expiresAt: ends } of notes.entries())
    told.push([key, value, metadata, version, ends]);
  told.push(notes.useNamespace('other').namespace, await notes.clear(), await notes.getEntry('a'));
  return told;
}

test('the same calls through library and client have the same results', async () => {
  const library = running.stoa.data.open(operatorCaller('alice', 'teller'), 'library');
  const client = new Stoa({ url: running.url, token: running.alice, agent: 'teller' }).data('client');
  // The assignment proves that its type fits the client's.
  const [byLibrary, byClient] = [await story(library as unknown as DataClient), await story(client)];
  expect(byClient).toEqual(byLibrary);
  expect(byLibrary.slice(0, 13)).toEqual([
    1,
    { n: 1, old: true },
    'fallback',
    { n: 2 },
    'version_conflict',
    [1, { two: 2 }],
    [1, { two: 2 }, [3]],
    'version_conflict',
    1,
    5,
    'version_conflict',
    10,
    'updated',
  ]);
});
