import { readFile, readdir, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { useCommands } from '../../command-host.js';
import type { RunningServer } from '../../program.js';

const { stoa, up, path } = useCommands();
let data: string;
let server: RunningServer;

interface Backup {
  name: string;
  kind: string;
  position: string;
  with_key: boolean;
}

beforeAll(async () => {
  data = path('data');
  server = await up(data);
});

const json = async <Body>(...args: string[]): Promise<Body> => {
  const ended = await stoa([...args, '--json']);
  if (ended.status !== 0)
    throw new Error(`stoa ${args.join(' ')} ended with ${ended.status}: ${ended.stderr}`);
  return ended.json<Body>();
};
const set = (key: string, value: string) => json('data', 'set', key, value, '--user', 'ada', '--data', data);
const valueIn = async (directory: string, key: string) =>
  (await json<{ value: unknown }>('data', 'get', key, '--user', 'ada', '--data', directory)).value;
/** What is in the one backup of a directory. */
const filesIn = async (directory: string) =>
  readdir(join(directory, (await readdir(directory))[0] as string));

describe('a chain of backups', () => {
  let backups: string;
  let first: Backup;
  let second: Backup;

  beforeAll(async () => {
    backups = path('backups');
    await set('k', '1');
    first = await json<Backup>('backup', '--full', backups, '--data', data);
    await set('k', '2');
    second = await json<Backup>('backup', '--incremental', backups, '--data', data);
    await set('k', '3');
    await json('backup', '--incremental', backups, '--data', data);
  });

  test('is listed, by path and by the server', async () => {
    const { items } = await json<{ items: Backup[] }>('backup', 'ls', backups);
    expect(items.map(({ kind }) => kind)).toEqual(['full', 'incremental', 'incremental']);
    expect({ ...items[0], not_included: [] }).toEqual(first);
    expect(
      (await json<{ items: Backup[] }>('backup', 'ls', backups, '--url', server.url, '--token', server.token))
        .items,
    ).toEqual(items);
    expect((await stoa(['backup', 'ls', backups])).stdout).toMatch(/^NAME +KIND +POSITION/);
    expect(await stoa(['backup', 'ls', '--data', data])).toMatchObject({
      status: 0,
      stderr: 'No backups.\n',
    });
  });

  test('is verified without being restored', async () => {
    expect(
      (await json<{ items: { ok: boolean }[] }>('backup', 'verify', backups)).items.map(({ ok }) => ok),
    ).toEqual([true, true, true]);
    expect(await stoa(['backup', 'verify', path('nowhere')])).toMatchObject({
      status: 4,
      stderr: expect.stringContaining(
        `${path('nowhere')} cannot be read: no such file or directory (ENOENT).`,
      ) as string,
    });
  });

  test('is restored to a position, to a time and to a backup by name', async () => {
    await json('restore', backups, '--data', path('at-position'), '--to', second.position);
    expect(await valueIn(path('at-position'), 'k')).toBe(2);
    await json('restore', backups, '--data', path('by-name'), '--name', first.name);
    expect(await valueIn(path('by-name'), 'k')).toBe(1);
    const description = JSON.parse(await readFile(join(backups, second.name, 'backup.json'), 'utf8')) as {
      shards: { atMs: number }[];
    };
    await json(
      'restore',
      backups,
      '--data',
      path('at-time'),
      '--to',
      new Date(description.shards[0]?.atMs as number).toISOString(),
    );
    expect(await valueIn(path('at-time'), 'k')).toBe(2);
    expect((await stoa(['restore', backups, '--data', path('no-time'), '--to', 'yesterday'])).status).toBe(2);
  });

  test('restores a complete directory into another engine, and the feed continues', async () => {
    const restored = path('restored');
    expect(await json('restore', backups, '--data', restored, '--engine', 'rocksdb')).toMatchObject({
      engine: 'rocksdb',
      with_key: false,
    });
    expect(await json('doctor', '--data', restored)).toMatchObject({ found: 0 });
    const restarted = await up(restored);
    const before = await json<{ position: string }>('status', '--data', restored);
    await json('data', 'set', 'later', '1', '--user', 'ada', '--data', restored);
    const { items } = await json<{ items: { kind: string }[] }>(
      'changes',
      '--since',
      before.position,
      '--data',
      restored,
    );
    expect(items.map(({ kind }) => kind)).toEqual(['document.set']);
    // It is a separate store: its backups start with a full one.
    expect((await stoa(['backup', '--incremental', backups, '--data', restored])).status).toBe(5);
    expect(await restarted.end('SIGTERM')).toBe(0);
    expect((await stoa(['restore', backups, '--data', restored])).status).toBe(5);
  });
});

test('the key ring is in no backup unless asked for, and then makes secrets readable', async () => {
  const secret = 'sk-plain-as-day';
  await writeFile(path('claude.key'), secret);
  const workspace = await json<{ id: string }>(
    'workspaces',
    'create',
    'ws',
    '--path',
    '/srv/ws',
    '--key-file',
    path('claude.key'),
    '--user',
    'ada',
    '--data',
    data,
  );
  const [without, withKey] = [path('without-key'), path('with-key')];
  await json('backup', without, '--data', data);
  const ended = await stoa(['backup', withKey, '--with-key', '--data', data, '--json']);
  expect(ended.json<Backup>().with_key).toBe(true);
  expect(ended.stderr).toContain('a reader of the backup can decrypt every secret');
  expect(await filesIn(without)).not.toContain('secret.keys');
  const [name] = await readdir(withKey);
  expect((await stat(join(withKey, name as string, 'secret.keys'))).mode & 0o777).toBe(0o600);

  expect((await stoa(['restore', without, '--data', path('no-ring'), '--with-key'])).status).toBe(4);
  expect((await stoa(['restore', withKey, '--data', path('left-there')])).stderr).toContain(
    '--with-key restores it too',
  );
  expect(await readdir(path('left-there'))).not.toContain('secret.keys');
  await json('restore', withKey, '--data', path('ring'), '--with-key');
  expect(await readFile(join(path('ring'), 'secret.keys'), 'utf8')).toBe(
    await readFile(join(data, 'secret.keys'), 'utf8'),
  );
  expect((await stat(join(path('ring'), 'secret.keys'))).mode & 0o777).toBe(0o600);
  // Re-keying opens every secret: it works only with the right ring.
  expect(await json('secrets', 'rekey', '--data', path('ring'))).toMatchObject({
    resealed: { workspaces: 1 },
  });
  expect(
    (await json<{ id: string }>('workspaces', 'get', workspace.id, '--user', 'ada', '--data', path('ring')))
      .id,
  ).toBe(workspace.id);
});

test('old chains are deleted as a whole; a damaged backup is named', async () => {
  const backups = path('pruned');
  for (const kind of ['--full', '--incremental', '--full', '--incremental']) {
    await set('k', '"v"');
    await json('backup', kind, backups, '--data', data);
  }
  expect((await stoa(['backup', 'prune', backups])).status).toBe(2);
  expect((await json<{ removed: string[] }>('backup', 'prune', backups, '--keep', '1')).removed).toHaveLength(
    2,
  );
  const { items } = await json<{ items: Backup[] }>('backup', 'ls', backups);
  expect(items.map(({ kind }) => kind)).toEqual(['full', 'incremental']);
  await truncate(join(backups, items[1]?.name as string, 'shard-00.redo'), 10);
  const ended = await stoa(['backup', 'verify', backups, '--json']);
  expect(ended.status).toBe(1);
  expect(ended.json<{ items: { ok: boolean }[] }>().items.map(({ ok }) => ok)).toEqual([true, false]);
  expect(ended.error()).toMatchObject({ code: 'damaged_backup' });
});

test('a store is backed up and restored into a new directory', async () => {
  await json('agents', 'create', 'kept', '--user', 'bak', '--data', data);
  const backups = path('whole');
  expect(await json('backup', backups, '--data', data)).toMatchObject({ kind: 'full', parent: null });
  await json('agents', 'create', 'later', '--user', 'bak', '--data', data);
  expect(await json('backup', '--incremental', backups, '--data', data)).toMatchObject({
    kind: 'incremental',
  });
  const restored = path('restored-whole');
  expect(
    (await stoa(['restore', backups, '--data', restored, '--json'])).json<{ chain: string[] }>().chain,
  ).toHaveLength(2);
  const names = (await stoa(['agents', 'ls', '--user', 'bak', '--data', restored, '--json']))
    .json<{ items: { name: string }[] }>()
    .items.map(({ name }) => name);
  expect(names.toSorted()).toEqual(['kept', 'later']);
  expect((await stoa(['restore', backups, '--data', restored])).status).not.toBe(0);
});
