import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compiledSources } from '../../../compiled.js';
import { commitTraced } from './traced.js';

const commits = 8;
const writes = ['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2'];
const syncs = ['fdatasync', 'fsync', 'msync'];

/** One system call that matters here, in the order of the trace. */
type Step = 'data written' | 'data synced' | 'acknowledged';

/** strace may split a call when another thread's call comes between; it counts when it returns. */
function stepsOf(calls: readonly string[], dataFile: RegExp): Step[] {
  const unfinished = new Map<string, string>();
  const steps: Step[] = [];
  for (const line of calls) {
    const [, thread = '', call = ''] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (call.endsWith('<unfinished ...>')) {
      unfinished.set(thread, call);
      continue;
    }
    const whole = call.startsWith('<...') ? `${unfinished.get(thread) ?? ''}${call}` : call;
    const name = /^\w+/.exec(whole)?.[0] ?? '';
    if (writes.includes(name) && whole.includes('"acked ')) steps.push('acknowledged');
    else if (writes.includes(name) && dataFile.test(whole)) steps.push('data written');
    else if (syncs.includes(name) && dataFile.test(whole)) steps.push('data synced');
  }
  return steps;
}

describe.each([
  ['lmdb', /data\.mdb/],
  ['rocksdb', /\d+\.log/],
] as const)('a commit to %s', (name, dataFile) => {
  let compiled: string;
  let dataDir: string;

  beforeAll(async () => {
    compiled = await compiledSources();
    dataDir = await mkdtemp(join(tmpdir(), 'stoa-sync-'));
  });

  afterAll(async () => {
    await rm(dataDir, { recursive: true, force: true });
  });

  it('is written and then synced before it is acknowledged, every time', async () => {
    const { printed, calls } = await commitTraced(compiled, name, dataDir, commits, [
      '-e',
      `trace=${[...writes, ...syncs].join(',')}`,
    ]);
    expect(printed.filter((line) => line.startsWith('acked'))).toHaveLength(commits);
    const steps = stepsOf(calls, dataFile);
    let from = 0;
    for (let commit = 0; commit < commits; commit += 1) {
      const acknowledged = steps.indexOf('acknowledged', from);
      const between = steps.slice(from, acknowledged);
      const written = between.indexOf('data written');
      expect(acknowledged, `commit ${commit} is acknowledged`).toBeGreaterThan(0);
      expect(written, `commit ${commit} is written`).toBeGreaterThanOrEqual(0);
      expect(between.indexOf('data synced', written), `commit ${commit} is synced`).toBeGreaterThan(written);
      from = acknowledged + 1;
    }
    expect(steps.filter((step) => step === 'acknowledged')).toHaveLength(commits);
  });
});
