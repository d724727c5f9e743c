import { afterEach, expect, it } from 'vitest';
import { directoryFamilies } from '../../../../../src/homes/directory/families.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { FaultyEngine } from '../../kernel/faulty-engine.js';
import { openMessaging } from '../open-messaging.js';

let kernel: Kernel;
afterEach(() => kernel.close());

it('an address stays blocked when the disk refuses to unblock it', async () => {
  let engine: FaultyEngine | undefined;
  kernel = await openKernel({
    dataDir: '',
    engine: 'memory',
    families: directoryFamilies,
    limits: limitsWith(),
    wrapEngine: (opened) => (engine = new FaultyEngine(opened)),
  });
  const { messaging: port } = await openMessaging(kernel, (error) => expect.fail(String(error)));
  const address = '203.0.113.7';
  await port.block({ address, reason: 'load', expiresAtMs: Date.now() + 60_000 });
  engine?.failNext('disk_full');
  await expect(port.unblock(address)).rejects.toMatchObject({ code: 'disk_full' });
  expect(await port.blockOf(address)).toMatchObject({ address });
  expect(await port.unblock(address)).toBe(true);
  expect(await port.blockOf(address)).toBeUndefined();
  await port.close();
});
