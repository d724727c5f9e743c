import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { compiledSources } from '../../../compiled.js';
import { crashRounds } from './crash.js';

let compiled: string;

beforeAll(async () => {
  compiled = await compiledSources();
});

describe.each(['lmdb', 'rocksdb'] as const)('a process killed under load on %s', (engine) => {
  it('loses no acknowledged write and leaves no partial write', async () => {
    const child = fileURLToPath(new URL('crash-child.mjs', import.meta.url));
    const { acknowledged } = await crashRounds({ engine, rounds: 3, compiled, child });
    expect(acknowledged).toBeGreaterThan(60);
  });
});
