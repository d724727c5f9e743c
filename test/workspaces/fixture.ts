/** Workspaces on each backend, with a clock that the test turns. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type DirectoryWorkspaces,
  openDirectoryWorkspaces,
  workspacesFamilies,
} from '../../src/homes/directory/workspaces/workspaces.js';
import { dataFamilies } from '../../src/homes/directory/datastore/rows.js';
import { type Caller, operatorCaller } from '../../src/core/caller.js';
import type { Writer } from '../../src/core/write.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { type Kernel, openKernel } from '../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import type { Sealer } from '../../src/secrets/sealer.js';
import { type RekeyReport, openSecrets } from '../../src/secrets/secrets.js';
import type { Task } from '../../src/workspaces/model.js';
import type { WorkspacesPort } from '../../src/workspaces/port.js';
import { WorkspacesService } from '../../src/workspaces/service.js';

export interface ChangeSeen {
  kind: string;
  id: string;
  user: string | null;
  facts: Readonly<Record<string, unknown>>;
}

export interface Bench {
  service: WorkspacesService;
  port: WorkspacesPort;
  writer: Writer;
  sealer: Sealer;
  rekey(onProgress?: () => void): Promise<RekeyReport>;
  /** Moves the clock. */
  pass(seconds: number): void;
  /** Does what is due by the clock. */
  sweep(): Promise<void>;
  changes(): Promise<ChangeSeen[]>;
  /** Everything that is stored, as text. */
  dump(): Promise<string>;
  close(): Promise<void>;
}

export interface EmbeddedBench extends Bench {
  kernel: Kernel;
  port: DirectoryWorkspaces;
}

export type OpenBench = (limits?: Partial<Limits>) => Promise<Bench>;

export async function openEmbedded(
  engine: EngineName,
  limits: Partial<Limits> = {},
  shards = 1,
): Promise<EmbeddedBench> {
  const dataDir = await mkdtemp(join(tmpdir(), 'stoa-workspaces-'));
  const allLimits = limitsWith(limits);
  let offsetMs = 0;
  const clock = (): number => Date.now() + offsetMs;
  const kernel = await openKernel({
    dataDir,
    engine,
    shards,
    // Answers that are kept count in the user's bytes, which the data store keeps.
    families: [...workspacesFamilies, ...Object.values(dataFamilies)],
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

/** A caller that acts for one user. */
export function userCaller(user: string, changes: Partial<Caller> = {}): Caller {
  return { ...operatorCaller(user), kind: 'user', ...changes };
}

export interface Place {
  workspaceId: string;
  projectId: string;
  sessionId: string;
}

let places = 0;

/** A workspace with a project and a session in it. */
export async function makePlace(service: WorkspacesService, caller: Caller): Promise<Place> {
  places += 1;
  const workspace = await service.createWorkspace(caller, { name: `place ${places}` });
  const project = await service.createProject(caller, workspace.id, { name: 'project' });
  const session = await service.createSession(caller, project.id);
  return { workspaceId: workspace.id, projectId: project.id, sessionId: session.id };
}

/** Few tasks are made one after the other, so that their order is known; many at the same time. */
export async function makeTasks(
  service: WorkspacesService,
  caller: Caller,
  sessionId: string,
  count: number,
): Promise<Task[]> {
  const make = (index: number): Promise<Task> =>
    service.createTask(caller, sessionId, { command: `command ${index}` });
  if (count > 10) return Promise.all(Array.from({ length: count }, (_, index) => make(index)));
  const tasks: Task[] = [];
  for (let index = 0; index < count; index += 1) tasks.push(await make(index));
  return tasks;
}
