/**
 * The stored layout: the seed's version and keys, a second version over data of the first, and newer data
 * refused.
 */
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openDirectoryWorkspaces } from '../../src/homes/directory/workspaces/open.js';
import { DirectoryWorkspaces } from '../../src/homes/directory/workspaces/workspaces.js';
import { buckets } from '../../src/homes/directory/workspaces/keys.js';
import { type Migration, workspaceMigrations } from '../../src/homes/directory/workspaces/migrations.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import { openKernel } from '../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { type Secrets, openSecrets } from '../../src/secrets/secrets.js';
import { WorkspacesService } from '../../src/workspaces/service.js';
import { makePlace, makeTasks, userCaller } from '../../src/workspaces/conformance/bench.js';

const ada = userCaller('ada');
const limits = limitsWith();
let dataDir: string;
let secrets: Secrets;
let kernel: Kernel;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'stoa-migrations-'));
  secrets = await openSecrets({ dataDir: null });
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

async function open(migrations?: readonly Migration[]): Promise<WorkspacesService> {
  kernel = await openKernel({ dataDir, families: directoryFamilies, limits, sweepIntervalMs: 3_600_000 });
  const port: DirectoryWorkspaces = await openDirectoryWorkspaces(kernel, {
    sealer: secrets.sealer,
    ...(migrations && { migrations }),
  });
  return new WorkspacesService({ writer: new DirectoryWriter(kernel), port, limits, sealer: secrets.sealer });
}

async function close(service: WorkspacesService): Promise<void> {
  await service.close();
  await kernel.close();
}

function stored(bucket: string): Record<string, string> {
  return Object.fromEntries(
    Array.from(kernel.root.range(bucket, {}), ({ key, value }) => [key.toString(), value.toString()]),
  );
}

it("a new directory has the seed's version, buckets and keys", async () => {
  const service = await open();
  expect(stored(buckets.metadata)).toEqual({
    'meta:schema_version': '1',
    'meta:last_migration': '001_initial',
  });
  const workspace = await service.createWorkspace(userCaller('user_123'), { name: 'My Project' });
  const project = await service.createProject(userCaller('user_123'), workspace.id, { name: 'p' });
  const session = await service.createSession(userCaller('user_123'), project.id, { status: 'active' });
  const task = await service.createTask(userCaller('user_123'), session.id, { command: 'x' });
  expect(stored(buckets.indexes)).toMatchObject({
    [`idx:workspace:owner:user_123:${workspace.id}`]: workspace.id,
    [`idx:project:workspace:${workspace.id}:${project.id}`]: project.id,
    [`idx:session:project:${project.id}:${session.id}`]: session.id,
    [`idx:task:session:${session.id}:${task.id}`]: task.id,
    [`idx:session:active:${project.id}`]: session.id,
  });
  expect(JSON.parse(stored(buckets.workspaces)[`workspace:${workspace.id}`] ?? '')).toEqual({
    ...workspace,
    active_tasks: 1,
  });
  expect(Object.keys(stored(buckets.projects))).toEqual([`project:${project.id}`]);
  expect(Object.keys(stored(buckets.sessions))).toEqual([`session:${session.id}`]);
  expect(Object.keys(stored(buckets.tasks))).toEqual([`task:${task.id}`]);
  await close(service);
});

/** A second version that gives every task a new field, three records per step; it can be made to fail. */
function secondVersion(failAfterSteps = Infinity): Migration {
  let steps = 0;
  return {
    version: 2,
    name: '002_task_labels',
    step: (tx, from) => {
      steps += 1;
      if (steps > failAfterSteps) throw new Error('the machine stopped here');
      const rows = Array.from(
        tx.range(buckets.tasks, { ...(from !== null && { gt: Buffer.from(from) }), limit: 3 }),
      );
      for (const { key, value } of rows)
        tx.put(
          buckets.tasks,
          key,
          Buffer.from(JSON.stringify({ ...(JSON.parse(value.toString()) as object), labels: [] })),
        );
      return rows.length < 3 ? null : (rows.at(-1)?.key.toString() ?? null);
    },
  };
}

it('data of the first version is migrated step by step, also after an interruption', async () => {
  const first = await open();
  const { sessionId } = await makePlace(first, ada);
  const tasks = await makeTasks(first, ada, sessionId, 10);
  await close(first);

  await expect(open([...workspaceMigrations, secondVersion(2)])).rejects.toThrow('the machine stopped here');
  expect(stored(buckets.metadata)).toMatchObject({
    'meta:schema_version': '1',
    'meta:migrating': expect.stringContaining('task:'),
  });
  await kernel.close();

  const second = await open([...workspaceMigrations, secondVersion()]);
  expect(stored(buckets.metadata)).toMatchObject({
    'meta:schema_version': '2',
    'meta:last_migration': '002_task_labels',
  });
  expect(stored(buckets.metadata)).not.toHaveProperty('meta:migrating');
  for (const { id } of tasks) expect(await second.getTask(ada, id)).toMatchObject({ id, labels: [] });
  await close(second);

  await expect(open()).rejects.toMatchObject({ code: 'newer_data' });
  await kernel.close();
});
