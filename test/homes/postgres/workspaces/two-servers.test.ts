/** Two servers that work on the same rows of workspaces. Each test fixes the order of the two. */
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Step } from '../../../../src/core/write.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import { postgresSteps } from '../../../../src/homes/postgres/write/step.js';
import { makePlace, makeTasks, userCaller } from '../../../../src/workspaces/conformance/bench.js';
import { eventually } from '../../../until.js';
import { type PostgresBench, openPostgresBench } from './fixture.js';

const ada = userCaller('ada');
const scout = { ...ada, agent: 'scout' };
let here: PostgresBench;
let there: PostgresBench;

beforeEach(async () => {
  here = await openPostgresBench({ workspaceStepRowsMax: 2 });
  there = await openPostgresBench({ workspaceStepRowsMax: 2 }, here.url);
});
afterEach(async () => {
  await there.close();
  await here.close();
});

/** Runs a step in a transaction that stays open until `end`. */
async function halfway(bench: PostgresBench, step: Step<unknown>): Promise<{ end(): Promise<void> }> {
  const [ran, ending] = [new EventEmitter(), new EventEmitter()];
  const [hasRun, isEnding] = [once(ran, 'now'), once(ending, 'now')];
  const writing = bench.base.writer.transact(async (work) => {
    for (const each of postgresSteps([step])) await each.run(work);
    ran.emit('now');
    await isEnding;
  });
  await Promise.race([hasRun, writing]);
  return {
    end: async () => {
      ending.emit('now');
      await writing;
    },
  };
}

async function oneWaits(): Promise<void> {
  const waits =
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  await eventually(async () => expect(await query(here.base.sql, waits)).toHaveLength(1));
}

it('a claim that is renewed at one server while another takes it back stays with its holder', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  const [task] = await makeTasks(here.service, ada, sessionId, 1);
  const claim = await here.service.claimTask(scout, projectId, { lease_seconds: 3_600 });
  here.pass(1_800);
  const renewing = await halfway(here, here.port.renewClaims('ada', 'scout', ''));
  // By this clock the old lease is over, and the new one is not.
  there.pass(3_601);
  const sweeping = there.sweep();
  await oneWaits();
  await renewing.end();
  await sweeping;
  expect(await there.service.getTask(ada, task!.id)).toMatchObject({ status: 'running', attempts: 0 });
  const fence = claim!.lease.fence;
  expect(await there.service.completeTask(scout, task!.id, { fence })).toMatchObject({ status: 'completed' });
});

it('dependants of a retried task are left to it, without a wait for the write that is ending it', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  const [task] = await makeTasks(here.service, ada, sessionId, 1);
  const { id } = task!;
  const dependants: string[] = [];
  for (let made = 0; made < 5; made += 1)
    dependants.push(
      (await here.service.createTask(ada, sessionId, { command: 'next', depends_on: [id] })).id,
    );
  // The same row as after a failure with more dependants than one step settles, and a retry before the next step.
  await query(
    here.base.sql,
    "INSERT INTO workspaces.bulk_work (owner_id, kind, name, value) VALUES ('ada', 'dependants', $1, 'never')",
    [id],
  );
  await transaction(here.base.sql, async (tx) => {
    await query(tx, 'SELECT FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [id]);
    await there.sweep();
    expect(await query(tx, 'SELECT FROM workspaces.bulk_work')).toEqual([]);
  });
  const statuses = async (): Promise<string[]> =>
    Promise.all(dependants.map(async (each) => (await there.service.getTask(ada, each)).status));
  expect(new Set(await statuses())).toEqual(new Set(['pending']));
  const claim = await here.service.claimTask(scout, projectId);
  expect(claim?.task.id).toBe(id);
  await here.service.failTask(scout, id, { fence: claim!.lease.fence, error: 'again', retry: false });
  await eventually(async () => expect(new Set(await statuses())).toEqual(new Set(['cancelled'])));
});

it('a task that begins to depend on another one while that is completed becomes ready', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  await makeTasks(here.service, ada, sessionId, 1);
  const claim = await here.service.claimTask(scout, projectId);
  const { id } = claim!.task;
  const input = { command: 'next', depends_on: [id] };
  const creating = await halfway(here, here.service.steps.createTask(ada, sessionId, input));
  const completing = there.service.completeTask(scout, id, { fence: claim!.lease.fence });
  await oneWaits();
  await creating.end();
  expect(await completing).toMatchObject({ status: 'completed' });
  expect(await there.service.claimTask(scout, projectId)).toMatchObject({ task: { command: 'next' } });
});

it('a question that is answered at one server while another sweeps does not expire', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  await makeTasks(here.service, ada, sessionId, 1);
  const claim = await here.service.claimTask(scout, projectId, { lease_seconds: 3_600 });
  const { id } = claim!.task;
  await here.service.askQuestion(scout, id, {
    fence: claim!.lease.fence,
    question: 'go on?',
    expires_seconds: 60,
  });
  const answering = await halfway(here, here.service.steps.answerQuestion(ada, id, { answer: 'yes' }));
  there.pass(61);
  await there.sweep();
  await answering.end();
  expect(await there.service.getTask(ada, id)).toMatchObject({ status: 'running', answer: 'yes' });
});

it('a task that is cancelled at one server while its start time comes at another stays cancelled', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  const runAt = new Date(Date.now() + 60_000).toISOString();
  const { id } = await here.service.createTask(ada, sessionId, { command: 'later', run_at: runAt });
  const cancelling = await halfway(here, here.service.steps.cancelTask(ada, id, {}));
  there.pass(61);
  await there.sweep();
  await cancelling.end();
  expect(await there.service.getTask(ada, id)).toMatchObject({ status: 'cancelled' });
  expect(await there.service.claimTask(scout, projectId)).toBeNull();
});

it('work in steps that one server does is left to it', async () => {
  const { sessionId } = await makePlace(here.service, ada);
  const [task] = await makeTasks(here.service, ada, sessionId, 1);
  await query(
    here.base.sql,
    "INSERT INTO workspaces.bulk_work (owner_id, kind, name, value) VALUES ('ada', 'dependants', $1, 'never')",
    [task!.id],
  );
  const left = (): Promise<readonly object[]> => query(here.base.sql, 'SELECT FROM workspaces.bulk_work');
  await transaction(here.base.sql, async (tx) => {
    await query(tx, 'SELECT FROM workspaces.bulk_work FOR UPDATE');
    await there.sweep();
    expect(await left()).toHaveLength(1);
  });
  await there.sweep();
  expect(await left()).toEqual([]);
});
