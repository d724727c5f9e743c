/** Conformance: many documents: batches, lists, namespaces, clear. */
import assert from 'node:assert/strict';
import { StoaError } from '../../core/errors.js';
import { compareCodePoints } from '../documents/code-point-order.js';
import type { DataService } from '../service.js';
import { type Caller, operatorCaller } from '../../core/caller.js';
import { type ConformanceContext, type RegisterTest, inParallel, refusedWith } from './context.js';
import { groupedDigits } from '../../core/text/grouped-digits.js';

/** The order that JavaScript, ICU and many databases get wrong. */
const hardOrder = [
  '!',
  '/',
  '0',
  '10',
  '2',
  'A',
  'Z',
  '_',
  'a',
  'aa',
  'a~',
  'b',
  '~',
  'é',
  'Ω',
  'ключ',
  '中',
  '～',
  '😀',
  '😀a',
  '🙂',
];

export function listTests(test: RegisterTest, context: ConformanceContext): void {
  test('keys and namespaces are listed in code-point order', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const shuffled = hardOrder.toSorted((a, b) =>
      compareCodePoints([...a].toReversed().join(''), [...b].toReversed().join('')),
    );
    await data.setMany(caller, 'n', Object.fromEntries(shuffled.map((key) => [key, key])));
    for (const name of shuffled.slice(0, 12)) await data.set(caller, name, 'k', 1);
    assert.deepEqual(
      (await data.listKeys(caller, 'n')).items.map(({ key }) => key),
      hardOrder,
    );
    assert.deepEqual(await everyKey(data, caller, 'n', '', 2), hardOrder);
    const namespaces = [...shuffled.slice(0, 12), 'n'].toSorted(compareCodePoints);
    assert.deepEqual(
      (await data.listNamespaces(caller)).items.map(({ namespace }) => namespace),
      namespaces,
    );
    const first = await data.listNamespaces(caller, { limit: 5 });
    const second = await data.listNamespaces(caller, { limit: 100, cursor: first.next_cursor ?? undefined });
    assert.deepEqual(
      [...first.items, ...second.items].map(({ namespace }) => namespace),
      namespaces,
    );
  });

  test('credentials for a few namespaces list only those, with the same items', async () => {
    const data = await context.service();
    const all = context.caller(context.newUser(), 'worker');
    for (const name of ['a', 'b', '～', '😀', 'e']) await data.set(all, name, 'k', name);
    const wanted = ['😀', 'b', 'none', 'b', 'e', '～'];
    const narrow = { ...all, scopes: { ...all.scopes, namespaces: wanted } };
    const whole = (await data.listNamespaces(all)).items.filter(({ namespace }) =>
      wanted.includes(namespace),
    );
    assert.deepEqual(
      whole.map(({ namespace }) => namespace),
      ['b', 'e', '～', '😀'],
    );
    assert.deepEqual((await data.listNamespaces(narrow)).items, whole);
    const paged: typeof whole = [];
    let cursor: string | undefined;
    do {
      const page = await data.listNamespaces(narrow, { limit: 1, ...(cursor !== undefined && { cursor }) });
      paged.push(...page.items);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    assert.deepEqual(paged, whole);
  });

  test('a list of keys has version, size and last write; with values it has the documents', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    await data.set(caller, 'n', 'a', 'é');
    await data.set(caller, 'n', 'a', 'éé', { metadata: { m: 1 } });
    const entry = await data.getEntry(caller, 'n', 'a');
    assert.deepEqual((await data.listKeys(caller, 'n')).items, [
      { key: 'a', version: 2, sizeBytes: 6, updatedAt: entry?.updatedAt },
    ]);
    const [document] = (await data.listDocuments(caller, 'n')).items;
    assert.equal(document?.valueJson, '"éé"');
    assert.deepEqual(document?.metadata, { m: 1 });
  });

  test('a prefix selects by characters, also if other orders put other keys in between', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const keys = ['a', 'a/', 'a/1', 'a/2', 'a0', 'A/', 'b', '😀', '😀/x', '😁', 'a/\u{10ffff}', 'a/~'];
    await data.setMany(caller, 'n', Object.fromEntries(keys.map((key) => [key, 1])));
    const matching = (prefix: string) =>
      keys.filter((key) => key.startsWith(prefix)).toSorted(compareCodePoints);
    for (const prefix of ['', 'a', 'a/', '😀', 'zzz', 'a/\u{10ffff}', '\u{10ffff}'])
      assert.deepEqual(await everyKey(data, caller, 'n', prefix, 3), matching(prefix));
  });

  test('pages have no gaps and no repeats during writes', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const stable = Array.from({ length: 120 }, (_, index) => `k${String(index).padStart(4, '0')}`);
    await data.setMany(caller, 'n', Object.fromEntries(stable.map((key) => [key, 0])));
    const race = { on: true };
    const writer = (async () => {
      for (let round = 0; race.on; round += 1) {
        await data.set(caller, 'n', `k${String(round % 120).padStart(4, '0')}+`, round);
        await data.set(caller, 'n', stable[round % 120] as string, round);
        await data.delete(caller, 'n', `k${String((round * 7) % 120).padStart(4, '0')}+`);
      }
    })();
    try {
      for (let round = 0; round < 3; round += 1) {
        const seen = await everyKey(data, caller, 'n', 'k', 7);
        assert.equal(new Set(seen).size, seen.length);
        assert.deepEqual(seen, seen.toSorted(compareCodePoints));
        assert.deepEqual(
          seen.filter((key) => !key.endsWith('+')),
          stable,
        );
      }
    } finally {
      race.on = false;
      await writer;
    }
  });

  test('a cursor of another list is refused', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    await data.setMany(caller, 'n', { a: 1, b: 2, c: 3 });
    const { next_cursor } = await data.listKeys(caller, 'n', { limit: 1 });
    assert.ok(next_cursor !== null);
    await refusedWith('invalid_cursor', () => data.listKeys(caller, 'other', { cursor: next_cursor }));
    await refusedWith('invalid_cursor', () =>
      data.listKeys(caller, 'n', { cursor: next_cursor, prefix: 'a' }),
    );
    await refusedWith('invalid_cursor', () => data.listKeys(caller, 'n', { cursor: 'x' }));
  });

  test('a batch sets, deletes and reads, and missing keys are left out', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser(), 'batcher');
    await data.setMany(caller, 'n', { gone: 1, kept: 2 });
    const answer = await data.batch(caller, 'n', {
      set: { a: 1, kept: 3 },
      delete: ['gone', 'missing'],
      get: ['a', 'kept', 'gone', 'missing'],
      metadata: { from: 'batch' },
    });
    assert.deepEqual(answer, {
      set: { a: { version: 1 }, kept: { version: 2 } },
      values: { a: 1, kept: 3 },
      deleted: 1,
    });
    assert.deepEqual((await data.getEntry(caller, 'n', 'kept'))?.metadata, { from: 'batch' });
    assert.deepEqual(await data.getMany(caller, 'n', ['kept', 'missing', 'kept']), { kept: 3 });
    await refusedWith('invalid_request', () => data.batch(caller, 'n', { set: { a: 1 }, delete: ['a'] }));
    const many = Object.fromEntries(
      Array.from({ length: context.limits.dataBatchKeysMax + 1 }, (_, index) => [`k${index}`, 1]),
    );
    await refusedWith('too_large', () => data.setMany(caller, 'n', many));
  });

  test('a batch that reads more than one answer may have is refused, and writes nothing', async () => {
    const whole = await context.service();
    const data = await context.another({ dataBatchBytesMax: 30_000 });
    const caller = context.caller(context.newUser());
    const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
    // Three bytes for each character: a limit on characters would be three times as high.
    await whole.setMany(caller, 'n', Object.fromEntries(keys.map((key) => [key, '中'.repeat(600)])));
    const fitting = await data.batch(caller, 'n', { get: keys.slice(0, 16) });
    assert.deepEqual(Object.keys(fitting.values), keys.slice(0, 16));
    await refusedWith('too_large', () => data.batch(caller, 'n', { get: keys }));
    const writing = { set: { k19: 'new', other: 1 }, delete: ['k18'] };
    await refusedWith('too_large', () => data.batch(caller, 'n', { ...writing, get: keys.slice(0, 18) }));
    assert.equal((await data.getEntry(caller, 'n', 'k19'))?.version, 1);
    assert.equal(await data.get(caller, 'n', 'other'), undefined);
    const answer = await data.batch(caller, 'n', { ...writing, get: ['k0', 'k18', 'k19', 'other'] });
    assert.deepEqual(Object.keys(answer.values).toSorted(), ['k0', 'k19', 'other']);
    assert.equal(answer.values['k19'], 'new');
    assert.equal(Object.keys(await data.getMany(caller, 'n', keys)).length, 19);
  });

  // 1,500 documents of 1 KiB are more than one page of every database: DynamoDB's has 1 MiB.
  const steps = context.target.size === 'small' ? 2 : 19;
  const total = 550 + steps * 500;
  test(`${groupedDigits(total)} keys are listed, read and cleared to the last`, async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const keys = Array.from({ length: total }, (_, index) => `key-${String(index).padStart(5, '0')}`);
    await data.setMany(
      caller,
      'large',
      Object.fromEntries(keys.slice(0, 550).map((key) => [key, 'x'.repeat(1_024)])),
    );
    // The rest is imported, because some databases take single writes only one request at a time.
    const example = (await data.listDocuments(caller, 'large', { limit: 1 })).items[0];
    assert.ok(example !== undefined);
    const starts = Array.from({ length: steps }, (_, index) => 550 + index * 500);
    await inParallel(starts, 4, (start) =>
      data.transfer.write(
        operatorCaller(),
        keys.slice(start, start + 500).map((key) => ({ ...example, key })),
      ),
    );
    await data.set(caller, 'neighbour', 'k', 1);
    assert.deepEqual(await everyKey(data, caller, 'large', '', 1_000), keys);
    let read = 0;
    for await (const document of data.getAll(caller, 'large')) {
      assert.equal(document.key, keys[read]);
      read += 1;
    }
    assert.equal(read, keys.length);
    const [summary] = (await data.listNamespaces(caller)).items;
    assert.equal(summary?.namespace, 'large');
    assert.equal(summary?.count, keys.length);
    assert.equal(await data.clear(caller, 'large'), keys.length);
    assert.equal(await data.clear(caller, 'large'), 0);
    assert.deepEqual((await data.listKeys(caller, 'large')).items, []);
    assert.equal(await data.get(caller, 'neighbour', 'k'), 1);
    assert.deepEqual(
      (await data.listNamespaces(caller)).items.map(({ namespace }) => namespace),
      ['neighbour'],
    );
  });

  test('an export with an invented position starts there or is refused', async () => {
    const { port } = await context.service();
    const places = [
      '{',
      '[1,2,3]',
      '["u","n"]',
      '["u","n","k"]',
      'null',
      '0',
      '99.zz',
      'a/b',
      '.',
      '..',
      '__name__',
      'x'.repeat(3_000),
      'u:n:aw==',
      '\u{10ffff}',
    ];
    for (const place of places) {
      try {
        await port.exportPage(place, 1);
      } catch (error) {
        assert.ok(
          error instanceof StoaError && error.code === 'invalid_cursor',
          `${place.slice(0, 20)}: ${String(error)}`,
        );
      }
    }
  });

  test('a clear ends after the current step if the caller disconnects', async () => {
    const data = await context.another({ clearStepMax: 2 });
    const caller = context.caller(context.newUser());
    await data.setMany(caller, 'n', { a: 1, b: 2, c: 3, d: 4, e: 5 });
    await refusedWith('cancelled', () => data.clear(caller, 'n', { signal: goneAfter(1) }));
    assert.deepEqual(await everyKey(data, caller, 'n', '', 10), ['c', 'd', 'e']);
    assert.equal(await data.clear(caller, 'n'), 3);
  });

  test('a document that is written behind a clear keeps its agent', async () => {
    const data = await context.another({ clearStepMax: 1 });
    const user = context.newUser();
    const caller = context.caller(user);
    await data.setMany(
      caller,
      'n',
      Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`b${100 + index}`, index])),
    );
    let looks = 0;
    let writing: Promise<unknown> | undefined;
    // A clear looks before each step.
    const signal = {
      get aborted() {
        looks += 1;
        if (looks > 2) writing ??= data.set(context.caller(user, 'late'), 'n', 'a', 1);
        return false;
      },
    };
    assert.equal(await data.clear(caller, 'n', { signal }), 40);
    await writing;
    assert.deepEqual(await everyKey(data, caller, 'n', '', 10), ['a']);
    assert.deepEqual((await data.listNamespaces(caller)).items[0]?.agents, ['late']);
    assert.equal(await data.clear(caller, 'n'), 1);
    await data.set(context.caller(user, 'new'), 'n', 'c', 1);
    assert.deepEqual((await data.listNamespaces(caller)).items[0]?.agents, ['new']);
  });

  test('a list is complete or refused if the caller disconnects', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    for (const namespace of ['a', 'b', 'c']) await data.set(caller, namespace, 'k', 1);
    await refusedWith('cancelled', () => data.listNamespaces(caller, { signal: goneAfter(0) }));
    for (const looks of [1, 2, 3, 4]) {
      const outcome = await data
        .listNamespaces(caller, { signal: goneAfter(looks) })
        .catch((error: unknown) => error);
      if (outcome instanceof StoaError) assert.equal(outcome.code, 'cancelled');
      else assert.deepEqual(outcome, await data.listNamespaces(caller));
    }
  });

  test('two concurrent clears count every document once', async () => {
    const services = [await context.service(), await context.another()];
    const caller = context.caller(context.newUser());
    await services[0]?.setMany(
      caller,
      'n',
      Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`k${index}`, index])),
    );
    const deleted = await Promise.all(services.map((data) => data.clear(caller, 'n')));
    assert.equal(
      deleted.reduce((sum, count) => sum + count, 0),
      150,
    );
    assert.deepEqual((await services[0]?.listKeys(caller, 'n'))?.items, []);
  });

  test('a namespace has its document count, bytes, agents and last change', async () => {
    const data = await context.service();
    const user = context.newUser();
    await data.set(context.caller(user, 'writer'), 'n', 'a', 'xxxx');
    await data.set(context.caller(user, 'writer'), 'n', 'b', 'yy');
    await data.set(context.caller(user), 'n', 'b', 'yyy');
    await data.set(context.caller(user, 'gone'), 'n', 'c', 1);
    await data.delete(context.caller(user, 'deleter'), 'n', 'c');
    await data.get(context.caller(user, 'reader'), 'n', 'a');
    await data.tracker.flush();
    const [summary] = (await data.listNamespaces(context.caller(user))).items;
    const last = await data.getEntry(context.caller(user), 'n', 'b');
    assert.equal(summary?.count, 2);
    assert.equal(summary?.sizeBytes, 11);
    assert.deepEqual(summary?.agents, ['gone', 'reader', 'writer']);
    assert.ok(summary !== undefined && last !== undefined && summary.updatedAt >= last.updatedAt);
    await data.clear(context.caller(user), 'n');
    await data.set(context.caller(user, 'fresh'), 'n', 'a', 1);
    assert.deepEqual((await data.listNamespaces(context.caller(user))).items[0]?.agents, ['fresh']);
  });
}

async function everyKey(
  data: DataService,
  caller: Caller,
  namespace: string,
  prefix: string,
  limit: number,
): Promise<string[]> {
  const keys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await data.listKeys(caller, namespace, { prefix, limit, cursor });
    keys.push(...page.items.map(({ key }) => key));
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return keys;
}

/** A caller who disconnects after this many checks. */
function goneAfter(looks: number): { readonly aborted: boolean } {
  let left = looks;
  return {
    get aborted() {
      left -= 1;
      return left < 0;
    },
  };
}
