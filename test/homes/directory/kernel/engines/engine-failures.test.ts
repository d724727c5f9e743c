import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { StoaError } from '../../../../../src/core/errors.js';
import { storeConfigDefaults } from '../../../../../src/core/settings/store-config.js';
import type { EngineName } from '../../../../../src/core/settings/store-config.js';
import type { Engine } from '../../../../../src/homes/directory/kernel/engine.js';
import { openEngine } from '../../../../../src/homes/directory/kernel/engines/index.js';
import { compiledSources } from '../../../../compiled.js';
import { commitTraced } from '../traced.js';

const families = ['documents', 'agents'];
let compiled: string;
let dataDir: string;

beforeAll(async () => {
  compiled = await compiledSources();
});

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-failure-'));
});

afterEach(async () => {
  await rm(dataDir, { recursive: true, force: true });
});

function open(name: EngineName, directory = dataDir): Promise<Engine> {
  return openEngine(name, { ...storeConfigDefaults, data_dir: directory }, families);
}

/** Thirty rows. `beforeClosing` sees the files as a kill would leave them. */
async function fill(name: EngineName, beforeClosing?: () => Promise<void>): Promise<void> {
  const engine = await open(name);
  for (let round = 0; round < 30; round += 1) {
    await engine.commit([
      { family: 'documents', key: Buffer.from(`k${round}`), value: Buffer.alloc(3000, 'v') },
    ]);
  }
  await beforeClosing?.();
  await engine.close();
}

async function readAll(name: EngineName, directory = dataDir): Promise<void> {
  const engine = await open(name, directory);
  try {
    expect([...engine.range('documents', {})]).toHaveLength(30);
  } finally {
    await engine.close();
  }
}

/** In another process: LMDB itself prints what it thinks of a damaged page. */
async function refusalOfReading(): Promise<{ code: string; fix: string }> {
  const engines = join(compiled, 'homes/directory/kernel/engines/index.js');
  const config = JSON.stringify({ ...storeConfigDefaults, data_dir: dataDir });
  const program = `import { openEngine } from ${JSON.stringify(engines)};
    try {
      const engine = await openEngine('lmdb', ${config}, ${JSON.stringify(families)});
      for (const row of engine.range('documents', {})) row.value;
      console.log(JSON.stringify({ code: 'none' }));
    } catch ({ code, fix }) { console.log(JSON.stringify({ code, fix })); }
    process.exit();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  return JSON.parse(stdout) as { code: string; fix: string };
}

/** Runs the loop with one system call on the data file failing, and then looks at what is on disk. */
async function outcomesWith(
  name: EngineName,
  file: string,
  fault: string,
): Promise<{ printed: string[]; stored: string[] }> {
  const { printed } = await commitTraced(compiled, name, dataDir, 6, [
    '-P',
    join(dataDir, file),
    '-e',
    `inject=${fault}`,
  ]);
  const engine = await open(name);
  const stored = [...engine.range('agents', {})].map(({ key }) => key.toString());
  expect([...engine.range('documents', {})].map(({ key }) => key.toString())).toEqual(stored);
  await engine.close();
  return { printed: printed.filter((line) => line !== 'opened'), stored };
}

describe('lmdb', () => {
  it('refuses a commit on a full disk, keeps nothing of it, and continues when there is space', async () => {
    const { printed, stored } = await outcomesWith('lmdb', 'data.mdb', 'writev:error=ENOSPC:when=3');
    expect(printed.filter((line) => line.startsWith('failed'))).toEqual([
      expect.stringMatching(/^failed \d disk_full unseen$/),
    ]);
    expect(
      printed.filter((line) => line.startsWith('acked')).map((line) => line.replace('acked ', 'k')),
    ).toEqual(stored);
  });

  it('takes no more commits after a sync failed', async () => {
    const { printed } = await outcomesWith('lmdb', 'data.mdb', 'fdatasync:error=EIO:when=3');
    expect(printed[2]).toBe('failed 2 engine unseen');
    expect(printed.slice(3)).toEqual([3, 4, 5].map((round) => `failed ${round} engine unseen`));
  });

  it.each([10, 4096, 8192, 20_000, 60_000])(
    'says that a file cut to %i bytes is damaged',
    async (sizeBytes) => {
      await fill('lmdb');
      await truncate(join(dataDir, 'data.mdb'), sizeBytes);
      expect(await refusalOfReading()).toMatchObject({
        code: 'damaged_data',
        fix: expect.stringContaining('restore a backup') as string,
      });
    },
  );

  it.each([149, 151])(
    'says that meta pages with another byte at %i, of the number of the last page, are damaged',
    async (place) => {
      await fill('lmdb');
      const file = join(dataDir, 'data.mdb');
      const content = await readFile(file);
      for (const page of [0, 4096]) content[page + place] = 0x10;
      await writeFile(file, content);
      await expect(open('lmdb')).rejects.toMatchObject({
        code: 'damaged_data',
        fix: expect.stringContaining('restore a backup'),
      });
    },
  );

  it('reports a foreign file as damaged', async () => {
    await writeFile(join(dataDir, 'data.mdb'), Buffer.alloc(100_000, 'not a database '));
    await expect(open('lmdb')).rejects.toMatchObject({ code: 'damaged_data' });
  });

  it('stores in a directory with a dot in its name', async () => {
    const dotted = join(dataDir, 'data.v1');
    await (await open('lmdb', dotted)).close();
    await expect(truncate(join(dotted, 'data.mdb'))).resolves.toBeUndefined();
  });
});

describe('rocksdb', () => {
  it('refuses a commit on a full disk, keeps nothing of it, and continues when there is space', async () => {
    const { printed, stored } = await outcomesWith('rocksdb', '000004.log', 'write:error=ENOSPC:when=3');
    expect(printed).toEqual([
      'acked 0',
      'acked 1',
      'failed 2 disk_full unseen',
      'acked 3',
      'acked 4',
      'acked 5',
    ]);
    expect(stored).toEqual(['k0', 'k1', 'k3', 'k4', 'k5']);
  });

  it('reports disk_full when it cannot open the database, and loses nothing', async () => {
    const killed = await mkdtemp(join(tmpdir(), 'stoa-killed-'));
    await fill('rocksdb', () => cp(dataDir, killed, { recursive: true }));
    // Opening writes what the log of before holds into this file.
    const table = ['-P', join(killed, '000008.sst'), '-e', 'inject=write:error=ENOSPC'];
    await expect(commitTraced(compiled, 'rocksdb', killed, 1, table)).rejects.toThrow("code: 'disk_full'");
    await readAll('rocksdb', killed);
    await rm(killed, { recursive: true });
  });

  it('takes no more commits after a sync failed', async () => {
    const { printed } = await outcomesWith('rocksdb', '000004.log', 'fdatasync:error=EIO:when=3');
    expect(printed[2]).toBe('failed 2 engine unseen');
    expect(printed.slice(3)).toEqual([3, 4, 5].map((round) => `failed ${round} engine unseen`));
  });

  it.each(['CURRENT', 'FAMILIES.json'])('reports a damaged %s', async (file) => {
    await fill('rocksdb');
    await writeFile(join(dataDir, file), 'spoilt');
    await expect(open('rocksdb')).rejects.toMatchObject({ code: 'damaged_data' });
  });

  it('reports a table with any flipped bit as damaged', async () => {
    await fill('rocksdb');
    const tables: [path: string, content: Buffer][] = [];
    for (const name of await readdir(dataDir))
      if (name.endsWith('.sst')) tables.push([join(dataDir, name), await readFile(join(dataDir, name))]);
    const [path, table] = tables.toSorted(([, one], [, other]) => other.length - one.length)[0] as [
      string,
      Buffer,
    ];
    const codes: unknown[] = [];
    // The rows come first; at the end are the index, the properties and the footer.
    for (const fromEnd of [90_000, 1_500, 1_000, 800, 600, 400, 200, 100, 1]) {
      const flipped = Buffer.from(table);
      flipped.writeUInt8(flipped.readUInt8(flipped.length - fromEnd) ^ 0x10, flipped.length - fromEnd);
      await writeFile(path, flipped);
      codes.push(await readAll('rocksdb').catch(({ code }: StoaError) => code));
    }
    expect(new Set(codes)).toEqual(new Set(['damaged_data']));
  });

  it('names the package to install where it is missing', async () => {
    // Outside the repository no package is found.
    const outside = join(dataDir, 'src');
    await cp(compiled, outside, { recursive: true });
    await writeFile(join(outside, 'package.json'), '{"type":"module"}');
    const script = `const { openRocksdb } = await import(${JSON.stringify(join(outside, 'homes/directory/kernel/engines/rocksdb/open.js'))});
      await openRocksdb({ data_dir: 'unused' }, []).catch(({ code, fix }) => console.log(JSON.stringify({ code, fix })));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
      cwd: dataDir,
    });
    expect(JSON.parse(stdout)).toEqual({
      code: 'missing_package',
      fix: expect.stringContaining('npm install @nxtedition/rocksdb'),
    });
  });

  it('names the process that has the database open', async () => {
    const engine = await open('rocksdb');
    await expect(open('rocksdb')).rejects.toMatchObject({ code: 'locked' });
    await engine.close();
  });
});

describe.each(['lmdb', 'rocksdb'] as const)('%s', (name) => {
  it('reports why a directory cannot be written', async () => {
    const file = join(dataDir, 'file');
    await writeFile(file, '');
    await expect(open(name, join(file, 'below'))).rejects.toMatchObject({
      code: 'invalid_config',
      fix: expect.stringContaining('write'),
    });
  });

  it('creates its directory and the parents', async () => {
    await (await open(name, join(dataDir, 'new', 'and', 'deep'))).close();
    await expect(readdir(join(dataDir, 'new', 'and', 'deep'))).resolves.not.toEqual([]);
  });
});

it('an unknown engine is a configuration error', async () => {
  // The name comes from a configuration file, where the types do not reach.
  await expect(openEngine('bolt' as EngineName, storeConfigDefaults, families)).rejects.toMatchObject({
    code: 'invalid_config',
  });
});
