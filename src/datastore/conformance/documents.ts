/** Conformance: one document at a time. */
import assert from 'node:assert/strict';
import { documentId } from '../documents/document-id.js';
import type { JsonValue } from '../model.js';
import { type ConformanceContext, type RegisterTest, refusedWith } from './context.js';

const iso = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?Z$/;

export function documentTests(test: RegisterTest, context: ConformanceContext): void {
  test('a new document has every field of the seed', async () => {
    const data = await context.service();
    const user = context.newUser();
    await data.set(
      context.caller(user, 'writer'),
      'files:my-repo',
      'src/main.py',
      { lines: 2 },
      { metadata: { language: 'python' } },
    );
    const entry = await data.getEntry(context.caller(user), 'files:my-repo', 'src/main.py');
    assert.ok(entry !== undefined);
    const { createdAt, updatedAt, lastAccessedAt, ...rest } = entry;
    for (const time of [createdAt, updatedAt, lastAccessedAt]) assert.match(String(time), iso);
    assert.equal(createdAt, updatedAt);
    assert.deepEqual(rest, {
      _id: `${user}:files:my-repo:c3JjL21haW4ucHk=`,
      userId: user,
      namespace: 'files:my-repo',
      key: 'src/main.py',
      value: { lines: 2 },
      metadata: { language: 'python' },
      createdByAgent: 'writer',
      updatedByAgent: 'writer',
      lastAccessedByAgent: 'writer',
      accessCount: 0,
      version: 1,
      expiresAt: null,
    });
  });

  test('a second write replaces the value and keeps creator, creation time and read count', async () => {
    const data = await context.service();
    const user = context.newUser();
    await data.set(context.caller(user, 'first'), 'n', 'k', 'old', {
      metadata: { version: '1.0', author: 'alice' },
    });
    const before = await data.getEntry(context.caller(user), 'n', 'k');
    await data.get(context.caller(user, 'reader'), 'n', 'k');
    await data.tracker.flush();
    context.skewMs += 5;
    await data.set(context.caller(user, 'second'), 'n', 'k', 'new', {
      metadata: { version: '2.0', reviewer: 'bob' },
    });
    const after = await data.getEntry(context.caller(user), 'n', 'k');
    assert.equal(after?.value, 'new');
    assert.deepEqual(after?.metadata, { version: '2.0', author: 'alice', reviewer: 'bob' });
    assert.equal(after?.createdAt, before?.createdAt);
    assert.equal(after?.createdByAgent, 'first');
    assert.equal(after?.updatedByAgent, 'second');
    assert.equal(after?.accessCount, 1);
    assert.equal(after?.lastAccessedByAgent, 'second');
    assert.equal(after?.version, 2);
    assert.notEqual(after?.updatedAt, before?.updatedAt);
  });

  test('names the agent of the last write, also after reads and writes without a name', async () => {
    const data = await context.service();
    const user = context.newUser();
    const updatedBy = async () => (await data.getEntry(context.caller(user), 'n', 'k'))?.updatedByAgent;
    await data.increment(context.caller(user, 'first'), 'n', 'k', 1);
    await data.increment(context.caller(user, 'second'), 'n', 'k', 1);
    await data.get(context.caller(user, 'reader'), 'n', 'k');
    await data.tracker.flush();
    assert.equal(await updatedBy(), 'second');
    await data.set(context.caller(user), 'n', 'k', 3);
    assert.equal(await updatedBy(), null);
  });

  test('index: false stays until a write says true, and a restored document keeps it', async () => {
    const data = await context.service();
    const user = context.newUser();
    const stored = async () => (await data.getEntry(context.caller(user), 'n', 'k'))?.indexed;
    await data.set(context.caller(user), 'n', 'k', 1, { index: false });
    assert.equal(await stored(), false);
    await data.set(context.caller(user), 'n', 'k', 2);
    await data.increment(context.caller(user), 'n', 'k', 1);
    assert.equal(await stored(), false);
    const [record] = await data.port.getMany({ user, namespace: 'n' }, ['k']);
    assert.ok(record !== undefined);
    await data.set(context.caller(user), 'n', 'k', 4, { index: true });
    assert.equal(await stored(), undefined);
    await data.transfer.write(context.caller(user), [record]);
    assert.equal(await stored(), false);
  });

  test('metadata stays untouched when none is given', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    await data.set(caller, 'n', 'k', 1, { metadata: { a: { deep: [1] } } });
    await data.set(caller, 'n', 'k', 2);
    assert.deepEqual((await data.getEntry(caller, 'n', 'k'))?.metadata, { a: { deep: [1] } });
    await data.set(caller, 'n', 'k', 3, { metadata: { a: 1 } });
    assert.deepEqual((await data.getEntry(caller, 'n', 'k'))?.metadata, { a: 1 });
  });

  test('metadata is returned unchanged, with its members in order', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const metadata = {
      z: 1,
      version: '1.0',
      author: { name: 'é', born: [1, { y: 1, b: 2 }] },
      a: { z: null, m: true, c: 0.1 },
    };
    await data.set(caller, 'n', 'k', 1, { metadata });
    assert.equal(JSON.stringify((await data.getEntry(caller, 'n', 'k'))?.metadata), JSON.stringify(metadata));
    await data.set(caller, 'n', 'k', 2, { metadata: { b: 2 } });
    assert.equal(
      JSON.stringify((await data.getEntry(caller, 'n', 'k'))?.metadata),
      JSON.stringify({ ...metadata, b: 2 }),
    );
    await data.set(caller, 'n', 'k', 3, { metadata: { smallest: 5e-324 } });
    assert.equal((await data.getEntry(caller, 'n', 'k'))?.metadata['smallest'], 5e-324);
  });

  test('every JSON value is returned unchanged', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const values: JsonValue[] = [
      null,
      true,
      false,
      0,
      -1.5,
      1e300,
      2 ** 53,
      0.1,
      5e-324,
      Number.MAX_VALUE,
      '',
      'text',
      'nul \u0000 inside',
      '😀～é',
      [],
      {},
      [[1, [2, [3]]], []],
      { z: 1, a: { nested: [null, { deep: true }] }, '': 0, __proto__x: 1, 'a.b': 2, $c: 3, _d: 4 },
      { constructor: 2, toString: 'text', prototype: null, hasOwnProperty: ['__proto__'] },
    ];
    for (const [index, value] of values.entries()) {
      await data.set(caller, 'values', `k${index}`, value);
      const back = await data.get(caller, 'values', `k${index}`);
      assert.equal(JSON.stringify(back), JSON.stringify(value));
    }
  });

  test('a member named __proto__ is refused at every depth', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const hostile = JSON.parse('{"deep": [{"__proto__": {"x": 1}}]}') as { deep: JsonValue[] };
    await refusedWith('invalid_request', () => data.set(caller, 'n', 'k', hostile));
    await refusedWith('invalid_request', () => data.set(caller, 'n', 'k', 1, { metadata: hostile }));
    await data.set(caller, 'n', 'k', {});
    await refusedWith('invalid_request', () => data.mergePatch(caller, 'n', 'k', hostile));
    await refusedWith('invalid_request', () => data.append(caller, 'n', 'list', hostile.deep));
    assert.deepEqual(await data.get(caller, 'n', 'k'), {});
    assert.equal(await data.get(caller, 'n', 'list'), undefined);
  });

  test('a stored null is null, and a missing key is undefined', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    await data.set(caller, 'n', 'nothing', null);
    assert.equal(await data.get(caller, 'n', 'nothing'), null);
    assert.equal(await data.get(caller, 'n', 'missing'), undefined);
    assert.equal(await data.getEntry(caller, 'n', 'missing'), undefined);
  });

  test('any key and namespace that the rules allow is stored under its own id', async () => {
    const data = await context.service();
    const user = context.newUser();
    const caller = context.caller(user);
    const names = [
      'a',
      '..',
      '.',
      '/',
      'a/b',
      '%2F',
      '~',
      '~a',
      '__x__',
      '_design',
      'ключ/é?>',
      '???>>>',
      '😀',
      ' ',
      'a:b',
      '"',
      "'",
      '\\',
      '{}',
      '\u00e9',
      'e\u0301',
      'x'.repeat(1024),
      '👩‍👩‍👧'.repeat(20),
    ];
    for (const name of names) await data.set(caller, 'names', name, name);
    for (const name of names) {
      const entry = await data.getEntry(caller, 'names', name);
      assert.equal(entry?.value, name);
      assert.equal(entry?._id, documentId(user, 'names', name));
    }
    assert.equal((await data.listKeys(caller, 'names')).items.length, names.length);
    for (const name of names.filter((name) => Buffer.byteLength(name) <= 256)) {
      await data.set(caller, name, 'k', name);
      assert.equal(await data.get(caller, name, 'k'), name);
    }
  });

  test('a value that is not JSON is refused, and nothing is stored', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    class Instance {
      x = 1;
    }
    const values: unknown[] = [
      NaN,
      Infinity,
      -Infinity,
      1n,
      undefined,
      () => 1,
      Symbol('s'),
      circular,
      Buffer.from('x'),
      new Uint8Array(2),
      new ArrayBuffer(2),
      new Date(),
      new Map(),
      new Set(),
      new Instance(),
      /x/,
      '\ud800',
      ['\udc00'],
      { '\ud800': 1 },
      [undefined],
      { a: { b: [NaN] } },
      Array(2),
      { [Symbol('name')]: 1 },
      Object('boxed'),
    ];
    for (const value of values) await refusedWith('invalid_request', () => data.set(caller, 'n', 'k', value));
    for (const value of values)
      await refusedWith('invalid_request', () => data.setMany(caller, 'n', { good: 1, bad: value }));
    await refusedWith('invalid_request', () =>
      data.set(caller, 'n', 'k', 1, { metadata: { at: new Date() as unknown as JsonValue } }),
    );
    assert.deepEqual((await data.listKeys(caller, 'n')).items, []);
  });

  test('ambiguous names and names that cannot be stored are refused', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    for (const bad of ['', '\ud800', 'a\udc00', 'a\u0000', 'line\nbreak', '\u0085', 'é'.repeat(513)]) {
      await refusedWith('invalid_request', () => data.set(caller, 'n', bad, 1));
      await refusedWith('invalid_request', () => data.get(caller, 'n', bad));
      await refusedWith('invalid_request', () => data.delete(caller, 'n', bad));
    }
    for (const bad of ['', '\ud800', 'a\u0000', 'x'.repeat(257)]) {
      await refusedWith('invalid_request', () => data.set(caller, bad, 'k', 1));
      await refusedWith('invalid_request', () => data.listKeys(caller, bad));
    }
  });

  test('a value of 1 MiB is stored where the database can hold it, and refused clearly where it cannot', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const largest = 'x'.repeat(context.limits.valueBytesMax - 2);
    const { valueBytesMax } = data.port.capabilities;
    if (valueBytesMax === null || valueBytesMax >= context.limits.valueBytesMax) {
      await data.set(caller, 'n', 'large', largest);
      assert.equal(await data.get(caller, 'n', 'large'), largest);
    } else {
      await refusedWith('too_large', () => data.set(caller, 'n', 'large', largest));
      assert.equal(await data.get(caller, 'n', 'large'), undefined);
      const fits = 'x'.repeat(valueBytesMax - 2);
      await data.set(caller, 'n', 'fits', fits);
      assert.equal(await data.get(caller, 'n', 'fits'), fits);
    }
    await refusedWith('too_large', () => data.set(caller, 'n', 'larger', `${largest}x`));
    await refusedWith('too_large', () =>
      data.set(caller, 'n', 'k', 1, { metadata: { note: 'x'.repeat(context.limits.metadataBytesMax) } }),
    );
  });

  test('metadata that exceeds its limit after merging is refused', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    const half = 'x'.repeat(context.limits.metadataBytesMax * 0.6);
    await data.set(caller, 'n', 'k', 1, { metadata: { a: half } });
    await refusedWith('too_large', () => data.set(caller, 'n', 'k', 2, { metadata: { b: half } }));
    assert.equal(await data.get(caller, 'n', 'k'), 1);
  });

  test('a deleted document is gone, and a new one with the same key starts at version 1', async () => {
    const data = await context.service();
    const user = context.newUser();
    const agent = context.caller(user, 'agent');
    await data.set(agent, 'n', 'k', 1, { metadata: { a: 1 } });
    await data.get(agent, 'n', 'k');
    assert.equal(await data.delete(agent, 'n', 'k'), true);
    assert.equal(await data.delete(agent, 'n', 'k'), false);
    assert.equal(await data.get(agent, 'n', 'k'), undefined);
    await data.set(context.caller(user, 'other'), 'n', 'k', 2);
    await data.tracker.flush();
    const entry = await data.getEntry(context.caller(user), 'n', 'k');
    assert.equal(entry?.createdByAgent, 'other');
    assert.equal(entry?.accessCount, 0);
    assert.equal(entry?.version, 1);
    assert.deepEqual(entry?.metadata, {});
  });

  test('users and namespaces do not see each other', async () => {
    const data = await context.service();
    const [one, two] = [context.caller(context.newUser()), context.caller(context.newUser())];
    await data.set(one, 'n', 'k', 'one');
    assert.equal(await data.get(two, 'n', 'k'), undefined);
    assert.equal(await data.get(one, 'other', 'k'), undefined);
    assert.equal(await data.delete(two, 'n', 'k'), false);
    assert.deepEqual((await data.listNamespaces(two)).items, []);
    assert.equal(await data.clear(two, 'n'), 0);
    assert.equal(await data.get(one, 'n', 'k'), 'one');
  });

  test('a user and namespace whose joined names are the same as another pair never overwrite it', async () => {
    const data = await context.service();
    const user = context.newUser();
    const [left, right] = [context.caller(`${user}:b`), context.caller(user)];
    await data.set(left, 'c', 'k', 'left');
    if (data.port.capabilities.sharedIds) {
      await refusedWith('id_collision', () => data.set(right, 'b:c', 'k', 'right'));
      await refusedWith('id_collision', () => data.increment(right, 'b:c', 'k'));
    } else {
      await data.set(right, 'b:c', 'other', 'right');
    }
    assert.equal(await data.get(right, 'b:c', 'k'), undefined);
    assert.deepEqual(await data.getMany(right, 'b:c', ['k']), {});
    assert.equal(await data.delete(right, 'b:c', 'k'), false);
    assert.equal(await data.get(left, 'c', 'k'), 'left');
  });
}
