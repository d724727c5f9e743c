/** Random histories against a model in memory, on every backend: both agree, and the doctor finds nothing. */
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { workspaceChecks } from '../../src/homes/directory/doctor/workspaces.js';
import { StoaError } from '../../src/core/errors.js';
import { examine } from '../../src/homes/directory/kernel/inspect/doctor.js';
import type { WorkspacesService } from '../../src/workspaces/service.js';
import { type Bench, makePlace, userCaller } from '../../src/workspaces/conformance/bench.js';
import { type DirectoryBench, openDirectoryBench } from '../homes/directory/workspaces/fixture.js';
import { openPostgresBench } from '../homes/postgres/workspaces/fixture.js';

const ada = userCaller('ada');

type Verb = (typeof verbs)[number];
const verbs = ['complete', 'fail', 'retry', 'heartbeat', 'cancel', 'delete', 'ask', 'answer'] as const;

/** Seconds, chosen so that no sum of passed seconds comes near them from below. */
const delaySeconds = 59;
const questionSeconds = 99;

/** Claims, and the labels of the tasks that they take. */
const filters: readonly { body: object; takes: (labels: readonly string[]) => boolean }[] = [
  { body: {}, takes: () => true },
  { body: { labels: ['a'] }, takes: (labels) => labels.includes('a') },
  { body: { without_labels: ['b'] }, takes: (labels) => !labels.includes('b') },
  { body: { skills: ['b'] }, takes: (labels) => !labels.includes('a') },
];

type Step =
  | { do: 'create'; priority: number; after: number[]; labels: string[]; delayed: boolean }
  | { do: 'claim'; filter: number }
  | { do: Verb; task: number; stale: boolean }
  | { do: 'pass'; seconds: number }
  | { do: 'hide' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('create' as const),
      priority: fc.integer({ min: -2, max: 2 }),
      after: fc.array(fc.nat(11), { maxLength: 2 }),
      labels: fc.subarray(['a', 'b']),
      delayed: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('claim' as const), filter: fc.nat(filters.length - 1) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constantFrom(...verbs),
      task: fc.nat(11),
      stale: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), seconds: fc.constantFrom(20, 61) }) },
  { weight: 1, arbitrary: fc.constant({ do: 'hide' as const }) },
);

interface ModelTask {
  id: string;
  order: number;
  priority: number;
  after: ModelTask[];
  labels: string[];
  runAt: number;
  status: 'pending' | 'running' | 'input_required' | 'completed' | 'failed' | 'cancelled' | 'deleted';
  attempts: number;
  fence: number;
  expiresAt: number;
  isHeld: boolean;
  questionExpiresAt: number;
}

/** The rules again, in the simplest form. */
class Model {
  readonly tasks: ModelTask[] = [];
  now = 0;

  ready(): ModelTask[] {
    const ready = this.tasks.filter(
      (task) =>
        task.status === 'pending' &&
        task.runAt <= this.now &&
        task.after.every(
          (dependency) => dependency.status === 'completed' || dependency.status === 'deleted',
        ),
    );
    return ready.toSorted((a, b) => b.priority - a.priority || a.order - b.order);
  }

  /** Tasks that wait for a dependency without a result are cancelled with it. */
  settle(): void {
    for (let changed = true; changed;) {
      changed = false;
      for (const task of this.tasks) {
        if (
          task.status !== 'pending' ||
          !task.after.some(({ status }) => status === 'failed' || status === 'cancelled')
        )
          continue;
        task.status = 'cancelled';
        changed = true;
      }
    }
  }

  lapse(): void {
    for (const task of this.tasks) {
      if (task.status === 'running' && task.expiresAt <= this.now) this.giveBack(task);
      if (task.status === 'input_required' && task.expiresAt <= this.now) task.isHeld = false;
      if (task.status === 'input_required' && task.questionExpiresAt <= this.now)
        Object.assign(task, { status: 'failed', attempts: task.attempts + 1 });
    }
    this.settle();
  }

  giveBack(task: ModelTask): void {
    task.attempts += 1;
    task.status = task.attempts >= 3 ? 'failed' : 'pending';
  }
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'ok';
  } catch (error) {
    if (error instanceof StoaError) return error.code;
    throw error;
  }
}

async function play(bench: Bench, steps: readonly Step[]): Promise<void> {
  const { service } = bench;
  const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
  const model = new Model();
  for (const one of steps) {
    await playStep(bench, model, { projectId, sessionId }, one);
    expect((await service.listReadyTasks(ada, projectId, { limit: 100 })).items.map(({ id }) => id)).toEqual(
      model.ready().map(({ id }) => id),
    );
    const living = model.tasks.filter(({ status }) => status !== 'deleted');
    const stored = (await service.listSessionTasks(ada, sessionId, { limit: 100 })).items;
    expect(stored.map(({ id, status, attempts }) => ({ id, status, attempts }))).toEqual(
      living.map(({ id, status, attempts }) => ({ id, status, attempts })),
    );
    expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(
      living.filter(({ status }) => ['pending', 'running', 'input_required'].includes(status)).length,
    );
  }
}

async function playStep(
  bench: Bench,
  model: Model,
  { projectId, sessionId }: { projectId: string; sessionId: string },
  one: Step,
): Promise<void> {
  const { service } = bench;
  switch (one.do) {
    case 'create': {
      const after = [
        ...new Set(
          one.after
            .map((index) => model.tasks[index])
            .filter(
              (task) => task !== undefined && ['pending', 'running', 'completed'].includes(task.status),
            ),
        ),
      ] as ModelTask[];
      const task = await service.createTask(ada, sessionId, {
        command: 'x',
        priority: one.priority,
        depends_on: after.map(({ id }) => id),
        labels: one.labels,
        ...(one.delayed && { run_at: new Date(clockOf(bench) + delaySeconds * 1_000).toISOString() }),
      });
      model.tasks.push({
        id: task.id,
        order: model.tasks.length,
        priority: one.priority,
        after,
        labels: one.labels,
        runAt: one.delayed ? model.now + delaySeconds : 0,
        status: 'pending',
        attempts: 0,
        fence: 0,
        expiresAt: 0,
        isHeld: false,
        questionExpiresAt: 0,
      });
      return;
    }
    case 'claim': {
      const { body, takes } = filters[one.filter]!;
      const expected = model.ready().find(({ labels }) => takes(labels));
      const claim = await service.claimTask(ada, projectId, body);
      expect(claim?.task.id).toBe(expected?.id);
      if (expected === undefined || claim === null) return;
      expect(claim.lease.fence).toBeGreaterThan(expected.fence);
      Object.assign(expected, {
        status: 'running',
        fence: claim.lease.fence,
        expiresAt: model.now + 60,
        isHeld: true,
      });
      return;
    }
    case 'pass':
      bench.pass(one.seconds);
      passedSeconds.set(bench, (passedSeconds.get(bench) ?? 0) + one.seconds);
      model.now += one.seconds;
      await bench.sweep();
      model.lapse();
      return;
    case 'hide':
      await service.deleteProject(ada, projectId);
      expect(await codeOf(service.claimTask(ada, projectId))).toBe('not_found');
      await service.restoreProject(ada, projectId);
      return;
    default: {
      const task = model.tasks[one.task];
      if (task === undefined || task.status === 'deleted') return;
      await actOn(service, model, task, one.do, one.stale);
      model.settle();
      await bench.sweep();
    }
  }
}

async function actOn(
  service: WorkspacesService,
  model: Model,
  task: ModelTask,
  verb: Verb,
  stale: boolean,
): Promise<void> {
  if (verb === 'delete') {
    await service.deleteTask(ada, task.id);
    // Tasks that depend on a completed task continue; on any other ended task they are cancelled.
    const wasCompleted = task.status === 'completed';
    if (!wasCompleted) {
      task.status = 'cancelled';
      model.settle();
    }
    task.status = 'deleted';
    return;
  }
  if (verb === 'cancel') {
    const isOver = task.status === 'completed' || task.status === 'failed';
    expect(await codeOf(service.cancelTask(ada, task.id))).toBe(isOver ? 'invalid_transition' : 'ok');
    if (!isOver) task.status = 'cancelled';
    return;
  }
  if (verb === 'answer') {
    const waits = task.status === 'input_required';
    writes += 1;
    const call = service.answerQuestion(ada, task.id, { answer: String(writes) });
    expect(await codeOf(call)).toBe(waits ? 'ok' : 'conflict');
    if (waits)
      Object.assign(task, { status: task.isHeld ? 'running' : 'pending', expiresAt: model.now + 60 });
    return;
  }
  const fence = stale ? task.fence + 1 : Math.max(1, task.fence);
  const isAsking = task.status === 'input_required';
  const holds = !stale && (task.status === 'running' || (isAsking && task.isHeld));
  // Each write is a new one: the counter keeps a repeat from being the same.
  writes += 1;
  const call = {
    complete: () => service.completeTask(ada, task.id, { fence, output: String(writes) }),
    fail: () => service.failTask(ada, task.id, { fence, error: String(writes) }),
    retry: () => service.failTask(ada, task.id, { fence, error: String(writes), retry: true }),
    heartbeat: () => service.heartbeatTask(ada, task.id, { fence }),
    ask: () =>
      service.askQuestion(ada, task.id, {
        fence,
        question: String(writes),
        expires_seconds: questionSeconds,
      }),
  }[verb];
  const whileAsking = {
    complete: 'conflict',
    fail: 'conflict',
    retry: 'conflict',
    ask: 'invalid_transition',
  };
  const refusal = isAsking && verb !== 'heartbeat' ? whileAsking[verb] : 'ok';
  expect(await codeOf(call())).toBe(holds ? refusal : 'fenced');
  if (!holds || refusal !== 'ok') return;
  if (verb === 'ask')
    Object.assign(task, { status: 'input_required', questionExpiresAt: model.now + questionSeconds });
  if (verb === 'heartbeat') task.expiresAt = model.now + 60;
  if (verb === 'complete') task.status = 'completed';
  if (verb === 'retry') model.giveBack(task);
  if (verb === 'fail') Object.assign(task, { status: 'failed', attempts: task.attempts + 1 });
}

let writes = 0;
const passedSeconds = new WeakMap<Bench, number>();

function clockOf(bench: Bench): number {
  return Date.now() + (passedSeconds.get(bench) ?? 0) * 1_000;
}

describe.each([
  { name: 'memory', runs: 100, open: () => openDirectoryBench('memory', { workspaceStepRowsMax: 3 }) },
  { name: 'lmdb', runs: 10, open: () => openDirectoryBench('lmdb', { workspaceStepRowsMax: 3 }) },
  { name: 'PostgreSQL', runs: 8, open: () => openPostgresBench({ workspaceStepRowsMax: 3 }) },
])('random histories of tasks on $name', ({ runs, open }) => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await open();
  });
  afterAll(() => bench.close());

  it('end in the state of the model', { timeout: 300_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), (steps) => play(bench, steps)),
      { numRuns: runs, endOnFailure: true },
    );
    if (!('kernel' in bench)) return;
    const found: unknown[] = [];
    for await (const finding of examine((bench as DirectoryBench).kernel.root, workspaceChecks()))
      found.push(finding);
    expect(found).toEqual([]);
  });
});
