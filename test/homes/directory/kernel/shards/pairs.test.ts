import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoaError } from '../../../../../src/core/errors.js';
import type {
  CommitOptions,
  Engine,
  WriteOperation,
} from '../../../../../src/homes/directory/kernel/engine.js';
import { kernelFamilies } from '../../../../../src/homes/directory/kernel/families.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import type { Transaction } from '../../../../../src/homes/directory/kernel/transaction.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { eventually } from '../../../../until.js';

const family = 'test/values';
let dataDir: string;
let kernel: Kernel;
let clock: () => number;
/** What delays or fails a commit, by shard. */
let obstacles: ((operations: readonly WriteOperation[]) => Promise<void> | void)[];

async function open(): Promise<Kernel> {
  obstacles = [];
  return openKernel({
    dataDir,
    shards: 3,
    families: [family],
    limits: limitsWith(),
    clock: () => clock(),
    wrapEngine: (engine, shard) => withObstacle(engine, shard),
  });
}

function withObstacle(engine: Engine, shard: number): Engine {
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === 'commit')
        return async (operations: readonly WriteOperation[], options?: CommitOptions) => {
          await obstacles[shard]?.(operations);
          await target.commit(operations, options);
        };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-pairs-'));
  clock = Date.now;
  kernel = await open();
});

afterEach(async () => {
  await kernel.close();
  await rm(dataDir, { recursive: true, force: true });
});

const own = (): Store => kernel.stores[2] as Store;
const valueIn = (store: Store, key: string) => store.get(family, Buffer.from(key))?.toString();

function putBoth(key: string, value = 'x'): Promise<string> {
  return kernel.transactBoth(own(), (tx, root) => {
    root.put(family, Buffer.from(key), Buffer.from(value));
    root.change({ domain: 'messaging', kind: 'message.posted', id: key, user: null, version: null });
    tx.put(family, Buffer.from(key), Buffer.from(value));
    tx.change({ domain: 'data', kind: 'document.set', id: key, user: 'u', version: 1 });
    return value;
  });
}

function refuse(): Promise<never> {
  return kernel.transactBoth(own(), () => {
    throw new StoaError('conflict', 'Refused.');
  });
}

async function rowsLeft(): Promise<number> {
  await kernel.betweenPairs(async () => undefined);
  return [...kernel.root.range(kernelFamilies.intents, {})].length;
}

describe('a write over two shards', () => {
  it('that is refused does not block later writes of both shards', async () => {
    const before = putBoth('before');
    const outcomes = await Promise.allSettled([before, refuse(), refuse(), putBoth('after', 'kept')]);
    expect(
      outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code)),
    ).toEqual(['x', 'conflict', 'conflict', 'kept']);
  });

  it('is in both, announced as one commit, and leaves no intent behind', async () => {
    expect(await putBoth('a', 'first')).toBe('first');
    expect([valueIn(own(), 'a'), valueIn(kernel.root, 'a')]).toEqual(['first', 'first']);
    const { commits } = kernel.feed.read();
    expect(commits.map(({ changes }) => changes.map(({ kind }) => kind))).toEqual([
      ['message.posted', 'document.set'],
    ]);
    expect(await rowsLeft()).toBe(0);
  });

  it('is in neither when its body throws', async () => {
    const refused = kernel.transactBoth(own(), (tx, root) => {
      root.put(family, Buffer.from('a'), Buffer.from('1'));
      tx.put(family, Buffer.from('a'), Buffer.from('1'));
      throw new StoaError('conflict', 'refused inside');
    });
    await expect(refused).rejects.toMatchObject({ code: 'conflict' });
    expect([valueIn(own(), 'a'), valueIn(kernel.root, 'a')]).toEqual([undefined, undefined]);
    expect(await putBoth('b')).toBe('x');
  });

  it('reaches the other shard only after shard 00 has it', async () => {
    let release: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    obstacles[0] = () => held;
    const order: string[] = [];
    obstacles[2] = () => void order.push('other shard');
    const written = putBoth('a').then(() => order.push('answered'));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(order).toEqual([]);
    obstacles[0] = () => void order.push('shard 00');
    release?.();
    await written;
    expect(order.slice(0, 2)).toEqual(['other shard', 'answered']);
  });

  it('is in neither when the disk of shard 00 is full, and both shards can write afterwards', async () => {
    obstacles[0] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    await expect(putBoth('a')).rejects.toMatchObject({ code: 'disk_full' });
    obstacles[0] = () => undefined;
    expect([valueIn(own(), 'a'), valueIn(kernel.root, 'a')]).toEqual([undefined, undefined]);
    expect(await putBoth('b')).toBe('x');
    expect(valueIn(own(), 'b')).toBe('x');
  });

  it('is finished at the next start when the other shard failed after shard 00 had it', async () => {
    obstacles[2] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    await expect(putBoth('a')).rejects.toBeInstanceOf(StoaError);
    obstacles[2] = () => undefined;
    // A later write of the same row must not come before it.
    const later = own().transact((tx) => tx.put(family, Buffer.from('a'), Buffer.from('later')));
    await expect(later).rejects.toMatchObject({ code: 'writes_stopped' });
    await kernel.close();
    kernel = await open();
    expect([valueIn(own(), 'a'), valueIn(kernel.root, 'a')]).toEqual(['x', 'x']);
    expect(kernel.feed.read().commits).toHaveLength(1);
    expect(await rowsLeft()).toBe(0);
  });

  it('is carried out once, also when the start that finishes it is interrupted', async () => {
    obstacles[2] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    await expect(putBoth('a')).rejects.toBeInstanceOf(StoaError);
    await kernel.close();
    let commits = 0;
    const cutOff = openKernel({
      dataDir,
      families: [family],
      limits: limitsWith(),
      wrapEngine: (engine, shard) => {
        const wrapped = withObstacle(engine, shard);
        if (shard === 0)
          obstacles[0] = () => {
            commits += 1;
            throw new Error('cut off');
          };
        else obstacles[shard] = () => undefined;
        return wrapped;
      },
    });
    await expect(cutOff).rejects.toBeInstanceOf(Error);
    expect(commits).toBeGreaterThan(0);
    kernel = await open();
    expect(valueIn(own(), 'a')).toBe('x');
    expect(kernel.feed.read().commits).toHaveLength(1);
    expect(await rowsLeft()).toBe(0);
  });

  it('is finished after the earlier ones, and with all that it was built on', async () => {
    obstacles[2] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    const count = (tx: Transaction): void => {
      const counted = Number(tx.get(family, Buffer.from('count'))?.toString() ?? 0) + 1;
      tx.put(family, Buffer.from('count'), Buffer.from(String(counted)));
      tx.put(family, Buffer.from(`entry ${counted}`), Buffer.from('x'));
    };
    const writes = Array.from({ length: 12 }, (_, index) =>
      index % 3 === 0
        ? own().transact(count)
        : kernel.transactBoth(own(), (tx, root) => {
            count(tx);
            root.put(family, Buffer.from(`message ${index}`), Buffer.from('x'));
          }),
    );
    expect((await Promise.allSettled(writes)).map(({ status }) => status)).toEqual(
      Array.from({ length: 12 }, () => 'rejected'),
    );
    await kernel.close();
    kernel = await open();
    const entries = Array.from(own().range(family, { gte: Buffer.from('entry'), lt: Buffer.from('f') }));
    expect([valueIn(own(), 'count'), entries.length]).toEqual(['12', 12]);
    expect(await rowsLeft()).toBe(0);
  });

  it('is in both or neither when shard 00 fails for a later write of the same group', async () => {
    let release: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    obstacles[2] = () => held;
    const before = own().transact((tx) => tx.put(family, Buffer.from('s'), Buffer.from('s')));
    await new Promise((resolve) => setTimeout(resolve, 20));
    const decided = putBoth('decided');
    await eventually(() => expect(valueIn(kernel.root, 'decided')).toBe('x'));
    obstacles[0] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    const refused = putBoth('refused');
    await new Promise((resolve) => setTimeout(resolve, 20));
    obstacles[0] = () => undefined;
    await expect(putBoth('late')).rejects.toMatchObject({ code: 'disk_full' });
    release?.();
    await before;
    await expect(refused).rejects.toMatchObject({ code: 'disk_full' });
    await expect(decided).rejects.toMatchObject({ code: 'writes_stopped' });
    await kernel.close();
    kernel = await open();
    for (const [key, value] of Object.entries({ decided: 'x', refused: undefined, late: undefined }))
      expect([valueIn(own(), key), valueIn(kernel.root, key)], key).toEqual([value, value]);
    expect(await rowsLeft()).toBe(0);
  });

  it('that is finished at the start does not hide how long no server ran', async () => {
    obstacles[2] = () => {
      throw new StoaError('disk_full', 'no room');
    };
    await expect(putBoth('a')).rejects.toBeInstanceOf(StoaError);
    await kernel.abandon();
    clock = () => Date.now() + 60_000;
    kernel = await open();
    const { fromMs, toMs } = kernel.outages.at(-1) ?? { fromMs: 0, toMs: 0 };
    expect(toMs - fromMs).toBeGreaterThan(59_000);
  });

  it('waits while a backup looks at all shards', async () => {
    const order: string[] = [];
    const looked = kernel.betweenPairs(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      order.push('looked');
    });
    const written = putBoth('a').then(() => order.push('written'));
    await Promise.all([looked, written]);
    expect(order).toEqual(['looked', 'written']);
  });

  it('is complete among many concurrent writes', async () => {
    await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        index % 3 === 0
          ? own().transact((tx) => tx.put(family, Buffer.from(`s${index}`), Buffer.from('s')))
          : putBoth(`p${index}`),
      ),
    );
    for (let index = 0; index < 200; index += 1) {
      if (index % 3 === 0) expect(valueIn(own(), `s${index}`)).toBe('s');
      else expect([valueIn(own(), `p${index}`), valueIn(kernel.root, `p${index}`)]).toEqual(['x', 'x']);
    }
    expect(await rowsLeft()).toBe(0);
  });
});

/** Commits of all shards until the power fails. The last one is on disk or not, and nobody gets its answer. */
class Power {
  commits = 0;

  constructor(
    readonly failsAt = Infinity,
    readonly lastIsOnDisk = false,
  ) {}

  async commit(run: () => Promise<void>): Promise<void> {
    this.commits += 1;
    if (this.commits < this.failsAt || (this.commits === this.failsAt && this.lastIsOnDisk)) await run();
    if (this.commits >= this.failsAt) throw new Error('The power has failed.');
  }
}

function openWith(directory: string, power: Power): Promise<Kernel> {
  return openKernel({
    dataDir: directory,
    shards: 2,
    families: [family],
    limits: limitsWith(),
    wrapEngine: (engine) =>
      new Proxy(engine, {
        get: (target, name) => {
          if (name === 'commit')
            return (...given: Parameters<Engine['commit']>) => power.commit(() => target.commit(...given));
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
  });
}

function putEntry(tx: Transaction, name: string): void {
  tx.put(family, Buffer.from(`entry ${name}`), Buffer.from('x'));
}

function countEntry(tx: Transaction, name: string): void {
  const counted = Number(tx.get(family, Buffer.from('count'))?.toString() ?? 0) + 1;
  tx.put(family, Buffer.from('count'), Buffer.from(String(counted)));
  putEntry(tx, name);
}

/** In each of two waves a write to shard 01, and two to both shards. Each counts on from the one before. */
async function writeWaves(opened: Kernel): Promise<string[]> {
  const acknowledged: string[] = [];
  const store = opened.stores[1] as Store;
  for (const wave of [1, 2]) {
    const both = (name: string): Promise<void> =>
      opened.transactBoth(store, (tx, root) => {
        countEntry(tx, name);
        putEntry(root, name);
      });
    const alone = (name: string): Promise<void> => store.transact((tx) => countEntry(tx, name));
    const writes = [
      [both, `both 1 of wave ${wave}`],
      [alone, `alone of wave ${wave}`],
      [both, `both 2 of wave ${wave}`],
    ] as const;
    await Promise.allSettled(writes.map(([write, name]) => write(name).then(() => acknowledged.push(name))));
  }
  return acknowledged;
}

function entriesIn(store: Store): string[] {
  const rows = store.range(family, { gte: Buffer.from('entry '), lt: Buffer.from('entry~') });
  return Array.from(rows, ({ key }) => key.toString().slice('entry '.length));
}

/** Answers undefined if the power fails during the start. */
async function startedWith(directory: string, power: Power): Promise<Kernel | undefined> {
  try {
    return await openWith(directory, power);
  } catch (error) {
    if (power.commits >= power.failsAt) return undefined;
    throw error;
  }
}

it('every write is in both shards or in none, at whichever commit the power fails, also during the next start', async () => {
  const all = new Power();
  for (let failsAt = 1; failsAt <= Math.max(all.commits, 1); failsAt += 1)
    for (const lastIsOnDisk of [false, true]) {
      const directory = await mkdtemp(join(tmpdir(), 'stoa-power-'));
      const first = await openWith(directory, failsAt === 1 && !lastIsOnDisk ? all : new Power());
      if (failsAt === 1 && !lastIsOnDisk) await writeWaves(first);
      await first.close();
      const before = failsAt === 1 && !lastIsOnDisk ? await readAll(directory) : [];
      const about = `commit ${failsAt} of ${all.commits}, ${lastIsOnDisk ? 'on disk' : 'lost'}`;
      const cut = await startedWith(directory, new Power(failsAt, lastIsOnDisk));
      const acknowledged = cut === undefined ? [] : await writeWaves(cut);
      await cut?.abandon();
      const again = await startedWith(directory, new Power(1 + (failsAt % 3), !lastIsOnDisk));
      await again?.abandon();
      expect(await readAll(directory), about).toEqual(expect.arrayContaining([...before, ...acknowledged]));
      await rm(directory, { recursive: true });
    }
  expect(all.commits).toBeGreaterThan(6);
});

/** The names in shard 01, after everything was compared. */
async function readAll(directory: string): Promise<string[]> {
  const opened = await openWith(directory, new Power());
  try {
    const [root, own] = opened.stores as [Store, Store];
    const names = entriesIn(own);
    expect(entriesIn(root)).toEqual(names.filter((name) => name.startsWith('both')));
    expect(Number(own.get(family, Buffer.from('count'))?.toString() ?? 0)).toBe(names.length);
    await opened.betweenPairs(async () => undefined);
    expect([...root.range(kernelFamilies.intents, {})]).toEqual([]);
    return names;
  } finally {
    await opened.close();
  }
}
