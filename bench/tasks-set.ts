/** A project with so many ready tasks, kept between runs. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { directoryFamilies } from '../src/homes/directory/families.js';
import { openDirectoryWorkspaces } from '../src/homes/directory/workspaces/open.js';
import type { DirectoryWorkspaces } from '../src/homes/directory/workspaces/workspaces.js';
import { operatorCaller } from '../src/core/caller.js';
import { type Step, writeOne } from '../src/core/write.js';
import { DirectoryWriter } from '../src/homes/directory/writer.js';
import type { EngineName } from '../src/core/settings/store-config.js';
import { openKernel } from '../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../src/core/settings/limits.js';
import { openSecrets } from '../src/secrets/secrets.js';
import { newId } from '../src/workspaces/ids.js';

export const owner = 'bench';
const tasksPerTransaction = 500;

export interface TaskSet {
  kernel: Kernel;
  port: DirectoryWorkspaces;
  write<Result>(step: Step<Result>): Promise<Result>;
  projectId: string;
  sessionId: string;
}

export async function openFilled(dataDir: string, engine: EngineName, count: number): Promise<TaskSet> {
  const limits = limitsWith({ feedBytesMax: 1 << 24, redoBytesMax: 1 << 24 });
  const kernel = await openKernel({
    dataDir,
    engine,
    families: directoryFamilies,
    limits,
    sweepIntervalMs: 3_600_000,
  });
  const { sealer } = await openSecrets({ dataDir: null });
  const port = await openDirectoryWorkspaces(kernel, { sealer });
  const writer = new DirectoryWriter(kernel);
  const request = { caller: operatorCaller(owner) };
  const write = <Result>(step: Step<Result>): Promise<Result> => writeOne(writer, request, step);
  const mark = `${dataDir}.filled`;
  if (!existsSync(mark)) await fill({ kernel, port, write }, count).then(() => writeFile(mark, ''));
  const [workspace] = (await port.listWorkspaces(owner, { after: null, limit: 1, deleted: false })).items;
  const [project] = (
    await port.listProjects(owner, workspace?.id ?? '', { after: null, limit: 1, deleted: false })
  ).items;
  const [session] = (await port.listSessions(owner, project?.id ?? '', { after: null, limit: 1 })).items;
  return { kernel, port, write, projectId: project?.id ?? '', sessionId: session?.id ?? '' };
}

async function fill(
  { kernel, port, write }: Pick<TaskSet, 'kernel' | 'port' | 'write'>,
  count: number,
): Promise<void> {
  const workspace = await write(port.createWorkspace(owner, newId('workspace'), { name: 'bench' }));
  const project = await write(port.createProject(owner, workspace.id, newId('project'), { name: 'bench' }));
  const session = await write(port.createSession(owner, project.id, newId('session'), {}));
  for (let made = 0; made < count; made += tasksPerTransaction) {
    await kernel.root.transact((tx) => {
      for (let index = 0; index < tasksPerTransaction; index += 1)
        port.tasks.create(tx, owner, session.id, newId('task'), {
          command: 'go test ./...',
          max_attempts: 1_000_000_000,
        });
    });
    if (made % 20_000 === 0) {
      await kernel.trim();
      process.stderr.write(`  ${made} of ${count} tasks\r`);
    }
  }
}

export async function close({ kernel, port }: TaskSet): Promise<void> {
  await port.close();
  await kernel.close();
}
