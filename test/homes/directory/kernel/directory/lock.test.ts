import { spawn } from 'node:child_process';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { acquireLock, readLock } from '../../../../../src/homes/directory/kernel/directory/lock.js';
import type { LockOwner } from '../../../../../src/homes/directory/kernel/directory/lock.js';
import { compiledSources } from '../../../../compiled.js';

const script = fileURLToPath(new URL('hold-lock.mjs', import.meta.url));

interface Outcome {
  held?: LockOwner;
  refused?: { code: string; message: string; fix: string };
}

/** Another process that wants the lock. */
class Contender {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly #exited: Promise<unknown>;

  constructor(compiled: string, dataDir: string, url: string) {
    this.#child = spawn(process.execPath, [script, compiled, dataDir, url]);
    this.#child.stderr.pipe(process.stderr);
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#exited = once(this.#child, 'exit');
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  async ready(): Promise<void> {
    expect((await this.#lines.next()).value).toBe('ready');
  }

  async acquire(): Promise<Outcome> {
    this.#child.stdin.write('go\n');
    const { value } = await this.#lines.next();
    return JSON.parse(String(value)) as Outcome;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}

let compiled: string;
let dataDir: string;
let contenders: Contender[];

beforeAll(async () => {
  compiled = await compiledSources();
});

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-lock-'));
  contenders = [];
});

afterEach(async () => {
  await Promise.all(contenders.map((contender) => contender.kill()));
  await rm(dataDir, { recursive: true, force: true });
});

async function contend(count: number): Promise<Contender[]> {
  const added = Array.from(
    { length: count },
    (_, index) => new Contender(compiled, dataDir, `http://127.0.0.1:${7000 + index}`),
  );
  contenders.push(...added);
  await Promise.all(added.map((contender) => contender.ready()));
  return added;
}

async function contendOne(): Promise<Contender> {
  return (await contend(1))[0] as Contender;
}

/** Writes a lock as its owner left it, with some facts changed. */
async function leaveLock(changes: Partial<LockOwner>, silentForMs = 0): Promise<void> {
  const lock = await acquireLock(dataDir, {});
  const owner = { ...lock.owner, ...changes };
  await lock.release();
  await writeFile(join(dataDir, 'stoa.lock'), JSON.stringify(owner));
  const touched = new Date(Date.now() - silentForMs);
  await utimes(join(dataDir, 'stoa.lock'), touched, touched);
}

describe('the lock on a data directory', () => {
  it('refuses a second process and names the first', async () => {
    const first = await contendOne();
    const { held } = await first.acquire();
    expect(held?.pid).toBe(first.pid);
    const { refused } = await (await contendOne()).acquire();
    expect(refused?.code).toBe('locked');
    for (const fact of [String(first.pid), held?.startedAt, 'http://127.0.0.1:7000'])
      expect(refused?.message).toContain(fact);
    expect(refused?.fix).toContain('http://127.0.0.1:7000');
    expect(await readLock(dataDir)).toEqual(held);
  });

  it('refuses the same process a second time', async () => {
    const lock = await acquireLock(dataDir, {});
    await expect(acquireLock(dataDir, {})).rejects.toMatchObject({
      code: 'locked',
      details: { pid: process.pid },
    });
    await lock.release();
  });

  it('passes to the next process after its owner was killed', async () => {
    const first = await contendOne();
    await first.acquire();
    await first.kill();
    expect(await readLock(dataDir)).toBeUndefined();
    const next = await contendOne();
    expect((await next.acquire()).held?.pid).toBe(next.pid);
    expect((await readLock(dataDir))?.pid).toBe(next.pid);
  });

  it('goes to exactly one of eight processes that race for a stale lock', async () => {
    for (let round = 0; round < 3; round += 1) {
      const dead = await contendOne();
      expect((await dead.acquire()).held).toBeDefined();
      await dead.kill();
      const racers = await contend(8);
      const outcomes = await Promise.all(racers.map((racer) => racer.acquire()));
      const winners = outcomes.filter(({ held }) => held !== undefined);
      expect(winners).toHaveLength(1);
      expect(outcomes.filter(({ refused }) => refused?.code === 'locked')).toHaveLength(7);
      expect(await readLock(dataDir)).toEqual(winners[0]?.held);
      expect(await readdir(dataDir)).toEqual(['stoa.lock']);
      await Promise.all(racers.map((racer) => racer.kill()));
    }
  });

  it('goes to one of eight that race for no lock at all', async () => {
    const outcomes = await Promise.all((await contend(8)).map((racer) => racer.acquire()));
    expect(outcomes.filter(({ held }) => held !== undefined)).toHaveLength(1);
  });

  it('is taken over even when the process that was taking it over died half way', async () => {
    const dead = await contendOne();
    const owner = (await dead.acquire()).held as LockOwner;
    await dead.kill();
    const claim = { ...owner, nonce: 'claim-of-a-dead-process' };
    await writeFile(join(dataDir, `stoa.lock.takeover-${owner.nonce}`), JSON.stringify(claim));
    const outcomes = await Promise.all((await contend(4)).map((racer) => racer.acquire()));
    expect(outcomes.filter(({ held }) => held !== undefined)).toHaveLength(1);
    expect(await readdir(dataDir)).toEqual(['stoa.lock']);
  });

  it('does not belong to a live process that only has the pid of its dead owner', async () => {
    await leaveLock({ processStart: '1' });
    expect(await readLock(dataDir)).toBeUndefined();
    const lock = await acquireLock(dataDir, {});
    expect((await readLock(dataDir))?.nonce).toBe(lock.owner.nonce);
    await lock.release();
  });

  it('does not outlive a reboot of its host', async () => {
    await leaveLock({ bootId: 'an earlier boot' });
    await (await acquireLock(dataDir, {})).release();
  });

  it.each([
    ['on another host', { hostname: 'elsewhere', bootId: 'another' }],
    ['in another container', { pidNamespace: 'pid:[1]' }],
  ])('is held by an owner %s as long as it gives a sign of life', async (_, changes) => {
    await leaveLock(changes, 20_000);
    expect(await readLock(dataDir)).toMatchObject(changes);
    await expect(acquireLock(dataDir, {})).rejects.toMatchObject({ code: 'locked' });
    await leaveLockAnew(changes, 31_000);
    expect(await readLock(dataDir)).toBeUndefined();
    await (await acquireLock(dataDir, {})).release();
  });

  it('that cannot be read is respected while it is new and replaced when it is old', async () => {
    const path = join(dataDir, 'stoa.lock');
    await writeFile(path, '{"pid":');
    await expect(acquireLock(dataDir, {})).rejects.toMatchObject({ code: 'locked' });
    await utimes(path, 0, 0);
    await (await acquireLock(dataDir, {})).release();
  });

  it('contains the address once its owner knows it, and is deleted after release', async () => {
    const lock = await acquireLock(dataDir, {});
    await lock.update({ url: 'http://127.0.0.1:4711' });
    expect(await readLock(dataDir)).toMatchObject({ url: 'http://127.0.0.1:4711', nonce: lock.owner.nonce });
    await expect(acquireLock(dataDir, {})).rejects.toThrow('4711');
    await lock.release();
    await lock.release();
    expect(await readdir(dataDir)).toEqual([]);
  });

  it('is not touched by an owner that has lost it', async () => {
    const lock = await acquireLock(dataDir, {});
    const another = JSON.stringify({ ...lock.owner, nonce: 'another' });
    await writeFile(join(dataDir, 'stoa.lock'), another);
    await expect(lock.update({ url: 'http://127.0.0.1:1' })).rejects.toMatchObject({ code: 'locked' });
    await lock.release();
    expect(await readFile(join(dataDir, 'stoa.lock'), 'utf8')).toBe(another);
  });
});

/** Replaces the existing lock. */
async function leaveLockAnew(changes: Partial<LockOwner>, silentForMs: number): Promise<void> {
  await rm(join(dataDir, 'stoa.lock'));
  await leaveLock(changes, silentForMs);
}
