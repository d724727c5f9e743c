import * as fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { directoryFamilies } from '../../../../../src/homes/directory/families.js';
import { Nonces } from '../../../../../src/homes/directory/messaging/guards/nonces.js';
import { ForgottenTimes } from '../../../../../src/homes/directory/messaging/guards/forgotten-times.js';
import { nonceHash } from '../../../../../src/homes/directory/messaging/guards/nonce-hash.js';
import { HashSet } from '../../../../../src/core/ids/hash-set.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { FaultyEngine } from '../../kernel/faulty-engine.js';
import { openMessaging } from '../open-messaging.js';

const agent = '7d3f1c52-0b1e-4c55-9f6e-3a4b5c6d7e8f';
const limits = limitsWith();
let kernel: Kernel;
let engine: FaultyEngine;
let nowMs = 1_800_000_000_000;

async function open(): Promise<void> {
  kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: directoryFamilies,
    limits,
    clock: () => nowMs,
    wrapEngine: (opened) => {
      engine = new FaultyEngine(opened);
      return engine;
    },
  });
}

afterEach(() => kernel?.close());

describe('a set of nonces', () => {
  const name = fc.integer({ min: 0, max: 3_000 }).map((number) => Buffer.from(`nonce-${number}`));
  const action = fc.record({ do: fc.constantFrom('add', 'add', 'add', 'delete', 'has'), name });

  it('behaves as a set under insertions and deletions, also when it grows', () => {
    fc.assert(
      fc.property(fc.array(action, { maxLength: 4_000, size: 'max' }), (actions) => {
        const model = new Set<string>();
        const set = new HashSet();
        // Collected first: an assertion costs far more than a lookup.
        const wrong: string[] = [];
        for (const one of actions) {
          const hash = nonceHash(one.name, 0);
          if (one.do === 'add') {
            set.add(hash);
            model.add(one.name.toString());
          } else if (one.do === 'delete') {
            set.delete(hash);
            model.delete(one.name.toString());
          }
          if (set.has(hash) !== model.has(one.name.toString())) wrong.push(one.name.toString());
        }
        for (let number = 0; number <= 3_000; number += 1)
          if (set.has(nonceHash(Buffer.from(`nonce-${number}`), 0)) !== model.has(`nonce-${number}`))
            wrong.push(String(number));
        expect(wrong).toEqual([]);
      }),
      { numRuns: 30 },
    );
  });

  it('distinguishes all nonces', () => {
    const set = new HashSet();
    for (let number = 0; number < 200_000; number += 1) set.add(nonceHash(Buffer.from(`a${number}`), 0));
    for (let number = 0; number < 200_000; number += 1)
      if (set.has(nonceHash(Buffer.from(`b${number}`), 0))) expect.fail(`b${number} was never added`);
  });
});

it('accepts a nonce again only if the commit of the first request failed', async () => {
  await open();
  const { messaging: port } = await openMessaging(kernel, (error) => expect.fail(String(error)));
  engine.failNext('disk_full');
  const first = await port.claimNonce(agent, 'a-nonce-that-is-long-enough');
  expect(first.fresh).toBe(true);
  await expect(first.durable).rejects.toMatchObject({ code: 'disk_full' });
  const second = await port.claimNonce(agent, 'a-nonce-that-is-long-enough');
  expect(second.fresh).toBe(true);
  await second.durable;
  expect((await port.claimNonce(agent, 'a-nonce-that-is-long-enough')).fresh).toBe(false);
  expect(await port.nonceUsed(agent, 'a-nonce-that-is-long-enough')).toBe(true);
  await port.close();
});

it('refuses a nonce for as long as it counts, also when the clock is set back', async () => {
  await open();
  const nonces = new Nonces(kernel.root, limits);
  const first = nowMs;
  try {
    for (const share of [0, 0.5, 1, -1, -10]) {
      nowMs = first + share * limits.nonceSeconds * 1_000;
      expect([
        share,
        await kernel.root.transact((tx) => nonces.insert(tx, agent, 'one') !== undefined),
      ]).toEqual([share, share === 0]);
    }
  } finally {
    nowMs = first;
  }
});

it('knows nonces after a restart', async () => {
  await open();
  const before = new Nonces(kernel.root, limits);
  await kernel.root.transact((tx) => before.insert(tx, agent, 'used'));
  const after = new Nonces(kernel.root, limits);
  expect(['used', 'new'].map((nonce) => after.isUsed(agent, nonce))).toEqual([true, false]);
});

it('keeps the times of forgotten nonces, also over a restart', async () => {
  await open();
  const port = (await openMessaging(kernel)).messaging;
  const first = nowMs;
  const used = (atMs: number) => port.noncesForgotten(atMs, atMs);
  try {
    await port.claimNonce(agent, 'a-nonce-that-is-long-enough').then(({ durable }) => durable);
    expect(used(first)).toBe(false);
    nowMs = first + 4 * limits.nonceSeconds * 1_000;
    await kernel.sweep();
    nowMs = first;
    expect([await port.nonceUsed(agent, 'a-nonce-that-is-long-enough'), used(first)]).toEqual([false, true]);
    const restarted = new Nonces(kernel.root, limits);
    expect(restarted.isUsed(agent, 'a-nonce-that-is-long-enough')).toBe(false);
    expect([
      restarted.isForgotten(first, first),
      restarted.isForgotten(first - 3_600_000, first + 3_600_000),
      restarted.isForgotten(first + limits.nonceSeconds * 1_000, first + 3_600_000),
      restarted.isForgotten(first - 3_600_000, first - limits.nonceSeconds * 1_000),
    ]).toEqual([true, true, false, false]);
  } finally {
    nowMs = first;
    await port.close();
  }
});

it('keeps a bounded number of forgotten times: the earliest are joined', async () => {
  await open();
  const forgotten = ForgottenTimes.read(kernel.root);
  for (let hour = 0; hour < 100; hour += 1) forgotten.add(hour * 1_000, hour * 1_000 + 10);
  await kernel.root.transact((tx) => forgotten.write(tx));
  const stored = ForgottenTimes.read(kernel.root);
  expect([stored.has(500, 500), stored.has(98_500, 98_500), stored.has(99_005, 99_005)]).toEqual([
    true,
    false,
    true,
  ]);
});
