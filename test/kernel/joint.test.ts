import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoaError } from '../../src/errors.js';
import { Joint } from '../../src/kernel/joint.js';
import { type Kernel, openKernel } from '../../src/kernel/kernel.js';
import { limitsWith } from '../../src/limits.js';

const family = 'test/values';
let kernel: Kernel;
let joint: Joint;

beforeEach(async () => {
  kernel = await openKernel({
    dataDir: 'unused',
    engine: 'memory',
    shards: 4,
    families: [family],
    limits: limitsWith(),
  });
  joint = new Joint(kernel);
});

afterEach(async () => {
  await kernel.close();
});

/** A service as any other: it knows nothing of commits. */
async function put(over: Kernel, key: string, value: string, shard = 0): Promise<string> {
  await Promise.resolve();
  if (value === 'bad input') throw new StoaError('invalid_request', 'bad input');
  const stored = await (over.stores[shard] as Kernel['root']).transact((tx) => {
    if (value === 'refused') throw new StoaError('conflict', 'refused inside');
    tx.put(family, Buffer.from(key), Buffer.from(value));
    tx.change({ domain: 'data', kind: 'document.set', id: key, user: 'u', version: 1 });
    return tx.get(family, Buffer.from(key))?.toString();
  });
  return `stored ${stored}`;
}

const agree = () => undefined;
const stored = (key: string) => kernel.root.get(family, Buffer.from(key))?.toString();

describe('a joint commit', () => {
  it('makes one transaction of several operations and answers each', async () => {
    const results = await joint.commit(
      [() => put(joint.kernel, 'a', '1'), () => put(joint.kernel, 'b', '2')],
      agree,
    );
    expect(results).toEqual(['stored 1', 'stored 2']);
    expect(kernel.root.sequence).toBe(1);
    expect(kernel.feed.read().commits[0]?.changes.map(({ id }) => id)).toEqual(['a', 'b']);
  });

  it('keeps nothing when an operation refuses inside the transaction, and names it', async () => {
    const commit = joint.commit(
      [() => put(joint.kernel, 'a', '1'), () => put(joint.kernel, 'b', 'refused')],
      agree,
    );
    await expect(commit).rejects.toMatchObject({ index: 1, reason: { code: 'conflict' } });
    expect(stored('a')).toBeUndefined();
    expect(kernel.root.sequence).toBe(0);
  });

  it('keeps nothing when an operation refuses its input', async () => {
    const commit = joint.commit(
      [() => put(joint.kernel, 'a', '1'), () => put(joint.kernel, 'b', 'bad input')],
      agree,
    );
    await expect(commit).rejects.toMatchObject({ index: 1, reason: { code: 'invalid_request' } });
    expect(stored('a')).toBeUndefined();
  });

  it('keeps nothing when the check refuses', async () => {
    const commit = joint.commit([() => put(joint.kernel, 'a', '1')], () => {
      throw new StoaError('version_conflict', 'not that version');
    });
    await expect(commit).rejects.toMatchObject({ code: 'version_conflict' });
    expect(stored('a')).toBeUndefined();
  });

  it('refuses operations of two shards', async () => {
    const commit = joint.commit(
      [() => put(joint.kernel, 'a', '1'), () => put(joint.kernel, 'b', '2', 3)],
      agree,
    );
    await expect(commit).rejects.toMatchObject({ index: 1, reason: { code: 'unsupported' } });
    expect(stored('a')).toBeUndefined();
  });

  it('refuses an operation that takes two transactions', async () => {
    const twice = () => Promise.all([put(joint.kernel, 'a', '1'), put(joint.kernel, 'b', '2')]);
    await expect(joint.commit([twice], agree)).rejects.toMatchObject({
      index: 0,
      reason: { code: 'unsupported' },
    });
    expect(stored('a')).toBeUndefined();
  });

  it('tells every operation at once that it is undone, and later that it is durable', async () => {
    const told: string[] = [];
    const operation = (name: string, fails: boolean) => () =>
      joint.kernel.root.transact((tx) => {
        tx.onDurable(() => told.push(`${name} durable`));
        tx.onUndone(() => told.push(`${name} undone`));
        if (fails) throw new StoaError('conflict', 'refused inside');
        tx.put(family, Buffer.from(name), Buffer.from(name));
      });
    await expect(joint.commit([operation('a', false), operation('b', true)], agree)).rejects.toMatchObject({
      index: 1,
    });
    expect(told).toEqual(['a undone', 'b undone']);
    await joint.commit([operation('c', false), operation('d', false)], agree);
    expect(told.slice(2)).toEqual(['c durable', 'd durable']);
  });

  it('many at once stay apart, and plain use of the same services goes on', async () => {
    const commits = Array.from({ length: 50 }, (_, index) =>
      joint.commit(
        [
          () => put(joint.kernel, `x${index}`, 'left'),
          () => put(joint.kernel, `y${index}`, index % 7 === 0 ? 'refused' : 'right'),
        ],
        agree,
      ),
    );
    const outcomes = await Promise.allSettled(commits);
    await put(joint.kernel, 'alone', 'too');
    for (const [index, outcome] of outcomes.entries()) {
      expect(outcome.status).toBe(index % 7 === 0 ? 'rejected' : 'fulfilled');
      expect([stored(`x${index}`), stored(`y${index}`)]).toEqual(
        index % 7 === 0 ? [undefined, undefined] : ['left', 'right'],
      );
    }
    expect(stored('alone')).toBe('too');
  });
});
