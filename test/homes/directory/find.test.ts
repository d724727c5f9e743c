/** The search in a data directory: the conformance suite. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { findConformance } from '../../../src/find/conformance/index.js';
import { openDirectoryHome } from '../../../src/homes/directory/home.js';

/** `npm run test:find` has more of them. */
const documents = Number(process.env['FIND_DOCUMENTS'] ?? 2_500);
// The suite compares all of them several times.
vi.setConfig({ testTimeout: Math.max(120_000, documents * 30) });

findConformance(
  { describe, it, beforeAll, afterAll, afterEach, expect },
  {
    documents,
    open: async () => {
      const data = await mkdtemp(join(tmpdir(), 'stoa-find-'));
      let skewMs = 0;
      const nowMs = (): number => Date.now() + skewMs;
      const home = await openDirectoryHome({
        data,
        clock: nowMs,
        limits: limitsWith({}),
        onError: (error) => {
          throw error;
        },
        onCall: () => undefined,
        onTokenRemoved: () => undefined,
        onTokensMissed: () => undefined,
        onGroup: () => undefined,
      });
      return {
        data: home.data,
        writer: home.writer,
        find: home.find,
        nowMs,
        settle: () => home.find.work.settle(),
        advance: (ms) => {
          skewMs += ms;
        },
        close: async () => {
          await home.close();
          await rm(data, { recursive: true });
        },
      };
    },
  },
);
