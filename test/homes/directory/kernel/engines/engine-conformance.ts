/** What every storage engine must do, as tests that run against any of them. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { storeConfigDefaults } from '../../../../../src/core/settings/store-config.js';
import { keyBytesMax, pageBytesMax } from '../../../../../src/homes/directory/kernel/engine.js';
import type { Engine, EngineConfig, Entry } from '../../../../../src/homes/directory/kernel/engine.js';
import { del, families, keysOf, put, text } from './entries.js';
import { rangeConformance } from './range-conformance.js';

/** Opens one database. Missing families are created; families on disk that are not named stay unchanged. */
type OpenEngine = (config: EngineConfig, families: readonly string[]) => Promise<Engine>;

/** Runs the suite. `survivesClosing` is false for an engine that forgets everything when it is closed. */
export function engineConformance(name: string, open: OpenEngine, survivesClosing = true): void {
  describe(`the ${name} engine`, () => {
    let dataDir: string;
    let engine: Engine;

    async function openAgain(named: readonly string[] = families): Promise<Engine> {
      return open({ ...storeConfigDefaults, data_dir: dataDir }, named);
    }

    beforeEach(async () => {
      dataDir = await mkdtemp(join(tmpdir(), 'stoa-engine-'));
      engine = await openAgain();
    });

    afterEach(async () => {
      await engine.close();
      await rm(dataDir, { recursive: true, force: true });
    });

    describe('reading and writing', () => {
      it('returns what was committed, and undefined for what was not', async () => {
        await engine.commit([put('documents', 'a', '1')]);
        expect(text(engine.get('documents', Buffer.from('a')))).toBe('1');
        expect(engine.get('documents', Buffer.from('b'))).toBeUndefined();
        expect(engine.get('agents', Buffer.from('a'))).toBeUndefined();
      });

      it('returns many values in the order of the keys', async () => {
        await engine.commit([put('documents', 'a', '1'), put('documents', 'c', '3')]);
        const values = engine.getMany(
          'documents',
          ['c', 'b', 'a', 'c'].map((key) => Buffer.from(key)),
        );
        expect(values.map(text)).toEqual(['3', undefined, '1', '3']);
        expect(engine.getMany('documents', [])).toEqual([]);
      });

      it('distinguishes an empty value from a missing one', async () => {
        await engine.commit([put('documents', 'empty', ''), put('documents', 'full', 'x')]);
        expect(engine.get('documents', Buffer.from('empty'))).toEqual(Buffer.alloc(0));
        expect(engine.getMany('documents', [Buffer.from('empty')])).toEqual([Buffer.alloc(0)]);
        expect([...engine.range('documents', {})].map(({ value }) => value.length)).toEqual([0, 1]);
        await engine.commit([put('documents', 'full', '')]);
        expect(engine.get('documents', Buffer.from('full'))).toEqual(Buffer.alloc(0));
      });

      it('returns buffers that later reads and writes do not change', async () => {
        await engine.commit([put('documents', 'a', 'first'), put('documents', 'b', 'other')]);
        const first = engine.get('documents', Buffer.from('a'));
        const [ranged] = engine.range('documents', {});
        engine.get('documents', Buffer.from('b'));
        await engine.commit([put('documents', 'a', 'later')]);
        engine.get('documents', Buffer.from('a'));
        expect(text(first)).toBe('first');
        expect(text(ranged?.value)).toBe('first');
        first?.fill(0);
        ranged?.value.fill(0);
        ranged?.key.fill(0);
        expect(text(engine.get('documents', Buffer.from('a')))).toBe('later');
      });

      it('stores values of a mebibyte and more beside small ones', async () => {
        const large = Buffer.alloc(1024 * 1024, 'large');
        const larger = Buffer.alloc(5 * 1024 * 1024 + 7, 'larger');
        await engine.commit([
          put('documents', 'large', large),
          put('documents', 'larger', larger),
          put('documents', 's', 's'),
        ]);
        expect(engine.get('documents', Buffer.from('large'))?.equals(large)).toBe(true);
        expect(text(engine.get('documents', Buffer.from('s')))).toBe('s');
        const kept = engine.get('documents', Buffer.from('larger'));
        const ranged = [...engine.range('documents', {})].map(({ value }) => value);
        expect(kept?.equals(larger)).toBe(true);
        expect(ranged[0]?.equals(large)).toBe(true);
        expect(ranged[1]?.equals(larger)).toBe(true);
        expect(text(ranged[2])).toBe('s');
      });

      it('writes each commit once, also after a large one', async () => {
        await engine.commit([put('documents', 'large', Buffer.alloc(1536 * 1024, 'large'))]);
        for (let number = 0; number < 100; number += 1)
          await engine.commit([put('documents', `k${number}`, Buffer.alloc(4096, 'v'))]);
        await engine.commit([del('documents', 'large')]);
        expect(keysOf(engine.range('documents', {}))).toHaveLength(100);
        expect(engine.stats().sizeBytes).toBeLessThan(8 * 1024 * 1024);
      });

      it('accepts keys up to the longest, and refuses longer and empty ones', async () => {
        const longest = Buffer.alloc(keyBytesMax, 0xff);
        const tooLong = Buffer.alloc(keyBytesMax + 1, 'k');
        await engine.commit([put('documents', longest, 'ok')]);
        expect(text(engine.get('documents', longest))).toBe('ok');
        expect(keysOf(engine.range('documents', { gte: longest, lte: longest }))).toHaveLength(1);
        await expect(
          engine.commit([put('documents', 'fine', '1'), put('documents', tooLong, '2')]),
        ).rejects.toMatchObject({
          code: 'too_large',
        });
        await expect(engine.commit([put('documents', Buffer.alloc(0), '2')])).rejects.toMatchObject({
          code: 'internal',
        });
        expect(() => engine.get('documents', tooLong)).toThrow('1978');
        expect(() => engine.getMany('documents', [tooLong])).toThrow('1978');
        expect(() => engine.range('documents', { lt: tooLong })).toThrow('1978');
        expect(engine.get('documents', Buffer.from('fine'))).toBeUndefined();
      });

      it('throws for a family that it was not opened with', async () => {
        expect(() => engine.get('unknown', Buffer.from('a'))).toThrow('unknown');
        expect(() => engine.range('unknown', {})).toThrow('unknown');
        await expect(engine.commit([put('documents', 'a', '1'), put('unknown', 'a', '1')])).rejects.toThrow(
          'unknown',
        );
        expect(engine.get('documents', Buffer.from('a'))).toBeUndefined();
      });
    });

    rangeConformance(() => engine);

    describe('commits', () => {
      it('write several families at once, or none of them', async () => {
        await engine.commit([
          put('documents', 'a', '1'),
          put('agents', 'a', '2'),
          put('registry/tokens', 'a', '3'),
        ]);
        expect(families.map((family) => text(engine.get(family, Buffer.from('a'))))).toEqual(['1', '2', '3']);
      });

      it('keep the last write of a key, and may delete a missing key', async () => {
        await engine.commit([
          put('documents', 'a', '1'),
          put('documents', 'a', '2'),
          del('documents', 'absent'),
        ]);
        expect(text(engine.get('documents', Buffer.from('a')))).toBe('2');
        await engine.commit([
          put('documents', 'a', '3'),
          del('documents', 'a'),
          del('documents', 'b'),
          put('documents', 'b', '4'),
        ]);
        expect(keysOf(engine.range('documents', {}))).toEqual(['b']);
        await engine.commit([]);
        await engine.commit([del('documents', 'absent')]);
        expect(text(engine.get('documents', Buffer.from('b')))).toBe('4');
      });

      it('are seen when they have resolved and not before', async () => {
        await engine.commit([put('documents', 'a', 'old')]);
        for (let round = 0; round < 50; round += 1) {
          const before = text(engine.get('documents', Buffer.from('a')));
          let resolved = false;
          const commit = engine
            .commit([put('documents', 'a', `new ${round}`), put('agents', 'a', `new ${round}`)])
            .then(() => {
              resolved = true;
              return text(engine.get('documents', Buffer.from('a')));
            });
          expect(text(engine.get('documents', Buffer.from('a')))).toBe(before);
          for (;;) {
            await new Promise((resolve) => setImmediate(resolve));
            if (resolved) break;
            expect(text(engine.get('documents', Buffer.from('a')))).toBe(before);
            expect(keysOf(engine.range('agents', {}))).toHaveLength(round === 0 ? 0 : 1);
          }
          expect(await commit).toBe(`new ${round}`);
          expect(text([...engine.range('agents', {})][0]?.value)).toBe(`new ${round}`);
        }
      });

      it('started without waiting are applied in the order they were started', async () => {
        const order: number[] = [];
        const commits = Array.from({ length: 20 }, async (_, index) => {
          await engine.commit([put('documents', 'a', String(index)), put('documents', `k${index}`, '')]);
          order.push(index);
        });
        await Promise.all(commits);
        expect(order).toEqual(order.toSorted((left, right) => left - right));
        expect(text(engine.get('documents', Buffer.from('a')))).toBe('19');
        expect(engine.stats().families['documents']?.entries).toBe(21);
      });

      it('may hold ten thousand operations', async () => {
        const operations = Array.from({ length: 10_000 }, (_, index) =>
          put('documents', `k${index}`, `v${index}`),
        );
        await engine.commit(operations);
        expect(
          engine
            .getMany(
              'documents',
              operations.map(({ key }) => key),
            )
            .map(text),
        ).toEqual(operations.map(({ value }) => text(value)));
        await engine.commit(
          operations.slice(1).map(({ key }) => ({ family: 'documents', key, value: undefined })),
        );
        expect(keysOf(engine.range('documents', {}))).toEqual(['k0']);
      });
    });

    describe('snapshots', () => {
      it('do not change during a thousand later commits, in key order, alternating between families', async () => {
        const keys = Array.from({ length: 300 }, (_, index) => `k${String(index).padStart(3, '0')}`);
        await engine.commit(
          keys.flatMap((key) => [put('documents', key, 'before'), put('agents', key, 'before')]),
        );
        const snapshot = engine.snapshot();
        const seen: Record<string, Entry[]> = { documents: [], agents: [] };
        for (let round = 0; round < 1000; round += 1) {
          const key = keys[round % keys.length] as string;
          const change = round % 3 === 0 ? del('documents', key) : put('documents', key, `after ${round}`);
          await engine.commit([change, put('agents', `${key}-new`, 'after'), put('agents', key, 'after')]);
          if (round % 10 === 0) {
            for (const family of ['documents', 'agents']) seen[family]?.push(...snapshot.next(family, 3));
          }
        }
        for (const family of ['documents', 'agents']) {
          expect(seen[family]?.map(({ key }) => key.toString())).toEqual(keys);
          expect(seen[family]?.every(({ value }) => value.toString() === 'before')).toBe(true);
          expect(snapshot.next(family, 10)).toEqual([]);
        }
        expect(snapshot.next('registry/tokens', 10)).toEqual([]);
        await snapshot.close();
        expect(() => snapshot.next('documents', 1)).toThrow('closed');
        expect(engine.stats().families['agents']?.entries).toBe(600);
      });

      it('show the state when they were taken, independent of each other', async () => {
        await engine.commit([put('documents', 'a', '1')]);
        const first = engine.snapshot();
        const commit = engine.commit([put('documents', 'b', '2')]);
        const second = engine.snapshot();
        await commit;
        const third = engine.snapshot();
        const lengths = [first, second, third].map((snapshot) => snapshot.next('documents', 10).length);
        expect(lengths).toEqual([1, 1, 2]);
        for (const snapshot of [second, first, third]) await snapshot.close();
        await first.close();
      });

      it('hand out large values a few at a time, without losing one', async () => {
        const keys = Array.from({ length: 6 }, (_, index) => `k${index}`);
        await engine.commit(keys.map((key) => put('documents', key, Buffer.alloc(1024 * 1024, key))));
        const snapshot = engine.snapshot();
        const seen: Entry[] = [];
        for (
          let page = snapshot.next('documents', 500);
          page.length > 0;
          page = snapshot.next('documents', 500)
        ) {
          const before = page.slice(0, -1).reduce((sum, { value }) => sum + value.length, 0);
          expect(before).toBeLessThanOrEqual(pageBytesMax);
          seen.push(...page);
        }
        await snapshot.close();
        expect(keysOf(seen)).toEqual(keys);
        expect(seen.every(({ key, value }) => value.equals(Buffer.alloc(1024 * 1024, key)))).toBe(true);
        expect(keysOf(engine.range('documents', {}))).toEqual(keys);
        expect(keysOf(engine.range('documents', { reverse: true, limit: 5 }))).toEqual(
          keys.toReversed().slice(0, 5),
        );
      });
    });

    it('can hold two hundred snapshots of different moments', async () => {
      const snapshots = [];
      for (let round = 0; round < 200; round += 1) {
        await engine.commit([put('documents', 'a', String(round))]);
        snapshots.push(engine.snapshot());
      }
      const seen = snapshots.map((snapshot) => text(snapshot.next('documents', 1)[0]?.value));
      expect(seen).toEqual(Array.from({ length: 200 }, (_, round) => String(round)));
      for (const snapshot of snapshots) await snapshot.close();
    });

    it('counts its entries', async () => {
      await engine.commit([put('documents', 'a', '1'), put('documents', 'b', '2'), put('agents', 'a', '3')]);
      await engine.commit([put('documents', 'a', 'changed'), del('agents', 'a')]);
      const stats = engine.stats();
      expect(Object.keys(stats.families).toSorted()).toEqual(families.toSorted());
      expect(families.map((family) => stats.families[family]?.entries)).toEqual([2, 0, 0]);
      expect(stats.sizeBytes).toBeGreaterThan(0);
      expect(stats.families['documents']?.sizeBytes).toBeGreaterThan(0);
    });

    it('refuses everything after it is closed, and finishes running commits', async () => {
      const snapshot = engine.snapshot();
      await engine.commit([put('documents', 'a', '1'), put('documents', 'b', '1')]);
      const scan = engine.range('documents', {})[Symbol.iterator]();
      scan.next();
      const unlooped = engine.range('documents', {});
      const commit = engine.commit([put('documents', 'c', '1')]);
      const closing = engine.close();
      await expect(commit).resolves.toBeUndefined();
      await closing;
      await engine.close();
      const closed = expect.objectContaining({ code: 'closed' });
      expect(() => engine.get('documents', Buffer.from('a'))).toThrow(closed);
      expect(() => engine.getMany('documents', [])).toThrow(closed);
      expect(() => engine.range('documents', {})).toThrow(closed);
      expect(() => [...unlooped]).toThrow(closed);
      expect(() => scan.next()).toThrow(closed);
      expect(() => engine.snapshot()).toThrow(closed);
      expect(() => snapshot.next('documents', 1)).toThrow(closed);
      expect(() => engine.stats()).toThrow(closed);
      await expect(engine.commit([put('documents', 'a', '1')])).rejects.toThrow(closed);
    });

    if (survivesClosing) {
      it('has all data after it is opened again', async () => {
        for (let round = 0; round < 20; round += 1) {
          await engine.commit([put('documents', `k${round}`, `v${round}`), put('agents', `k${round}`, '')]);
        }
        await engine.close();
        engine = await openAgain();
        expect([...engine.range('documents', {})]).toHaveLength(20);
        expect(text(engine.get('documents', Buffer.from('k7')))).toBe('v7');
        expect(engine.get('agents', Buffer.from('k7'))).toEqual(Buffer.alloc(0));
      });

      it('adds a family that is new, and keeps one that is not named', async () => {
        await engine.commit([put('documents', 'a', '1'), put('agents', 'a', '2')]);
        await engine.close();
        engine = await openAgain(['documents', 'new']);
        await engine.commit([put('new', 'a', '3')]);
        expect(text(engine.get('documents', Buffer.from('a')))).toBe('1');
        expect(() => engine.get('agents', Buffer.from('a'))).toThrow('agents');
        await engine.close();
        engine = await openAgain([...families, 'new']);
        expect(text(engine.get('agents', Buffer.from('a')))).toBe('2');
        expect(text(engine.get('new', Buffer.from('a')))).toBe('3');
      });
    }
  });
}
