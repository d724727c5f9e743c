import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { storeConfigDefaults } from '../../../../../src/core/settings/store-config.js';
import { openEngine } from '../../../../../src/homes/directory/kernel/engines/index.js';
import { compiledSources } from '../../../../compiled.js';

const script = fileURLToPath(new URL('../commit-loop.mjs', import.meta.url));

describe.each(['lmdb', 'rocksdb'] as const)('a process that is killed while it commits to %s', (name) => {
  let compiled: string;
  let dataDir: string;

  beforeAll(async () => {
    compiled = await compiledSources();
    dataDir = await mkdtemp(join(tmpdir(), 'stoa-crash-'));
  });

  afterAll(async () => {
    await rm(dataDir, { recursive: true, force: true });
  });

  /**
   * Kills the process after it has acknowledged so many commits, and returns the last one it acknowledged.
   */
  async function commitUntilKilled(commits: number): Promise<number> {
    const child = spawn(process.execPath, [script, compiled, name, dataDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    let last = -1;
    for await (const line of createInterface({ input: child.stdout })) {
      const acked = /^acked (\d+)$/.exec(line);
      if (acked !== null) last = Number(acked[1]);
      if (last >= commits) child.kill('SIGKILL');
    }
    expect((await exited)[1]).toBe('SIGKILL');
    return last;
  }

  it('keeps every acknowledged commit and no partial one, in three rounds', async () => {
    for (const commits of [5, 40, 77]) {
      const last = await commitUntilKilled(commits);
      expect(last).toBeGreaterThanOrEqual(commits);
      const engine = await openEngine(name, { ...storeConfigDefaults, data_dir: dataDir }, [
        'documents',
        'agents',
      ]);
      for (let round = 0; round <= last; round += 1) {
        const key = Buffer.from(`k${round}`);
        expect(engine.get('agents', key)?.toString(), `commit ${round} of ${last}`).toBe(`v${round}`);
        expect(engine.get('documents', key)?.equals(Buffer.alloc(10_000, `v${round}`))).toBe(true);
      }
      const keysOf = (family: string): string[] =>
        [...engine.range(family, {})].map(({ key }) => key.toString());
      expect(keysOf('documents')).toEqual(keysOf('agents'));
      await engine.close();
    }
  });
});
