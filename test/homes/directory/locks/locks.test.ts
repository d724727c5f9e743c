/** The conformance suite of locks in a data directory, with one shard and with several. */
import * as vitest from 'vitest';
import { locksConformance } from '../../../../src/locks/conformance/index.js';
import { openLocks } from '../../../locks/open-locks.js';
import { kernelOf } from '../../../kernel-of.js';

for (const shards of [1, 4])
  locksConformance(vitest, {
    name: `a directory with ${shards} shard(s)`,
    open: (limits = {}) =>
      openLocks(
        {
          options: { data: '', engine: 'memory', shards },
          sweep: (stoa) => kernelOf(stoa).sweep(),
        },
        limits,
      ),
  });
