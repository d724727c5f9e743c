/** Opens a registry for a test: a kernel on an engine of choice, with a clock that the test moves. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { registryFamilies } from '../../../../src/homes/directory/registry/families.js';
import { DirectoryRegistry } from '../../../../src/homes/directory/registry/registry.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { countKinds } from '../../../../src/registry/layout/keys.js';
import { type RegistryBench, startMs } from '../../../../src/registry/conformance/bench.js';
import { examineAll } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { registryChecks } from '../../../../src/homes/directory/doctor/registry/registry.js';
import { RegistryService } from '../../../../src/registry/service.js';

export interface TestRegistry extends RegistryBench {
  kernel: Kernel;
  port: DirectoryRegistry;
  limits: Limits;
  dataDir: string;
  /** Closes, lets time pass, opens again. */
  restart(downSeconds: number): Promise<void>;
}

export interface TestRegistryOptions {
  engine?: EngineName;
  shards?: number;
  limits?: Partial<Limits>;
}

export async function openRegistry({
  engine = 'memory',
  shards = 1,
  limits: given = {},
}: TestRegistryOptions = {}): Promise<TestRegistry> {
  const dataDir = await mkdtemp(join(tmpdir(), 'stoa-registry-'));
  const clock = { nowMs: startMs };
  const lost: string[] = [];
  const limits = limitsWith(given);
  const open = async () => {
    const kernel = await openKernel({
      dataDir,
      engine,
      shards,
      families: directoryFamilies,
      limits,
      clock: () => clock.nowMs,
      onError: (error) => {
        throw error;
      },
    });
    const port = new DirectoryRegistry(kernel);
    port.verbs.leases.onPresenceLost = (tx, { record, meta }) => {
      lost.push(record.agent_id);
      tx.change({ domain: 'workspaces', kind: 'task.returned', id: 'task', user: meta.user, version: 1 });
    };
    const writer = new DirectoryWriter(kernel, port.callers);
    port.forgetAbsent(writer, (error) => {
      throw error;
    });
    return { kernel, port, writer, registry: new RegistryService({ writer, port, limits }) };
  };
  const opened: TestRegistry = {
    ...(await open()),
    clock,
    limits,
    dataDir,
    lost,
    commits: async () => opened.kernel.feed.read().commits.map(({ changes }) => changes),
    agentRows: async () => agentRows(opened.kernel),
    findings: async () => {
      const found: unknown[] = [];
      const { kernel } = opened;
      for await (const finding of examineAll(kernel.stores, registryChecks(kernel))) found.push(finding);
      return found;
    },
    pass: async (seconds) => {
      clock.nowMs += seconds * 1_000;
      await opened.kernel.sweep();
      await opened.port.forgetting;
    },
    restart: async (downSeconds) => {
      await opened.kernel.close();
      clock.nowMs += downSeconds * 1_000;
      Object.assign(opened, await open());
    },
    close: async () => {
      await opened.kernel.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
  return opened;
}

/** Users stay, and of their deleted agents one number, so that no fencing number is given out twice. */
function agentRows({ stores }: Kernel): string[] {
  const ofUsers: string[] = [registryFamilies.users, registryFamilies.userNames];
  const families = Object.values(registryFamilies).filter((family) => !ofUsers.includes(family));
  return stores.flatMap((store) =>
    [...families, kernelFamilies.directory, 'kernel/timers'].flatMap((family) =>
      Array.from(store.range(family, {}))
        .filter(({ key }) => family !== registryFamilies.counts || key[0] !== countKinds.fenceOfDeleted)
        .map(({ key }) => `${family} ${key.toString('hex')}`),
    ),
  );
}
