/**
 * The doctor finds and repairs every kind of damage to workspaces, and reports none in an undamaged store.
 */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { workspaceChecks } from '../../../../src/homes/directory/doctor/workspaces.js';
import { buckets } from '../../../../src/homes/directory/workspaces/keys.js';
import { examine } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { makePlace, makeTasks, userCaller } from '../../../../src/workspaces/conformance/bench.js';
import { type DirectoryBench, openDirectoryBench } from '../workspaces/fixture.js';

const ada = userCaller('ada');
let bench: DirectoryBench;

beforeEach(async () => {
  bench = await openDirectoryBench('memory');
  const { service } = bench;
  const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
  const [first] = await makeTasks(service, ada, sessionId, 4);
  await service.createTask(ada, sessionId, { command: 'last', depends_on: [first!.id] });
  await service.updateSession(ada, sessionId, { status: 'active' });
  await service.claimTask(ada, projectId);
  const gone = await service.createProject(ada, workspaceId, { name: 'gone' });
  await service.deleteProject(ada, gone.id);
});
afterEach(() => bench.close());

async function findings(repair = false): Promise<string[]> {
  const found: string[] = [];
  for await (const { kind, family } of examine(bench.kernel.root, workspaceChecks(), { repair }))
    found.push(`${kind} ${family}`);
  return found;
}

it('an undamaged store has no findings', async () => {
  expect(await findings()).toEqual([]);
});

it('every single index entry that is lost is found and written again', async () => {
  const before = await bench.dump();
  const entries = Array.from(bench.kernel.root.range(buckets.indexes, {}), ({ key }) => key);
  expect(entries.length).toBeGreaterThan(15);
  for (const key of entries) {
    await bench.kernel.root.transact((tx) => tx.delete(buckets.indexes, key));
    expect(await findings(), key.toString()).toContain(`missing ${buckets.indexes}`);
    await findings(true);
    expect(await findings()).toEqual([]);
  }
  expect(await bench.dump()).toBe(before);
});

it('an index entry without a record, or with another status, is deleted', async () => {
  const before = await bench.dump();
  const task = Array.from(bench.kernel.root.range(buckets.tasks, {}), ({ key }) =>
    key.toString().slice('task:'.length),
  )[0]!;
  await bench.kernel.root.transact((tx) => {
    tx.put(buckets.indexes, Buffer.from('idx:task:session:sess_x:task_x'), Buffer.from('task_x'));
    tx.put(buckets.indexes, Buffer.from(`idx:task:status:sess_x:failed:${task}`), Buffer.from(task));
    tx.put(buckets.leases, Buffer.from('lease:task_x'), Buffer.from('{}'));
  });
  expect((await findings()).toSorted()).toEqual([
    `dangling ${buckets.indexes}`,
    `dangling ${buckets.leases}`,
    `duplicate ${buckets.indexes}`,
  ]);
  await findings(true);
  expect(await bench.dump()).toBe(before);
});

it('wrong counters are counted again', async () => {
  const before = await bench.dump();
  await bench.kernel.root.transact((tx) => {
    for (const { key } of Array.from(tx.range(buckets.metadata, {})))
      if (key.toString().startsWith('meta:open_tasks')) tx.put(buckets.metadata, key, Buffer.from('99'));
    for (const { key, value } of Array.from(tx.range(buckets.workspaces, {})))
      tx.put(
        buckets.workspaces,
        key,
        Buffer.from(value.toString().replace(/"active_tasks":\d+/, '"active_tasks":7')),
      );
  });
  await findings(true);
  expect(await findings()).toEqual([]);
  expect(await bench.dump()).toBe(before);
});

it('a running task without a holder returns; a lease without a timer gets one', async () => {
  const timers = Array.from(bench.kernel.root.range(kernelFamilies.timers, {}), ({ key }) => key).filter(
    (key) => key.toString('latin1').includes('workspaces.lease'),
  );
  await bench.kernel.root.transact((tx) => tx.delete(kernelFamilies.timers, timers[0]!));
  expect(await findings(true)).toEqual([`missing ${kernelFamilies.timers}`]);
  expect(await findings()).toEqual([]);
  await bench.kernel.root.transact((tx) => {
    for (const { key } of Array.from(tx.range(buckets.leases, {}))) tx.delete(buckets.leases, key);
  });
  expect(await findings(true)).toEqual([`wrong ${buckets.tasks}`]);
  expect(await findings()).toEqual([]);
});
