/** `stoa doctor` without a server. */
import { expect, test } from 'vitest';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { useCommands } from '../../command-host.js';
import type { Agent } from '../../served.js';

const { stoa, path } = useCommands();

test('the doctor finds nothing, and repairs a lost index entry', async () => {
  const own = path('doctored');
  const created = (
    await stoa(['agents', 'create', 'patient', '--user', 'doc', '--data', own, '--json'])
  ).json<Agent>();
  const healthy = await stoa(['doctor', '--data', own, '--json']);
  expect(healthy.json()).toMatchObject({ found: 0, remaining: 0, findings: [] });
  expect(healthy.status).toBe(0);

  const kernel = await openKernel({ dataDir: own, families: directoryFamilies, limits: limitsWith() });
  await kernel.root.transact((tx) =>
    tx.delete('registry/agents_by_id', Buffer.from(created.agent_id, 'hex')),
  );
  await kernel.close();

  const sick = await stoa(['doctor', '--data', own, '--json']);
  expect(sick.status).toBe(1);
  expect(sick.json<{ findings: object[] }>().findings).toMatchObject([
    { family: 'registry/agents_by_id', kind: 'missing', repaired: false },
  ]);
  const mended = await stoa(['doctor', '--repair', '--data', own, '--json']);
  expect(mended.json()).toMatchObject({ found: 1, repaired: 1, remaining: 0 });
  expect(mended.status).toBe(0);
  expect((await stoa(['agents', 'get', created.agent_id, '--data', own, '--json'])).json<Agent>().name).toBe(
    'patient',
  );
});
