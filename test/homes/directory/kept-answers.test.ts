import { afterEach, expect, it } from 'vitest';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { directoryFamilies } from '../../../src/homes/directory/families.js';
import { findAnswer, keepAnswer, keepEnd } from '../../../src/homes/directory/kept-answers.js';
import type { Kernel } from '../../../src/homes/directory/kernel/kernel.js';
import { openKernel } from '../../../src/homes/directory/kernel/open-kernel.js';
import { userKey } from '../../../src/identity/user-key.js';

let kernel: Kernel;
afterEach(() => kernel?.close());

it('a quota refuses the answer of a write, and not that of a write that a store has carried out', async () => {
  const limits = limitsWith({ dataBytesPerUserMax: 10 });
  kernel = await openKernel({ dataDir: '', engine: 'memory', families: directoryFamilies, limits });
  const { root } = kernel;
  const user = userKey('ada');
  const idempotency = { scope: 'ada', key: 'once', fingerprint: 'f', seconds: 60 };
  await expect(
    root.transact((tx) => keepAnswer(tx, user, idempotency, ['done'], limits)),
  ).rejects.toMatchObject({
    code: 'quota_exceeded',
  });
  await root.transact((tx) => keepEnd(tx, user, idempotency, ['done'], limits));
  expect(findAnswer(root, idempotency, kernel.nowMs())).toEqual(['done']);
});
