/** What the suites of workspaces work with: a home with a clock that the test turns. */
import { type Caller, operatorCaller } from '../../core/caller.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Writer } from '../../core/write.js';
import type { Sealer } from '../../secrets/sealer.js';
import type { RekeyReport } from '../../secrets/secrets.js';
import type { Claim, Task } from '../model.js';
import type { WorkspacesPort } from '../port.js';
import type { WorkspacesService } from '../service.js';

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

export type OpenBench = (limits?: Partial<Limits>) => Promise<Bench>;

/** A caller that acts for one user. */
export function userCaller(user: string, changes: Partial<Caller> = {}): Caller {
  return { ...operatorCaller(user), kind: 'user', ...changes };
}

/** An agent of a user, for the suites of tasks. */
export const ada = userCaller('ada', { agent: 'worker-1' });

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

/** The calls that tests of tasks share: a claim that must succeed, and the ids of the ready tasks. */
export function readyTasks(service: () => WorkspacesService, caller: Caller) {
  return {
    claimOne: async (projectId: string): Promise<Claim> => {
      const claim = await service().claimTask(caller, projectId);
      if (claim === null) throw new Error('no task was ready');
      return claim;
    },
    readyIds: async (projectId: string): Promise<string[]> =>
      (await service().listReadyTasks(caller, projectId, { limit: 100 })).items.map(({ id }) => id),
  };
}
