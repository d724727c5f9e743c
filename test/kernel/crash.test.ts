import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Compiled, compileSources } from '../compiled.js';
import { crashRounds } from './crash.js';

let compiled: Compiled;

beforeAll(async () => {
  compiled = await compileSources();
});

afterAll(() => compiled.remove());

describe.each(['lmdb', 'rocksdb'] as const)('a process killed under load on %s', (engine) => {
  it('loses nothing that it acknowledged and leaves nothing torn', async () => {
    const child = fileURLToPath(new URL('crash-child.mjs', import.meta.url));
    const { acknowledged } = await crashRounds({ engine, rounds: 5, compiled: compiled.directory, child });
    expect(acknowledged).toBeGreaterThan(100);
  });
});
