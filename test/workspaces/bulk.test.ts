/** Work in many steps that a stop interrupts: it continues at the next start. */
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { workspaceChecks } from '../../src/homes/directory/doctor/workspaces.js';
import { openDirectoryWorkspaces } from '../../src/homes/directory/workspaces/open.js';
import { workspacesFamilies } from '../../src/homes/directory/workspaces/keys.js';
import type { DirectoryWorkspaces } from '../../src/homes/directory/workspaces/workspaces.js';
import { reshardDirectory } from '../../src/homes/directory/reshard.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import { examine } from '../../src/homes/directory/kernel/inspect/doctor.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { openKernel } from '../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { userKey } from '../../src/identity/user-key.js';
import { type Secrets, openSecrets } from '../../src/secrets/secrets.js';
import { WorkspacesService } from '../../src/workspaces/service.js';
import { makePlace, makeTasks, userCaller } from '../../src/workspaces/conformance/bench.js';

const ada = userCaller('ada');
const limits = limitsWith({ workspaceStepRowsMax: 3 });
let dataDir: string;
let nowMs = Date.now();

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-bulk-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

interface Opened {
  kernel: Kernel;
  port: DirectoryWorkspaces;
  service: WorkspacesService;
  secrets: Secrets;
}

async function during<T>(engine: EngineName, body: (opened: Opened) => Promise<T>): Promise<T> {
  const kernel = await openKernel({
    dataDir,
    engine,
    families: directoryFamilies,
    limits,
    sweepIntervalMs: 3_600_000,
    // Each transaction has a later time than the one before.
    clock: () => (nowMs += 1),
  });
  const secrets = await openSecrets({ dataDir });
  const port = await openDirectoryWorkspaces(kernel, { sealer: secrets.sealer });
  secrets.addHolder({ name: 'workspaces', reseal: (onProgress) => port.reseal(onProgress) });
  const service = new WorkspacesService({
    writer: new DirectoryWriter(kernel),
    port,
    limits,
    sealer: secrets.sealer,
  });
  try {
    return await body({ kernel, port, service, secrets });
  } finally {
    await service.close();
    await kernel.close();
  }
}

/** Reads what is stored after the process has ended, and before the next one has begun. */
async function between<T>(
  engine: EngineName,
  read: (opened: { kernel: Kernel }) => T | Promise<T>,
): Promise<T> {
  const kernel = await openKernel({
    dataDir,
    engine,
    families: directoryFamilies,
    limits,
    sweepIntervalMs: 3_600_000,
  });
  try {
    return await read({ kernel });
  } finally {
    await kernel.close();
  }
}

function storedBetween(engine: EngineName): Promise<string> {
  return between(engine, ({ kernel }) => textOf(kernel));
}

function textOf(kernel: Kernel): string {
  return workspacesFamilies
    .flatMap((family) =>
      Array.from(kernel.root.range(family, {}), ({ key, value }) => `${key.toString()} ${value.toString()}`),
    )
    .join('\n');
}

/** Runs in the background without a request. */
async function settled({ kernel }: Opened): Promise<void> {
  await expect.poll(() => textOf(kernel), { interval: 10 }).not.toContain('meta:work:');
}

async function expectSound({ kernel }: { kernel: Kernel }): Promise<void> {
  for await (const finding of examine(kernel.root, workspaceChecks()))
    throw new Error(`The doctor found: ${finding.problem}`);
}

describe.each(['lmdb', 'rocksdb'] as const)('on %s', (engine) => {
  it('a purge continues after a restart', async () => {
    const { tasks, projectId } = await during(engine, async ({ service }) => {
      const place = await makePlace(service, ada);
      const made = await makeTasks(service, ada, place.sessionId, 20);
      await service.deleteProject(ada, place.projectId);
      await service.purgeProject(ada, place.projectId);
      return { tasks: made, projectId: place.projectId };
    });
    const between = await storedBetween(engine);
    expect(between).toContain(`meta:work:purge:${projectId}`);
    expect(between).toContain(tasks.at(-1)?.id);
    await during(engine, async (opened) => {
      await settled(opened);
      for (const { id } of tasks) expect(textOf(opened.kernel)).not.toContain(id);
      await expectSound(opened);
    });
  });

  it('the release of the claims of a lost agent continues after a restart, without its later claims', async () => {
    const scout = { ...ada, agent: 'scout' };
    const { tasks, again } = await during(engine, async ({ service, kernel, port }) => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 20);
      for (const _task of made) await service.claimTask(scout, projectId, { lease_seconds: 3_600 });
      const urgent = await service.createTask(ada, sessionId, { command: 'x', priority: 9 });
      await Promise.all([
        kernel.root.transact((tx) => port.tasks.releaseClaims(tx, 'ada', ['agent-id', 'scout'])),
        service.claimTask(scout, projectId, { lease_seconds: 3_600 }),
      ]);
      return { tasks: [...made, urgent], again: urgent.id };
    });
    expect(await storedBetween(engine)).toContain('meta:work:release:');
    await during(engine, async (opened) => {
      await settled(opened);
      const statuses = await Promise.all(
        tasks.map(async ({ id }) => (await opened.service.getTask(ada, id)).status),
      );
      expect(statuses).toEqual(tasks.map(({ id }) => (id === again ? 'running' : 'pending')));
      await expectSound(opened);
    });
  });

  it.each(['cancelled', 'deleted'])('what depends on a %s task is cancelled after a restart', async (end) => {
    const { sessionId, first } = await during(engine, async ({ service }) => {
      const place = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, place.sessionId, 1);
      for (let index = 0; index < 20; index += 1)
        await service.createTask(ada, place.sessionId, { command: 'x', depends_on: [task!.id] });
      if (end === 'cancelled') await service.cancelTask(ada, task!.id);
      else await service.deleteTask(ada, task!.id);
      return { sessionId: place.sessionId, first: task! };
    });
    expect(await storedBetween(engine)).toContain(`meta:work:dependants:${first.id}`);
    await between(engine, expectSound);
    await during(engine, async (opened) => {
      await settled(opened);
      const { items } = await opened.service.listSessionTasks(ada, sessionId, {
        status: 'cancelled',
        limit: 100,
      });
      expect(items.filter(({ id }) => id !== first.id)).toHaveLength(20);
      await expectSound(opened);
    });
  });

  it('what depends on a deleted task is cancelled in more shards after a restart', async () => {
    const children = await during(engine, async ({ service }) => {
      const { sessionId } = await makePlace(service, ada);
      const [gone] = await makeTasks(service, ada, sessionId, 1);
      const made = await Promise.all(
        Array.from({ length: 20 }, () =>
          service.createTask(ada, sessionId, { command: 'x', depends_on: [gone!.id] }),
        ),
      );
      await service.deleteTask(ada, gone!.id);
      return made.map(({ id }) => id);
    });
    const shards = 4;
    expect((userKey('ada')[0] as number) % shards).not.toBe(0);
    const [from, to] = [dataDir, `${dataDir}-sharded`];
    await reshardDirectory({ from, to, shards, limits });
    try {
      dataDir = to;
      await during(engine, async ({ service }) => {
        const statusOf = async (id: string) => (await service.getTask(ada, id)).status;
        for (const id of children) await expect.poll(() => statusOf(id), { interval: 10 }).toBe('cancelled');
      });
    } finally {
      dataDir = from;
      await rm(to, { recursive: true, force: true });
    }
  });

  it('what depends on a deleted task is not ready before it is cancelled', async () => {
    const { projectId, children } = await during(engine, async ({ service }) => {
      const place = await makePlace(service, ada);
      const [gone, done] = await makeTasks(service, ada, place.sessionId, 2);
      await service.claimTask(ada, place.projectId);
      const { lease } = (await service.claimTask(ada, place.projectId))!;
      const made: string[] = [];
      for (let index = 0; index < 20; index += 1) {
        const input = { command: 'x', depends_on: [gone!.id, done!.id] };
        made.push((await service.createTask(ada, place.sessionId, input)).id);
      }
      // Both in one turn: the further steps of the deletion come later.
      await Promise.all([
        service.deleteTask(ada, gone!.id),
        service.completeTask(ada, done!.id, { fence: lease.fence }),
      ]);
      expect((await service.listReadyTasks(ada, place.projectId)).items).toEqual([]);
      return { ...place, children: made };
    });
    await during(engine, async (opened) => {
      await settled(opened);
      for (const id of children)
        expect(await opened.service.getTask(ada, id)).toMatchObject({ status: 'cancelled' });
      expect(await opened.service.claimTask(ada, projectId)).toBeNull();
      await expectSound(opened);
    });
  });

  it('a re-keying continues after a restart, and every secret can be read meanwhile', async () => {
    const ids = await during(engine, async ({ service, secrets }) => {
      const made: string[] = [];
      for (let index = 0; index < 12; index += 1)
        made.push((await service.createWorkspace(ada, { name: `w${index}`, claude_key: `key ${index}` })).id);
      // The first step ends the process.
      await new Promise<void>((resolve) => {
        void secrets.rekey(() => {
          void service.close();
          resolve();
        });
      });
      return made;
    });
    expect(await storedBetween(engine)).toContain('meta:work:reseal:all');
    await during(engine, async (opened) => {
      await settled(opened);
      for (const [index, id] of ids.entries()) {
        expect(await opened.service.revealWorkspaceKey(ada, id)).toBe(`key ${index}`);
        expect(
          opened.secrets.sealer.isStale(
            (await opened.port.getWorkspace('ada', id, false)).claude_key as string,
          ),
        ).toBe(false);
      }
      await expectSound(opened);
    });
  });
});
