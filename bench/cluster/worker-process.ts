/** The other half of `worker.ts`: `node worker-process.js KIND PLACE`. */
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { rateInFlight } from '../frame.js';
import type { Place } from './cluster.js';
import { importFrom } from '../packages.js';
import type { WorkerKind } from './worker.js';

const loops = 32;
const queues = 20;
const keys = 10_000;

interface Work {
  run(milliseconds: number): Promise<unknown>;
  stop(): Promise<unknown>;
}

interface PgBoss {
  on(event: 'error', listener: (error: unknown) => void): void;
  start(): Promise<unknown>;
  createQueue(name: string): Promise<void>;
  send(name: string, data: object): Promise<string | null>;
  fetch(name: string): Promise<{ id: string }[]>;
  complete(name: string, id: string): Promise<unknown>;
  stop(): Promise<unknown>;
}

const kinds: Record<WorkerKind, (place: Place) => Promise<Work>> = {
  'stoa-tasks': stoaTasks,
  'pg-boss': pgBossTasks,
  writer,
  watcher,
};

/** Each loop creates a task, claims a task of the same project and completes it. */
async function stoaTasks(place: Place): Promise<Work> {
  const stoa = await openStoa(place);
  const caller = operatorCaller('bench', 'worker');
  const { workspaces } = stoa;
  const workspace = await workspaces.createWorkspace(caller, { name: `bench ${process.pid}` });
  const projects: { projectId: string; sessionId: string }[] = [];
  for (let index = 0; index < queues; index += 1) {
    const { id: projectId } = await workspaces.createProject(caller, workspace.id, { name: `p${index}` });
    const { id: sessionId } = await workspaces.createSession(caller, projectId, { status: 'active' });
    projects.push({ projectId, sessionId });
  }
  let turn = 0;
  const cycle = async (): Promise<void> => {
    const place = projects[(turn += 1) % queues];
    if (place === undefined) return;
    await workspaces.createTask(caller, place.sessionId, { command: 'npm test' });
    const claim = await workspaces.claimTask(caller, place.projectId);
    if (claim === null) throw new Error('A project with a pending task gave none.');
    await workspaces.completeTask(caller, claim.task.id, { fence: claim.lease.fence, output: 'done' });
  };
  return { run: (milliseconds) => rateInFlight(loops, cycle, milliseconds), stop: () => stoa.close() };
}

async function pgBossTasks({ packages, postgres }: Place): Promise<Work> {
  const { default: Boss } = await importFrom<{ default: new (url: string) => PgBoss }>(packages, 'pg-boss');
  const boss = new Boss(postgres);
  boss.on('error', (error) => process.emitWarning(`pg-boss: ${String(error)}`));
  await boss.start();
  const names = Array.from({ length: queues }, (_, index) => `bench_${process.pid}_${index}`);
  for (const name of names) await boss.createQueue(name);
  let turn = 0;
  const cycle = async (): Promise<void> => {
    const name = names[(turn += 1) % queues] ?? '';
    await boss.send(name, { command: 'npm test' });
    const [job] = await boss.fetch(name);
    if (job === undefined) throw new Error('A queue with a job gave none.');
    await boss.complete(name, job.id);
  };
  return { run: (milliseconds) => rateInFlight(loops, cycle, milliseconds), stop: () => boss.stop() };
}

/** Writes documents, and answers when each write was acknowledged. */
async function writer(place: Place): Promise<Work> {
  const stoa = await openStoa(place);
  const caller = operatorCaller('bench');
  return {
    run: async (milliseconds) => {
      const acknowledgedMs: Record<string, number> = {};
      const set = async (): Promise<void> => {
        const key = `lag-${Math.floor(Math.random() * keys)}`;
        const { version } = await stoa.data.set(caller, 'lag', key, { text: 'x'.repeat(200) });
        acknowledgedMs[`${key} ${version}`] = Date.now();
      };
      await rateInFlight(loops, set, milliseconds);
      return acknowledgedMs;
    },
    stop: () => stoa.close(),
  };
}

/** Follows the feed, and answers when each change arrived. */
async function watcher(place: Place): Promise<Work> {
  const stoa = await openStoa(place);
  const over = new AbortController();
  const seenMs: Record<string, number> = {};
  const pages = await stoa.changes.follow(operatorCaller('bench'), { topics: ['data'] }, over.signal);
  const following = (async () => {
    for await (const page of pages)
      for (const { changes } of page.commits)
        for (const { facts, version } of changes)
          seenMs[`${String(facts?.['key'])} ${version}`] ??= Date.now();
  })();
  return {
    run: async (milliseconds) => {
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      return seenMs;
    },
    stop: async () => {
      over.abort();
      await following;
      await stoa.close();
    },
  };
}

const [, , kind, place] = process.argv;
// `worker.ts` starts this process with a kind and a place.
const work = await kinds[kind as WorkerKind](JSON.parse(place ?? '') as Place);
process.on('message', (milliseconds: number) => {
  void work.run(milliseconds).then((result) => process.send?.(result));
});
process.on('disconnect', () => {
  void work.stop().then(() => process.exit(0));
});
process.send?.('ready');
