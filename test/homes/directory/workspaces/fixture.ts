/** Workspaces in a data directory, with a clock that the test turns. */
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openDirectoryWorkspaces } from '../../../../src/homes/directory/workspaces/open.js';
import { workspacesFamilies } from '../../../../src/homes/directory/workspaces/keys.js';
import type { DirectoryWorkspaces } from '../../../../src/homes/directory/workspaces/workspaces.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { openSecrets } from '../../../../src/secrets/secrets.js';
import type { Bench } from '../../../../src/workspaces/conformance/bench.js';
import { WorkspacesService } from '../../../../src/workspaces/service.js';

export interface DirectoryBench extends Bench {
  kernel: Kernel;
  port: DirectoryWorkspaces;
}

export async function openDirectoryBench(
  engine: EngineName,
  limits: Partial<Limits> = {},
  shards = 1,
): Promise<DirectoryBench> {
  const dataDir = await mkdtemp(join(tmpdir(), 'stoa-workspaces-'));
  const allLimits = limitsWith(limits);
  let offsetMs = 0;
  const clock = (): number => Date.now() + offsetMs;
  const kernel = await openKernel({
    dataDir,
    engine,
    shards,
    // Answers that are kept count in the user's bytes, which the data store keeps.
    families: directoryFamilies,
    limits: allLimits,
    clock,
    sweepIntervalMs: 3_600_000,
  });
  const secrets = await openSecrets({ dataDir });
  const { sealer } = secrets;
  const port = await openDirectoryWorkspaces(kernel, { sealer });
  const writer = new DirectoryWriter(kernel);
  secrets.addHolder({ name: 'workspaces', reseal: (onProgress) => port.reseal(onProgress) });
  return {
    kernel,
    port,
    writer,
    sealer,
    service: new WorkspacesService({ writer, port, limits: allLimits, sealer }),
    rekey: (onProgress) => secrets.rekey(onProgress),
    pass: (seconds) => {
      offsetMs += seconds * 1_000;
    },
    sweep: async () => {
      await kernel.sweep();
      await port.bulk.finish();
    },
    changes: async () =>
      kernel.feed
        .read()
        .commits.flatMap(({ changes }) =>
          changes.map(({ kind, id, user, facts = {} }) => ({ kind, id, user, facts })),
        ),
    dump: async () =>
      kernel.stores
        .flatMap((store) =>
          workspacesFamilies.flatMap((family) =>
            Array.from(
              store.range(family, {}),
              ({ key, value }) => `${family} ${key.toString()} ${value.toString()}`,
            ),
          ),
        )
        .join('\n'),
    close: async () => {
      await port.close();
      await kernel.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
