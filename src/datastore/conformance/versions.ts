/** Conformance: versions, atomic changes, expiry. */
import assert from 'node:assert/strict';
import { eventually } from '../../core/test-runner.js';
import { type ConformanceContext, type RegisterTest, refusedWith } from './context.js';

export function versionTests(test: RegisterTest, context: ConformanceContext): void {
  test('a write with a version succeeds only over that version', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    assert.equal((await data.set(caller, 'n', 'k', 'a', { ifVersion: 0 })).version, 1);
    await refusedWith('version_conflict', () => data.set(caller, 'n', 'k', 'b', { ifVersion: 0 }));
    await refusedWith('version_conflict', () => data.set(caller, 'n', 'k', 'b', { ifVersion: 2 }));
    assert.equal((await data.set(caller, 'n', 'k', 'b', { ifVersion: 1 })).version, 2);
    assert.equal((await data.set(caller, 'n', 'k', 'c', { ifVersion: 'any' })).version, 3);
    assert.equal((await data.set(caller, 'n', 'k', 'd', { ifVersion: 3, metadata: { m: 1 } })).version, 4);
    await refusedWith('version_conflict', () =>
      data.set(caller, 'n', 'k', 'e', { ifVersion: 3, metadata: { m: 2 } }),
    );
    await refusedWith('version_conflict', () => data.delete(caller, 'n', 'k', { ifVersion: 1 }));
    assert.equal(await data.get(caller, 'n', 'k'), 'd');
    assert.equal(await data.delete(caller, 'n', 'k', { ifVersion: 4 }), true);
    await refusedWith('version_conflict', () => data.delete(caller, 'n', 'k', { ifVersion: 4 }));
    await refusedWith('version_conflict', () => data.set(caller, 'n', 'k', 'f', { ifVersion: 'any' }));
    await refusedWith('version_conflict', () => data.set(caller, 'n', 'k', 'f', { ifVersion: 4 }));
    assert.equal(await data.get(caller, 'n', 'k'), undefined);
  });

  test('exactly one of many writers that expect the same version succeeds', async () => {
    const services = [await context.service(), await context.another()];
    const caller = context.caller(context.newUser());
    const attempts = Array.from({ length: 16 }, (_, index) =>
      (services[index % 2] ?? services[0])?.set(caller, 'n', 'lock', index, { ifVersion: 0 }),
    );
    const outcomes = await Promise.allSettled(attempts);
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        assert.equal((outcome.reason as { code?: unknown }).code, 'version_conflict');
  });

  const [writerCount, increments] = context.target.size === 'small' ? [10, 10] : [50, 20];
  test(`${writerCount} writers that increment ${increments} times each lose no increment`, async () => {
    const services = [await context.service(), await context.another()];
    const caller = context.caller(context.newUser(), 'counter');
    const writers = Array.from({ length: writerCount }, async (_, index) => {
      for (let step = 0; step < increments; step += 1)
        await services[index % 2]?.increment(caller, 'n', 'count');
    });
    await Promise.all(writers);
    const entry = await services[0]?.getEntry(caller, 'n', 'count');
    assert.equal(entry?.value, writerCount * increments);
    assert.equal(entry?.version, writerCount * increments);
  });

  test('increment, append and merge patch change the value and nothing else', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    assert.equal((await data.increment(caller, 'n', 'number')).value, 1);
    assert.equal((await data.increment(caller, 'n', 'number', -2.5)).value, -1.5);
    assert.deepEqual((await data.append(caller, 'n', 'list', ['a'])).value, ['a']);
    assert.deepEqual((await data.append(caller, 'n', 'list', [{ b: 1 }, null])).value, ['a', { b: 1 }, null]);
    await data.set(
      caller,
      'n',
      'object',
      { a: 1, b: { c: 2, d: 3 } },
      { metadata: { kept: true }, ttl: 3600 },
    );
    const before = await data.getEntry(caller, 'n', 'object');
    assert.deepEqual((await data.mergePatch(caller, 'n', 'object', { a: null, b: { c: 4 }, e: [5] })).value, {
      b: { c: 4, d: 3 },
      e: [5],
    });
    const after = await data.getEntry(caller, 'n', 'object');
    assert.deepEqual(after?.metadata, { kept: true });
    assert.equal(after?.expiresAt, before?.expiresAt);
    await refusedWith('conflict', () => data.increment(caller, 'n', 'list'));
    await refusedWith('conflict', () => data.append(caller, 'n', 'number', [1]));
    await refusedWith('invalid_request', () => data.increment(caller, 'n', 'number', NaN));
    await refusedWith('version_conflict', () => data.increment(caller, 'n', 'number', 1, { ifVersion: 7 }));
  });

  test('an update function runs again after a concurrent write', async () => {
    const [here, there] = [await context.service(), await context.another()];
    const caller = context.caller(context.newUser());
    await here.set(caller, 'n', 'k', { seen: [] });
    let runs = 0;
    const result = await here.update(caller, 'n', 'k', async (current) => {
      runs += 1;
      if (runs === 1) await there.set(caller, 'n', 'k', { seen: ['there'] });
      return { seen: [...(current as { seen: string[] }).seen, 'here'] };
    });
    assert.deepEqual(result.value, { seen: ['there', 'here'] });
    assert.deepEqual(await here.get(caller, 'n', 'k'), { seen: ['there', 'here'] });
    assert.equal(runs, 2);
  });

  test('a document expires at once for readers, and its key is free again', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    await data.set(caller, 'n', 'short', 1, { ttl: 60, metadata: { old: true } });
    await data.set(caller, 'n', 'long', 2, { ttl: 600 });
    await data.set(caller, 'n', 'stock', 3, { metadata: { ttl_seconds: 1 } });
    await data.set(caller, 'n', 'cleared', 4, { ttl: 60 });
    await data.set(caller, 'n', 'cleared', 5);
    context.skewMs += 61_000;
    try {
      assert.equal(await data.get(caller, 'n', 'short'), undefined);
      assert.equal(await data.getEntry(caller, 'n', 'short'), undefined);
      assert.deepEqual(await data.getMany(caller, 'n', ['short', 'long']), { long: 2 });
      assert.deepEqual(
        (await data.listKeys(caller, 'n')).items.map(({ key }) => key),
        ['cleared', 'long', 'stock'],
      );
      assert.deepEqual(
        (await data.listDocuments(caller, 'n')).items.map(({ key }) => key),
        ['cleared', 'long', 'stock'],
      );
      assert.equal(await data.delete(caller, 'n', 'short'), false);
      await data.set(caller, 'n', 'expired', 1, { ttl: 1 });
      context.skewMs += 2_000;
      const made = await data.set(caller, 'n', 'expired', 2, { ifVersion: 0 });
      assert.equal(made.version, 1);
      assert.equal((await data.increment(caller, 'n', 'short')).value, 1);
      const entry = await data.getEntry(caller, 'n', 'short');
      assert.deepEqual(entry?.metadata, {});
    } finally {
      context.skewMs = 0;
    }
  });

  test('expired documents are removed', async () => {
    const data = await context.service();
    if (data.port.sweepExpired === undefined) return;
    const caller = context.caller(context.newUser());
    await data.set(caller, 'swept', 'k', 1, { ttl: 60 });
    context.skewMs += 61_000;
    try {
      await eventually(
        async () => {
          await data.port.sweepExpired?.(1_000);
          return (await data.listNamespaces(caller)).items;
        },
        (namespaces) => namespaces.length === 0,
      );
    } finally {
      context.skewMs = 0;
    }
  });

  test('an expiry in the past or out of bounds is refused', async () => {
    const data = await context.service();
    const caller = context.caller(context.newUser());
    for (const ttl of [0, -1, NaN, Infinity, 1e12])
      await refusedWith('invalid_request', () => data.set(caller, 'n', 'k', 1, { ttl }));
    await refusedWith('invalid_request', () =>
      data.set(caller, 'n', 'k', 1, { expiresAt: '2001-01-01T00:00:00Z' }),
    );
    await refusedWith('invalid_request', () => data.set(caller, 'n', 'k', 1, { expiresAt: 'tomorrow' }));
    await data.set(caller, 'n', 'k', 1, { expiresAt: '2999-01-01T00:00:00+02:00' });
    assert.equal((await data.getEntry(caller, 'n', 'k'))?.expiresAt, '2998-12-31T22:00:00.000Z');
  });
}
