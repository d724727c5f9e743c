import { afterAll, describe, expect, it } from 'vitest';
import { kernelFamilies } from '../../src/kernel/families.js';
import { type Idempotency } from '../../src/core/idempotency.js';
import { forgetAnswer, idempotencyTimer, once } from '../../src/kernel/once.js';
import { Sweeper } from '../../src/kernel/sweeper.js';
import { bytes, items, openStore, removeDirectories, text } from './open-store.js';

afterAll(removeDirectories);

const first: Idempotency = { scope: 'ann POST /v1/agents', key: 'k1', fingerprint: 'f1', seconds: 60 };

async function counting(engine: 'memory' | 'lmdb' | 'rocksdb' = 'memory', directory?: string) {
  const clock = { nowMs: 1000 };
  const opened = await openStore({
    engine,
    clock: () => clock.nowMs,
    ...(directory !== undefined && { directory }),
  });
  const create = (idempotency: Idempotency | null, options: { keep?: boolean; fail?: boolean } = {}) =>
    opened.store.transact((tx) =>
      once(
        tx,
        idempotency,
        () => {
          const made = Number(text(tx, 'made') ?? 0) + 1;
          tx.put(items, bytes('made'), bytes(String(made)));
          if (options.fail === true) throw new RangeError('refused');
          return { made };
        },
        options,
      ),
    );
  return { ...opened, clock, create, made: () => Number(text(opened.store, 'made') ?? 0) };
}

describe('an idempotency key', () => {
  it('gives the first answer again and does nothing twice, also without waiting for the first', async () => {
    const { create, made } = await counting();
    expect(await Promise.all([create(first), create(first), create(first)])).toEqual([
      { made: 1 },
      { made: 1 },
      { made: 1 },
    ]);
    expect(await create(first)).toEqual({ made: 1 });
    expect(made()).toBe(1);
  });

  it("is nobody else's, and no key at all repeats nothing", async () => {
    const { create, made } = await counting();
    await create(first);
    await create({ ...first, scope: 'bob POST /v1/agents' });
    await create({ ...first, key: 'k2' });
    await create(null);
    await create(null);
    expect(made()).toBe(5);
  });

  it('with another request is a mismatch', async () => {
    const { create, made } = await counting();
    await create(first);
    await expect(create({ ...first, fingerprint: 'f2' })).rejects.toMatchObject({
      code: 'idempotency_mismatch',
    });
    expect(made()).toBe(1);
  });

  it('of an answer with a secret cannot be repeated, and the secret is not stored', async () => {
    const { store, create, made } = await counting();
    await create(first, { keep: false });
    await expect(create(first, { keep: false })).rejects.toMatchObject({ code: 'idempotency_unrepeatable' });
    expect(made()).toBe(1);
    for (const { value } of store.range(kernelFamilies.idempotency, {}))
      expect(value.toString()).not.toContain('made');
  });

  it('keeps an answer that is nothing', async () => {
    const { store } = await openStore();
    let ran = 0;
    const run = () => store.transact((tx) => once(tx, first, () => void (ran += 1)));
    await run();
    expect(await run()).toBeUndefined();
    expect(ran).toBe(1);
  });

  it('is free again after a request that failed', async () => {
    const { create, made } = await counting();
    await expect(create(first, { fail: true })).rejects.toThrow('refused');
    expect(await create(first)).toEqual({ made: 1 });
    expect(made()).toBe(1);
  });

  it('is forgotten after its time, by the sweeper and before it', async () => {
    const { store, create, made, clock } = await counting();
    const sweeper = new Sweeper({ store, onError: (error) => expect.unreachable(String(error)) });
    sweeper.handle(idempotencyTimer, forgetAnswer);
    await create(first);
    clock.nowMs += 59_999;
    await create(first);
    expect(made()).toBe(1);
    clock.nowMs += 1;
    await create(first);
    expect(made()).toBe(2);
    // The timer of the first use is due, but the key was used anew.
    await sweeper.sweep();
    await create(first);
    expect(made()).toBe(2);
    clock.nowMs += 60_000;
    await sweeper.sweep();
    expect([...store.range(kernelFamilies.idempotency, {})]).toEqual([]);
    expect([...store.range(kernelFamilies.timers, {})]).toEqual([]);
  });

  it.each(['lmdb', 'rocksdb'] as const)('is remembered after reopening on %s', async (engine) => {
    const before = await counting(engine);
    await before.create(first);
    await before.store.close();
    const after = await counting(engine, before.directory);
    expect(await after.create(first)).toEqual({ made: 1 });
    await expect(after.create({ ...first, fingerprint: 'f2' })).rejects.toMatchObject({
      code: 'idempotency_mismatch',
    });
    await after.store.close();
  });
});
