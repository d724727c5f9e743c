/** The conformance suite of locks: what every home must do. */
import { type Caller, fullScopes, operatorCaller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Limits } from '../../core/settings/limits.js';
import { type TestRunner, eventually, refusals } from '../../core/test-runner.js';
import type { CommitService } from '../../commit/service.js';
import type { RegistryService } from '../../registry/service.js';
import type { LocksService } from '../service.js';

export interface LocksBench {
  readonly locks: LocksService;
  readonly registry: RegistryService;
  readonly commit: CommitService;
  /** What was announced about locks, oldest first. */
  changes(): Promise<readonly Change[]>;
  /** Moves the clock, by which the home decides, and does what is due by then. */
  pass(seconds: number): Promise<void>;
  /** Moves the clock only. */
  passUnswept(seconds: number): void;
  /** What the home's own check finds wrong. */
  findings(): Promise<unknown[]>;
  close(): Promise<void>;
}

/** Opens an empty home. */
export type OpenLocks = (limits?: Partial<Limits>) => Promise<LocksBench>;

function agent(name: string, user = 'alice'): Caller {
  return { ...operatorCaller(user, name), kind: 'user', scopes: fullScopes };
}

/** A clock of a database that a test turns is a few milliseconds late. */
function secondsBetween(from: string, to: string): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / 1_000);
}

const otter = agent('otter');
const heron = agent('heron');

export function locksConformance(
  { describe, it, afterEach, expect }: TestRunner,
  { name, open }: { name: string; open: OpenLocks },
): void {
  describe(`locks on ${name}`, () => {
    const refused = refusals(expect);
    let bench: LocksBench | undefined;
    const opened = async (limits: Partial<Limits> = {}): Promise<LocksBench> => (bench = await open(limits));
    afterEach(async () => {
      const open = bench;
      bench = undefined;
      if (open === undefined) return;
      try {
        expect(await open.findings()).toEqual([]);
      } finally {
        await open.close();
      }
    });
    /** The feed of a home may show a commit a moment after its answer. */
    const announced = ({ changes }: LocksBench, ...expected: string[]): Promise<unknown> =>
      eventually(
        async () =>
          (await changes()).map(({ kind, facts }) => `${kind} ${facts?.['name']} ${facts?.['holder']}`),
        (seen) => JSON.stringify(seen) === JSON.stringify(expected),
      );
    const names = async ({ locks }: LocksBench, prefix?: string): Promise<string[]> =>
      (await locks.list(otter, { prefix })).items.map((lock) => lock.name);

    it('are taken by one holder, and the refusal of another names it, since when, and the end', async () => {
      const { locks, ...rest } = await opened();
      const { lock, acquired } = await locks.acquire(otter, 'src/app.ts', { ttl: 60, note: 'refactoring' });
      expect(acquired).toBe(true);
      expect(lock).toMatchObject({ name: 'src/app.ts', holder: 'otter', note: 'refactoring' });
      expect(secondsBetween(lock.acquired_at, lock.expires_at)).toBe(60);
      await refused(locks.acquire(heron, 'src/app.ts'), 'conflict', {
        details: {
          name: 'src/app.ts',
          holder: 'otter',
          since: lock.acquired_at,
          expires_at: lock.expires_at,
          note: 'refactoring',
        },
      });
      expect((await locks.list(heron)).items).toEqual([lock]);
      await announced({ locks, ...rest }, 'lock.acquired src/app.ts otter');
    });

    it('are renewed by their holder with the same fence, without a change in the feed', async () => {
      const opening = await opened();
      const { locks } = opening;
      const { lock } = await locks.acquire(otter, 'a', { ttl: 60, note: 'first' });
      await opening.pass(30);
      const again = await locks.acquire(otter, 'a', { ttl: 120 });
      expect(again.acquired).toBe(false);
      expect(again.lock).toMatchObject({ fence: lock.fence, note: 'first', acquired_at: lock.acquired_at });
      expect(secondsBetween(lock.acquired_at, again.lock.expires_at)).toBe(150);
      await opening.pass(100);
      expect(await names(opening)).toEqual(['a']);
      const shorter = await locks.acquire(otter, 'a', { ttl: 10, if_fence: lock.fence });
      expect(secondsBetween(lock.acquired_at, shorter.lock.expires_at)).toBe(140);
      await opening.pass(11);
      expect(await names(opening)).toEqual([]);
      await announced(opening, 'lock.acquired a otter', 'lock.lapsed a otter');
    });

    it('lapse at the end of their time, and a later holder has a higher fence', async () => {
      const opening = await opened();
      const { locks } = opening;
      const first = await locks.acquire(otter, 'a', { ttl: 10 });
      opening.passUnswept(11);
      // Not swept yet.
      expect(await names(opening)).toEqual([]);
      const second = await locks.acquire(heron, 'a', { ttl: 10 });
      expect(second.lock.fence).toBeGreaterThan(first.lock.fence);
      await refused(locks.acquire(otter, 'a', { if_fence: first.lock.fence }), 'fenced');
      await opening.pass(11);
      const third = await locks.acquire(otter, 'a');
      expect(third.lock.fence).toBeGreaterThan(second.lock.fence);
      await refused(locks.acquire(otter, 'b', { if_fence: third.lock.fence }), 'fenced');
      await announced(
        opening,
        'lock.acquired a otter',
        'lock.lapsed a otter',
        'lock.acquired a heron',
        'lock.lapsed a heron',
        'lock.acquired a otter',
      );
    });

    it('are released by their holder only, or by force', async () => {
      const opening = await opened();
      const { locks } = opening;
      const { lock } = await locks.acquire(otter, 'a');
      await refused(locks.release(heron, 'a'), 'conflict', { details: { holder: 'otter' } });
      await refused(locks.release(otter, 'a', { if_fence: lock.fence + 1 }), 'fenced');
      expect(await locks.release(otter, 'a', { if_fence: lock.fence })).toEqual({ released: true });
      expect(await locks.release(otter, 'a')).toEqual({ released: false });
      await locks.acquire(heron, 'a');
      const signed: Caller = { ...otter, kind: 'agent' };
      await refused(locks.release(signed, 'a', { force: true }), 'forbidden');
      expect(await locks.release(otter, 'a', { force: true })).toEqual({ released: true });
      expect(await names(opening)).toEqual([]);
    });

    it('go to exactly one of many that ask at once', async () => {
      const { locks } = await opened();
      for (const round of ['a', 'b', 'c']) {
        const outcomes = await Promise.allSettled(
          Array.from({ length: 12 }, (_, index) => locks.acquire(agent(`agent-${index}`), round)),
        );
        expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      }
    });

    it('with if_free are refused to their own holder too', async () => {
      const { locks } = await opened();
      await locks.acquire(otter, 'a', { if_free: true });
      await refused(locks.acquire(otter, 'a', { if_free: true }), 'conflict');
    });

    it('wait for the release of another holder', async () => {
      const { locks } = await opened();
      await locks.acquire(otter, 'a');
      const waiting = locks.acquire(heron, 'a', { wait: 20 });
      await new Promise((resolve) => setTimeout(resolve, 50));
      await locks.release(otter, 'a');
      expect((await waiting).lock.holder).toBe('heron');
      await refused(locks.acquire(otter, 'a', { wait: 0.05 }), 'conflict');
      await refused(locks.acquire(otter, 'a', { wait: 61 }), 'invalid_request');
    });

    it('are freed when the agent that holds them is lost or deleted', async () => {
      const opening = await opened();
      const { locks, registry } = opening;
      const owner: Caller = { ...operatorCaller('alice'), kind: 'user' };
      for (const holder of ['otter', 'heron']) {
        const { agent_id } = await registry.createAgent(owner, { name: holder });
        await registry.start(owner, agent_id);
        await registry.heartbeat(owner, agent_id, { holder });
        for (const path of ['a', 'b'])
          await locks.acquire(agent(holder), `${holder}/${path}`, { ttl: 36_000 });
        if (holder !== 'otter') continue;
        await registry.stop(owner, agent_id);
        await registry.stop(owner, agent_id);
        await registry.deleteAgent(owner, agent_id);
        expect(await names(opening)).toEqual([]);
      }
      await locks.acquire(agent('fox'), 'fox/a', { ttl: 36_000 });
      expect(await names(opening)).toEqual(['fox/a', 'heron/a', 'heron/b']);
      await opening.pass(200);
      expect(await names(opening, 'heron')).toEqual([]);
      const lapsed = await eventually(
        async () => (await opening.changes()).filter(({ kind }) => kind === 'lock.lapsed'),
        (seen) => seen.length >= 4,
      );
      expect(lapsed.map(({ facts }) => facts?.['reason'])).toContain('holder_lost');
    });

    it('belong to a user: another user neither sees nor hinders them', async () => {
      const { locks } = await opened();
      const mallory = agent('otter', 'mallory');
      await locks.acquire(otter, 'a');
      expect((await locks.list(mallory)).items).toEqual([]);
      expect((await locks.acquire(mallory, 'a')).acquired).toBe(true);
      expect(await locks.release(mallory, 'b')).toEqual({ released: false });
      expect((await locks.list(otter)).items).toHaveLength(1);
    });

    it('are listed in pages in the order of their names, by prefix', async () => {
      const opening = await opened();
      const { locks } = opening;
      const made = ['src/é.ts', 'src/a.ts', 'docs/a', 'src/b.ts', 'src', '~x', '../up', 'src/a%.ts'];
      for (const path of made) await locks.acquire(otter, path);
      const order = made.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
      expect(await names(opening)).toEqual(order);
      expect(await names(opening, 'src/')).toEqual(order.filter((path) => path.startsWith('src/')));
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await locks.list(otter, { prefix: 'src', limit: 2, cursor });
        seen.push(...page.items.map((lock) => lock.name));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(seen).toEqual(order.filter((path) => path.startsWith('src')));
      await refused(locks.list(otter, { prefix: 'other', cursor: 'AAAAAAAA' }), 'invalid_cursor');
    });

    it('have limits: number, time, name and note', async () => {
      const { locks } = await opened({ locksPerUserMax: 2 });
      await locks.acquire(otter, 'a');
      await locks.acquire(heron, 'b');
      await refused(locks.acquire(otter, 'c'), 'quota_exceeded');
      await locks.acquire(otter, 'a');
      await locks.release(heron, 'b');
      await locks.acquire(otter, 'c');
      for (const [path, input] of [
        ['', {}],
        ['x'.repeat(1_025), {}],
        ['a\u0000b', {}],
        ['\ud800', {}],
        ['a', { ttl: 86_401 }],
        ['a', { ttl: 0 }],
        ['a', { note: 'x'.repeat(201) }],
        ['a', { note: 'two\nlines' }],
      ] as const)
        await expect(locks.acquire(otter, path, input), JSON.stringify([path, input])).rejects.toMatchObject({
          code: 'invalid_request',
        });
      const reader: Caller = { ...otter, scopes: { write: false, namespaces: null } };
      await refused(locks.acquire(reader, 'd'), 'forbidden');
      await refused(locks.release(reader, 'a'), 'forbidden');
      expect((await locks.list(reader)).items).toHaveLength(2);
    });

    it('take part in commits, as operations and as checks', async () => {
      const opening = await opened();
      const { commit, locks } = opening;
      const taken = await commit.commit(otter, {
        operations: [
          { op: 'lock.acquire', name: 'a', ttl: 60 },
          { op: 'lock.acquire', name: 'b' },
        ],
      });
      expect(taken).toMatchObject({ ok: true, results: [{ name: 'a', holder: 'otter' }, { name: 'b' }] });
      const [a] = (await locks.list(otter)).items;
      const refused = await commit.commit(heron, {
        operations: [
          { op: 'lock.acquire', name: 'c' },
          { op: 'lock.acquire', name: 'a' },
        ],
      });
      expect(refused).toMatchObject({ ok: false, failed: { operation: 1, code: 'conflict' } });
      expect(await names(opening)).toEqual(['a', 'b']);
      const guarded = (fence: number) =>
        commit.commit(otter, {
          checks: [{ check: 'lock', name: 'a', fence }],
          operations: [{ op: 'lock.release', name: 'a' }],
        });
      expect(await guarded((a?.fence ?? 0) + 1)).toMatchObject({ ok: false, failed: { check: 0 } });
      expect(await guarded(a?.fence ?? 0)).toMatchObject({ ok: true, results: [{ released: true }] });
      expect(await guarded(0)).toMatchObject({ ok: true, results: [{ released: false }] });
    });
  });
}
