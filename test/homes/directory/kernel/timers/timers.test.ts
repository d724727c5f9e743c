import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { kernelFamilies } from '../../../../../src/homes/directory/kernel/families.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { Sweeper, type TimerHandler } from '../../../../../src/homes/directory/kernel/timers/sweeper.js';
import { timerKey, timerOf } from '../../../../../src/homes/directory/kernel/timers/timers.js';
import type { Timer } from '../../../../../src/homes/directory/kernel/transaction.js';
import { bytes, items, openStore, removeDirectories, text, until } from '../open-store.js';
import type { FaultyEngine } from '../faulty-engine.js';

afterAll(removeDirectories);

let nowMs: number;
let store: Store;
let engine: FaultyEngine;
let sweeper: Sweeper;
let fired: string[];
let failures: string[];

beforeEach(async () => {
  nowMs = 1000;
  ({ store, engine } = await openStore({ clock: () => nowMs, limits: { sweepStepMax: 10 } }));
  fired = [];
  failures = [];
  sweeper = new Sweeper({
    store,
    intervalMs: 1,
    onError: (error, { kind }) => failures.push(`${kind}: ${String(error)}`),
  });
  sweeper.handle('note', (_tx, reference, atMs) => fired.push(`${reference.toString()}@${atMs}`));
});

function schedule(...timers: [atMs: number, reference: string, kind?: string][]): Promise<void> {
  return store.transact((tx) => {
    for (const [atMs, reference, kind = 'note'] of timers)
      tx.schedule({ atMs, kind, reference: bytes(reference) });
  });
}

function left(): Timer[] {
  return Array.from(store.range(kernelFamilies.timers, {}), ({ key }) => timerOf(key));
}

describe('timers', () => {
  it('fire in order of time, each once, when they are due and not before', async () => {
    await schedule([1500, 'c'], [900, 'a'], [1000, 'b'], [1501, 'd']);
    expect(await sweeper.sweep()).toBe(2);
    expect(fired).toEqual(['a@900', 'b@1000']);
    nowMs = 1500;
    expect(await sweeper.sweep()).toBe(1);
    expect(await sweeper.sweep()).toBe(0);
    expect(fired).toEqual(['a@900', 'b@1000', 'c@1500']);
    expect(left()).toHaveLength(1);
  });

  it('can be cancelled, and set twice without firing twice', async () => {
    await schedule([1000, 'a'], [1000, 'a'], [1000, 'b']);
    await store.transact((tx) => tx.unschedule({ atMs: 1000, kind: 'note', reference: bytes('b') }));
    await sweeper.sweep();
    expect(fired).toEqual(['a@1000']);
  });

  it('keep any reference and any time', () => {
    const timer = { atMs: 2 ** 52, kind: 'lease', reference: Buffer.from([0, 1, 0, 255]) };
    expect(timerOf(timerKey(timer))).toEqual(timer);
  });

  it('are handled in small steps', async () => {
    await schedule(...Array.from({ length: 25 }, (_, index): [number, string] => [index, String(index)]));
    const before = engine.commits;
    expect(await sweeper.sweep()).toBe(25);
    expect(engine.commits - before).toBe(3);
    expect(fired.map((entry) => Number(entry.split('@')[1]))).toEqual(
      Array.from({ length: 25 }, (_, index) => index),
    );
  });

  it('do their work in the transaction that removes them: a failed commit leaves both undone', async () => {
    sweeper.handle('note', (tx, reference) => tx.put(items, reference, bytes('done')));
    await schedule([1000, 'a']);
    engine.failNext('disk_full');
    await expect(sweeper.sweep()).rejects.toMatchObject({ code: 'disk_full' });
    expect([text(store, 'a'), left().length]).toEqual([undefined, 1]);
    await sweeper.sweep();
    expect([text(store, 'a'), left().length]).toEqual(['done', 0]);
  });
});

describe('a handler', () => {
  it('that throws delays no other timer, keeps no write, and is retried later', async () => {
    let broken = true;
    sweeper.handle('fragile', (tx, reference) => {
      tx.put(items, reference, bytes('touched'));
      if (broken) throw new RangeError('broken');
    });
    await schedule([900, 'x', 'fragile'], [901, 'a'], [902, 'y', 'fragile'], [903, 'b']);
    await sweeper.sweep();
    expect(fired.toSorted()).toEqual(expect.arrayContaining(['a@901', 'b@903']));
    expect(failures).toEqual(['fragile: RangeError: broken', 'fragile: RangeError: broken']);
    expect(text(store, 'x')).toBeUndefined();
    expect(left().map(({ atMs, reference }) => [atMs, reference.toString()])).toEqual([
      [61_000, 'x'],
      [61_000, 'y'],
    ]);
    broken = false;
    nowMs = 61_000;
    await sweeper.sweep();
    expect([text(store, 'x'), text(store, 'y'), left()]).toEqual(['touched', 'touched', []]);
  });

  it('that is missing is reported, and its timers wait', async () => {
    await schedule([1000, 'x', 'unknown'], [1000, 'a']);
    await sweeper.sweep();
    expect(failures).toEqual([
      expect.stringContaining('No handler is registered for timers of kind "unknown"'),
    ]);
    expect(left()).toHaveLength(1);
    expect(fired).toContain('a@1000');
  });

  it('that runs early sets another timer', async () => {
    const late: TimerHandler = (tx, reference, atMs) => {
      fired.push(`${reference.toString()}@${atMs}`);
      if (atMs < 3000) tx.schedule({ atMs: 3000, kind: 'late', reference });
    };
    sweeper.handle('late', late);
    await schedule([1000, 'a', 'late']);
    await sweeper.sweep();
    expect(left().map(({ atMs }) => atMs)).toEqual([3000]);
    nowMs = 3000;
    await sweeper.sweep();
    expect(fired).toEqual(['a@1000', 'a@3000']);
    expect(left()).toEqual([]);
  });

  it('that sets its timer in the past does not block the sweeper', async () => {
    sweeper.handle('loop', (tx, reference, atMs) => {
      fired.push(reference.toString());
      tx.schedule({ atMs, kind: 'loop', reference });
    });
    await schedule([500, 'again', 'loop'], [600, 'a']);
    expect(await sweeper.sweep()).toBe(2);
    expect(fired).toEqual(['again', 'a@600']);
  });

  it('may cancel a timer of the same step', async () => {
    sweeper.handle('first', (tx) => tx.unschedule({ atMs: 901, kind: 'note', reference: bytes('second') }));
    await schedule([900, 'first', 'first'], [901, 'second']);
    await sweeper.sweep();
    expect(fired).toEqual([]);
  });
});

describe('a sweeper', () => {
  it('works between start and stop', async () => {
    sweeper.start();
    await schedule([1000, 'a']);
    await until(() => fired.length === 1);
    await sweeper.stop();
    await schedule([1000, 'b']);
    expect(fired).toEqual(['a@1000']);
  });

  it('continues after the store refused writes for a while', async () => {
    await schedule([1000, 'a']);
    engine.failNext('disk_full', 'disk_full');
    sweeper.start();
    await until(() => left().length === 0);
    expect(failures.length).toBeGreaterThanOrEqual(1);
    await sweeper.stop();
  });

  it('reports its delay', async () => {
    expect(sweeper.backlogMs()).toBe(0);
    await schedule([400, 'a'], [2000, 'b']);
    expect(sweeper.backlogMs()).toBe(600);
    await sweeper.sweep();
    expect(sweeper.backlogMs()).toBe(0);
  });
});
