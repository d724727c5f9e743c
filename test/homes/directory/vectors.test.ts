/** Searches by meaning in a data directory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { vectorSuite } from '../../find/vectors/suite.js';

let data = '';
afterAll(() => rm(data, { recursive: true, force: true }));

vectorSuite({
  isShared: false,
  open: async () => {
    data = await mkdtemp(join(tmpdir(), 'stoa-vectors-'));
    return { data, engine: 'lmdb', shards: 2 };
  },
});
