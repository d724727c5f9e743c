/** Two servers that work on the same rows of workspaces. Each test fixes the order of the two. */
import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
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

it('a claim that is renewed at one server while another takes it back stays with its holder', async () => {
  const { projectId, sessionId } = await makePlace(here.service, ada);
  const [task] = await makeTasks(here.service, ada, sessionId, 1);
  const claim = await here.service.claimTask(scout, projectId, { lease_seconds: 3_600 });
  here.pass(1_800);
  const [renewed, ended] = [new EventEmitter(), new EventEmitter()];
  const [isRenewed, isEnded] = [once(renewed, 'now'), once(ended, 'now')];
  const renewing = here.base.writer.transact(async (work) => {
    for (const step of postgresSteps([here.port.renewClaims('ada', 'scout', '')])) await step.run(work);
    renewed.emit('now');
    await isEnded;
  });
  await isRenewed;
  // By this clock the old lease is over, and the new one is not.
  there.pass(3_601);
  const sweeping = there.sweep();
  await eventually(async () =>
    expect(
      await query(
        here.base.sql,
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      ),
    ).toHaveLength(1),
  );
  ended.emit('now');
  await Promise.all([renewing, sweeping]);
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
