/** Data directories that an older program wrote, opened by this one: all that was in them is there, whatever happens on the way. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { embeddedChecks } from '../../../src/backends/embedded/doctor.js';
import { embeddedFamilies, embeddedMigrations } from '../../../src/backends/embedded/families.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../../src/index.js';
import { listBackups } from '../../../src/kernel/backup-chain.js';
import { backup } from '../../../src/kernel/backup.js';
import { examineAll } from '../../../src/kernel/doctor.js';
import type { Engine } from '../../../src/kernel/engine.js';
import { kernelFamilies } from '../../../src/kernel/families.js';
import { openKernel } from '../../../src/kernel/kernel.js';
import { type Manifest, readManifest, writeManifest } from '../../../src/kernel/manifest.js';
import type { MigrationProgress } from '../../../src/kernel/migrations.js';
import { restore } from '../../../src/kernel/restore.js';
import { limitsWith } from '../../../src/limits.js';
import type { Totals } from '../../../src/messaging/model.js';
import { globalRoomId } from '../../../src/messaging/uuid.js';
import type { AgentAnswer } from '../../../src/registry/schemas.js';
import { compiledSources } from '../../compiled.js';
import { comparable, linesOf } from '../../transfer/kit.js';

type Engines = 'lmdb' | 'rocksdb';

/** What the older program answered about its directory before it closed it. */
interface Expected {
  atMs: number;
  lines: string[];
  agents: AgentAnswer[];
  totals: Totals;
  searches: Record<string, string[]>;
}

let directory: string;
let data: string;
let expected: Expected;
let compiled: string;

beforeAll(async () => {
  compiled = await compiledSources();
});

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-format-2-'));
  data = join(directory, 'data');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** How the files were made is told in make.mjs beside them. */
async function layOut(engine: Engines): Promise<void> {
  const packed = await readFile(new URL(`format-1/${engine}.json.br`, import.meta.url));
  const fixture = JSON.parse(brotliDecompressSync(packed).toString()) as {
    expected: Expected;
    files: Record<string, string>;
  };
  expected = fixture.expected;
  for (const [name, content] of Object.entries(fixture.files)) {
    await mkdir(dirname(join(data, name)), { recursive: true });
    await writeFile(join(data, name), Buffer.from(content, 'hex'), { mode: 0o600 });
  }
}

const smallSteps = { migrationStepRowsMax: 3 };

function open(options: Partial<StoaOptions> = {}): Promise<Stoa> {
  return openStoa({
    data,
    clock: () => expected.atMs,
    sweepIntervalMs: 3_600_000,
    limits: smallSteps,
    ...options,
  });
}

/** Everything through the doors that people use, and every index by the doctor. */
async function expectAllThere(stoa: Stoa): Promise<void> {
  expect(comparable(await linesOf(stoa, { withSecrets: true }))).toEqual(comparable(expected.lines));
  expect((await stoa.registry.listAgents(operatorCaller(), {})).items).toEqual(expected.agents);
  expect(await stoa.messaging.port.totals()).toEqual({
    ...expected.totals,
    top: expected.totals.top.map(({ id, name, messageCount }) => ({ id, name, messageCount })),
  });
  for (const [words, ids] of Object.entries(expected.searches)) {
    const { messages } = await stoa.messaging.port.search({
      words: words.split(' '),
      roomId: null,
      limit: 100,
      afterMs: 0,
      beforeMs: null,
    });
    expect(
      messages.map(({ id }) => id),
      words,
    ).toEqual(ids);
  }
  for await (const finding of examineAll(stoa.kernel.stores, embeddedChecks(stoa.kernel), { repair: false }))
    throw new Error(`The doctor found: ${finding.family}: ${finding.problem}`);
  expect(await readManifest(data)).toMatchObject({ format: 2 });
  expect(await readManifest(data)).not.toHaveProperty('migrating');
}

async function closed<T>(stoa: Stoa, body: (stoa: Stoa) => Promise<T>): Promise<T> {
  try {
    return await body(stoa);
  } finally {
    await stoa.close();
  }
}

/** As if the directory had been left like this by a program that did not know of formats. */
async function claimFormat(format: number): Promise<void> {
  await writeManifest(data, { ...((await readManifest(data)) as Manifest), format });
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

describe.each(['lmdb', 'rocksdb'] as const)('a directory of format 1 on %s', (engine) => {
  beforeEach(() => layOut(engine));

  it('holds every record after the first start, and after the next', async () => {
    const steps: MigrationProgress[] = [];
    await closed(await open({ onMigration: (step) => steps.push(step) }), expectAllThere);
    expect(new Set(steps.map(({ stage }) => stage))).toEqual(new Set(['backup', 'change']));
    expect(steps.at(-1)).toMatchObject({ from: 1, to: 2, directory: join(data, 'before-format-2') });
    expect(steps.at(-1)?.done).toBe(steps.at(-1)?.total);
    const again: MigrationProgress[] = [];
    await closed(await open({ onMigration: (step) => again.push(step) }), expectAllThere);
    expect(again).toEqual([]);
  });

  it('goes on with leases, sessions and messages where it was', async () => {
    await closed(await open(), async (stoa) => {
      const held = expected.agents.find(({ lease }) => lease?.holder === 'second host') as AgentAnswer;
      const caller = operatorCaller(held.user);
      await expect(
        stoa.registry.heartbeat(caller, held.agent_id, { holder: 'third host' }),
      ).rejects.toMatchObject({ code: 'conflict' });
      expect(
        (await stoa.registry.heartbeat(caller, held.agent_id, { holder: 'second host' })).lease,
      ).toMatchObject({ fence: 2 });
      const busy = expected.agents.find(({ name }) => name === 'closed one of two sessions') as AgentAnswer;
      expect(busy.active_sessions).toBe(1);
      const [left] = (
        await stoa.registry.listSessions(operatorCaller('ada'), busy.agent_id, { status: 'active' })
      ).items;
      await stoa.registry.closeSession(operatorCaller('ada'), left?.session_id as string);
      expect(await stoa.registry.getAgent(operatorCaller('ada'), busy.agent_id)).toMatchObject({
        active_sessions: 0,
        status: 'idle',
      });
      const { port } = stoa.messaging;
      const {
        items: [newest],
      } = await port.messages(globalRoomId, { afterMs: 0, limit: 1 });
      const posted = await port.post({
        roomId: globalRoomId,
        from: newest?.from as string,
        body: 'another word',
        parentId: null,
        proof: null,
        serverSigned: false,
      });
      const { messages } = await port.search({
        words: ['word'],
        roomId: null,
        limit: 100,
        afterMs: 0,
        beforeMs: null,
      });
      expect(messages.map(({ id }) => id)).toEqual([posted.id, ...(expected.searches['word'] as string[])]);
    });
  });

  it('can go back: the backup that was made first restores to what was there, in the older format', async () => {
    await (await open()).close();
    const backups = join(data, 'before-format-2');
    expect(await listBackups(backups)).toMatchObject([{ kind: 'full', format: 1 }]);
    const target = join(directory, 'restored');
    await restore({ directory: backups, target, families: embeddedFamilies });
    for (const file of ['secret.keys', 'operator.token'])
      await writeFile(join(target, file), await readFile(join(data, file)), { mode: 0o600 });
    expect(await readManifest(target)).toMatchObject({ format: 1 });
    data = target;
    await closed(await open(), expectAllThere);
  });

  it('is whole after a chain of backups that begins before the change and ends after it', async () => {
    const backups = join(data, 'before-format-2');
    await closed(
      await open(),
      async ({ kernel }) => void (await backup(kernel, { directory: backups, kind: 'incremental' })),
    );
    const target = join(directory, 'restored');
    await restore({
      directory: backups,
      target,
      families: embeddedFamilies,
      retiredFamilies: embeddedMigrations.flatMap(({ retiredFamilies }) => retiredFamilies),
    });
    await writeFile(join(target, 'secret.keys'), await readFile(join(data, 'secret.keys')), { mode: 0o600 });
    expect(await readManifest(target)).toMatchObject({ format: 2, migrating: 1 });
    data = target;
    await closed(await open(), expectAllThere);
  });

  it('loses nothing where any of the commits on the way fails', async () => {
    const options = {
      dataDir: data,
      families: embeddedFamilies,
      limits: limitsWith(smallSteps),
      clock: () => expected.atMs,
      migration: { migrations: embeddedMigrations },
    };
    let failures = 0;
    for (let commitsLeft = 1; ; commitsLeft += 1) {
      const attempt = openKernel({ ...options, wrapEngine: (opened) => failingAfter(opened, commitsLeft) });
      const [outcome] = await Promise.allSettled([attempt]);
      if (outcome.status === 'fulfilled') {
        await outcome.value.close();
        break;
      }
      expect(String(outcome.reason)).toContain('the machine stopped here');
      failures += 1;
    }
    expect(failures).toBeGreaterThan(3);
    await closed(await open(), expectAllThere);
  });

  it('loses nothing where the process is killed again and again', { timeout: 300_000 }, async () => {
    const child = fileURLToPath(new URL('format-1/open.mjs', import.meta.url));
    // Killed later each time, so that it comes to an end: in the backup first, then among the steps.
    for (let steps = 1; ; steps *= 2) {
      const process_ = spawn(process.execPath, [child, compiled, data, String(expected.atMs)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      if (await killedAfter(process_, steps)) continue;
      break;
    }
    await closed(await open(), expectAllThere);
  });

  it('is migrated also where this program has written into it before it knew of formats', async () => {
    await claimFormat(2);
    const made = await closed(await open(), async (stoa) => {
      const { agent_id: id } = await stoa.registry.createAgent(operatorCaller('ada'), { name: 'later' });
      await stoa.registry.heartbeat(operatorCaller('ada'), id, { holder: 'host' });
      const { identity } = await stoa.messaging.port.register({
        publicKey: Buffer.alloc(32, 7).toString('base64'),
        name: 'late',
        email: null,
        proven: true,
      });
      const { id: message } = await stoa.messaging.port.post({
        roomId: globalRoomId,
        from: identity.id,
        body: 'a later word',
        parentId: null,
        proof: null,
        serverSigned: false,
      });
      return { id, message };
    });
    await claimFormat(1);
    await closed(await open(), async (stoa) => {
      const agents = (await stoa.registry.listAgents(operatorCaller(), {})).items;
      expect(agents.filter(({ agent_id: id }) => id !== made.id)).toEqual(expected.agents);
      expect(agents.find(({ agent_id: id }) => id === made.id)).toMatchObject({
        name: 'later',
        lease: { holder: 'host', fence: 1 },
      });
      const { messages } = await stoa.messaging.port.search({
        words: ['word'],
        roomId: null,
        limit: 100,
        afterMs: 0,
        beforeMs: null,
      });
      expect(messages.map(({ id }) => id)).toEqual([
        made.message,
        ...(expected.searches['word'] as string[]),
      ]);
      const { top } = await stoa.messaging.port.totals();
      expect(top.map(({ messageCount }) => messageCount)).toEqual([7, 6, 5, 4, 4]);
    });
  });

  it('is refused by a program that knows only older formats, from the first change on', async () => {
    const options = {
      dataDir: data,
      families: embeddedFamilies,
      limits: limitsWith(smallSteps),
      clock: () => expected.atMs,
      migration: { migrations: embeddedMigrations },
    };
    await expect(
      openKernel({ ...options, wrapEngine: (opened) => failingAfter(opened, 3) }),
    ).rejects.toThrow();
    expect(await readManifest(data)).toMatchObject({ format: 2, migrating: 1 });
  });
});

it('a directory in which every row is new already only gets its mark', async () => {
  await layOut('lmdb');
  await (await open()).close();
  await rm(join(data, 'before-format-2'), { recursive: true });
  await claimFormat(1);
  const kernel = await openKernel({
    dataDir: data,
    families: embeddedFamilies,
    limits: limitsWith(),
    clock: () => expected.atMs,
    migration: { migrations: embeddedMigrations },
  });
  for (const store of kernel.stores)
    await store.transact((tx) => tx.delete(kernelFamilies.meta, Buffer.from('format')));
  await kernel.close();
  await claimFormat(1);
  await closed(await open(), expectAllThere);
  expect(await exists(join(data, 'before-format-2'))).toBe(false);
});

it('an older directory without room for its backup is refused with the reason, and stays as it is', async () => {
  await layOut('lmdb');
  const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  const withoutRoom = (engine: Engine): Engine =>
    changed(engine, 'snapshot', () => {
      throw full;
    });
  const options = {
    dataDir: data,
    families: embeddedFamilies,
    limits: limitsWith(smallSteps),
    clock: () => expected.atMs,
    migration: { migrations: embeddedMigrations },
  };
  await expect(openKernel({ ...options, wrapEngine: withoutRoom })).rejects.toMatchObject({
    code: 'disk_full',
    message: expect.stringMatching(
      /has format 1\. Before it becomes 2 it is backed up to .*before-format-2, which failed: .*ENOSPC/,
    ) as string,
    fix: expect.stringContaining('Nothing has been changed') as string,
  });
  expect(await readManifest(data)).toMatchObject({ format: 1 });
  expect(await readdir(join(data, 'before-format-2'))).toEqual([]);
  await closed(await open(), expectAllThere);
});

it('a directory of a newer format is refused and stays as it is', async () => {
  await layOut('lmdb');
  await claimFormat(3);
  const before = await readFile(join(data, 'shard-00', 'db', 'data.mdb'));
  await expect(open()).rejects.toMatchObject({ code: 'newer_data' });
  expect(await readFile(join(data, 'shard-00', 'db', 'data.mdb'))).toEqual(before);
});

it('an older directory is not re-sharded before it is brought up to date', async () => {
  await layOut('lmdb');
  const { reshardDirectory } = await import('../../../src/backends/embedded/reshard.js');
  const attempt = reshardDirectory({ from: data, to: join(directory, 'eight'), shards: 8 });
  await expect(attempt).rejects.toMatchObject({
    code: 'conflict',
    fix: expect.stringContaining('stoa up') as string,
  });
  await (await open()).close();
  await reshardDirectory({ from: data, to: join(directory, 'eight'), shards: 8 });
  data = join(directory, 'eight');
  await closed(await open(), expectAllThere);
});

it('an older directory is not changed by who only reads documents from it', async () => {
  await layOut('lmdb');
  const { openDataStoreAt } = await import('../../../src/backends/open-datastore.js');
  const attempt = openDataStoreAt(data, { limits: limitsWith(), nowMs: () => expected.atMs, prepare: false });
  await expect(attempt).rejects.toMatchObject({
    code: 'conflict',
    fix: expect.stringContaining('stoa up') as string,
  });
  expect(await readManifest(data)).toMatchObject({ format: 1 });
});

function failingAfter(engine: Engine, commits: number): Engine {
  let left = commits;
  return changed(engine, 'commit', (operations) =>
    (left -= 1) < 0 ? Promise.reject(new Error('the machine stopped here')) : engine.commit(operations),
  );
}

/** The engine with another way to do one thing. */
function changed<Name extends keyof Engine>(engine: Engine, changedName: Name, way: Engine[Name]): Engine {
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === changedName) return way;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}

/** False when it had ended by itself, with all done. */
async function killedAfter(child: ChildProcess, lines: number): Promise<boolean> {
  const exited = once(child, 'exit');
  let seen = 0;
  child.stdout?.on('data', (chunk: Buffer) => {
    seen += chunk.toString().split('\n').length - 1;
    if (seen >= lines) child.kill('SIGKILL');
  });
  const [code, signal] = (await exited) as [number | null, NodeJS.Signals | null];
  if (signal === 'SIGKILL') return true;
  expect(code).toBe(0);
  return false;
}
