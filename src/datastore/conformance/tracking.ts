/** Conformance: counted reads. They never delay, fail or undo anything. */
import assert from 'node:assert/strict';
import { eventually } from '../../core/test-runner.js';
import { type ConformanceContext, type RegisterTest } from './context.js';

export function trackingTests(test: RegisterTest, context: ConformanceContext): void {
  test('reads by an agent are counted, and nothing else is', async () => {
    const data = await context.service();
    const user = context.newUser();
    const [reader, nobody] = [context.caller(user, 'reader'), context.caller(user)];
    await data.setMany(context.caller(user, 'writer'), 'n', { k: 1, other: 2 });
    await data.get(reader, 'n', 'k');
    await data.getEntry(reader, 'n', 'k');
    await data.getMany(reader, 'n', ['k', 'missing']);
    await data.listDocuments(reader, 'n', { prefix: 'k' });
    for await (const document of data.getAll(reader, 'n', { prefix: 'k' })) assert.equal(document.key, 'k');
    await data.get(nobody, 'n', 'k');
    await data.listKeys(reader, 'n');
    await data.set(reader, 'n', 'other', 3);
    await data.delete(reader, 'n', 'missing');
    const entry = await data.getEntry(nobody, 'n', 'k');
    assert.equal(entry?.accessCount, 5);
    assert.equal(entry?.lastAccessedByAgent, 'reader');
    assert.equal((await data.getEntry(nobody, 'n', 'other'))?.accessCount, 0);
  });

  test('a document shows the reads made before it in the same process, flushed or not', async () => {
    const data = await context.service();
    const user = context.newUser();
    const reader = context.caller(user, 'reader');
    await data.set(context.caller(user, 'writer'), 'n', 'k', 1);
    for (let reads = 0; reads < 30; reads += 1) {
      if (reads % 7 === 3) void data.tracker.flush();
      if (reads % 10 === 9) await data.tracker.flush();
      assert.equal((await data.getEntry(reader, 'n', 'k'))?.accessCount, reads);
    }
  });

  test('another process sees the counts soon, and exactly after close', async () => {
    const [here, there] = [await context.service(), await context.another()];
    const user = context.newUser();
    await here.set(context.caller(user, 'writer'), 'n', 'k', 1);
    await there.get(context.caller(user, 'there'), 'n', 'k');
    await eventually(
      () => here.getEntry(context.caller(user), 'n', 'k'),
      (entry) => entry?.accessCount === 1 && entry.lastAccessedByAgent === 'there',
    );
    const closing = await context.another();
    for (let reads = 0; reads < 25; reads += 1) await closing.get(context.caller(user, 'closing'), 'n', 'k');
    await closing.tracker.close();
    assert.equal((await here.getEntry(context.caller(user), 'n', 'k'))?.accessCount, 26);
  });

  test('a read changes neither version nor updatedAt', async () => {
    const data = await context.service();
    const user = context.newUser();
    await data.set(context.caller(user, 'writer'), 'n', 'k', 1, { metadata: { a: 1 } });
    const before = await data.getEntry(context.caller(user), 'n', 'k');
    await data.get(context.caller(user, 'reader'), 'n', 'k');
    await data.tracker.flush();
    const after = await data.getEntry(context.caller(user), 'n', 'k');
    assert.equal(after?.version, before?.version);
    assert.equal(after?.updatedAt, before?.updatedAt);
    await data.set(context.caller(user), 'n', 'k', 2, { ifVersion: 1 });
  });

  test('reads during writes never fail and never undo a write', async () => {
    const [here, there] = [await context.service(), await context.another()];
    const user = context.newUser();
    const writer = context.caller(user, 'writer');
    await here.set(writer, 'n', 'k', 0);
    const race = { on: true };
    const readers = [here, there].map(async (data, index) => {
      const reader = context.caller(user, `reader-${index}`);
      let seen = 0;
      let reads = 0;
      while (race.on) {
        const value = await data.get(reader, 'n', 'k');
        assert.ok(typeof value === 'number' && value >= seen, `read ${String(value)} after ${seen}`);
        seen = value;
        reads += 1;
        if (reads % 20 === 0) await data.tracker.flush();
        await new Promise((resolve) => setImmediate(resolve));
      }
      await data.tracker.flush();
      return reads;
    });
    for (let value = 1; value <= 60; value += 1)
      await here.set(writer, 'n', 'k', value, value % 3 === 0 ? { metadata: { value } } : {});
    race.on = false;
    const reads = (await Promise.all(readers)).reduce((sum, count) => sum + count, 0);
    const entry = await here.getEntry(context.caller(user), 'n', 'k');
    assert.equal(entry?.value, 60);
    assert.equal(entry?.version, 61);
    assert.deepEqual(entry?.metadata, { value: 60 });
    assert.equal(entry?.accessCount, reads);
  });

  test('a write after a read makes the writer the last accessor', async () => {
    const data = await context.service();
    const user = context.newUser();
    await data.set(context.caller(user, 'a'), 'n', 'k', 1);
    await data.get(context.caller(user, 'b'), 'n', 'k');
    // Counts may be written at this moment, and within a millisecond the order is not defined.
    for (const readAtMs = Date.now(); Date.now() === readAtMs;)
      await new Promise((resolve) => setImmediate(resolve));
    await data.set(context.caller(user, 'c'), 'n', 'k', 2);
    assert.equal((await data.getEntry(context.caller(user), 'n', 'k'))?.lastAccessedByAgent, 'c');
    await data.tracker.flush();
    const entry = await data.getEntry(context.caller(user), 'n', 'k');
    assert.equal(entry?.lastAccessedByAgent, 'c');
    assert.equal(entry?.accessCount, 1);
  });
}
