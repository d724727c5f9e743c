/** Workspaces with the other domains: one commit, lost agents, new users. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { kernelFamilies } from '../../src/homes/directory/kernel/families.js';
import { type Stoa, openStoa, operatorCaller } from '../../src/index.js';
import { sharedPostgres } from '../servers/shared.js';
import { type Place, makePlace } from '../../src/workspaces/conformance/bench.js';

const ada = operatorCaller('ada');
let offsetMs = 0;
const clock = (): number => Date.now() + offsetMs;

describe('workspaces joined with the other domains', () => {
  let stoa: Stoa;
  let place: Place;

  beforeAll(async () => {
    stoa = await openStoa({ data: 'unused', engine: 'memory', clock, sweepIntervalMs: 3_600_000 });
    place = await makePlace(stoa.workspaces, ada);
  });
  afterAll(() => stoa.close());

  it('a task is completed and its result written in one commit', async () => {
    const task = await stoa.workspaces.createTask(ada, place.sessionId, { command: 'x' });
    const claim = await stoa.workspaces.claimTask(ada, place.projectId);
    const outcome = await stoa.commit.commit(ada, {
      checks: [
        { check: 'task', task_id: task.id, version: 2 },
        { check: 'claim', task_id: task.id, fence: claim!.lease.fence },
      ],
      operations: [
        { op: 'task.complete', task_id: task.id, fence: claim!.lease.fence, output: 'done' },
        { op: 'data.set', key: 'result', value: 'done' },
      ],
    });
    expect(outcome).toMatchObject({ ok: true, results: [{ status: 'completed' }, {}] });
    expect(await stoa.data.get(ada, 'default', 'result')).toBe('done');
  });

  it('a former holder cannot write anything', async () => {
    const task = await stoa.workspaces.createTask(ada, place.sessionId, { command: 'y' });
    const claim = await stoa.workspaces.claimTask(ada, place.projectId);
    offsetMs += 61_000;
    await stoa.kernel.sweep();
    const outcome = await stoa.commit.commit(ada, {
      operations: [
        { op: 'data.set', key: 'late', value: 'no' },
        { op: 'task.complete', task_id: task.id, fence: claim!.lease.fence },
      ],
    });
    expect(outcome).toMatchObject({ ok: false, failed: { operation: 1, code: 'fenced' } });
    expect(await stoa.data.get(ada, 'default', 'late')).toBeUndefined();
    const checked = await stoa.commit.commit(ada, {
      checks: [{ check: 'claim', task_id: task.id, fence: claim!.lease.fence }],
      operations: [{ op: 'data.set', key: 'late', value: 'no' }],
    });
    expect(checked).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
    await stoa.workspaces.cancelTask(ada, task.id);
  });

  it('a waiting claim is woken by a task that a commit makes', async () => {
    const waiting = stoa.workspaces.claimTask(ada, place.projectId, { wait: 30 });
    await stoa.commit.commit(ada, {
      operations: [{ op: 'task.create', session_id: place.sessionId, command: 'from a commit' }],
    });
    expect((await waiting)?.task.command).toBe('from a commit');
  });

  it('a claim in a failed commit returns its task to its place at once', async () => {
    const { projectId, sessionId } = await makePlace(stoa.workspaces, ada);
    const made: string[] = [];
    for (let number = 0; number < 6; number += 1)
      made.push((await stoa.workspaces.createTask(ada, sessionId, { command: `${number}` })).id);
    const failing = (): Promise<unknown> =>
      stoa.commit.commit(ada, {
        operations: [
          { op: 'task.claim', project_id: projectId },
          { op: 'task.complete', task_id: made[5] as string, fence: 99 },
        ],
      });
    const claim = async (): Promise<string | undefined> =>
      (await stoa.workspaces.claimTask(ada, projectId))?.task.id;
    expect(await failing()).toMatchObject({ ok: false, failed: { operation: 1, code: 'fenced' } });
    expect(await claim()).toBe(made[0]);
    // Side by side, in one group, too.
    const [, second, , third, , fourth] = await Promise.all([
      failing(),
      claim(),
      failing(),
      claim(),
      failing(),
      claim(),
    ]);
    expect([second, third, fourth]).toEqual(made.slice(1, 4));
    // While the disk is still busy, and the caller of the commit has no answer yet.
    const busy = stoa.data.set(ada, 'default', 'busy', true);
    const failed = failing();
    for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
    expect(await claim()).toBe(made[4]);
    expect(await failed).toMatchObject({ ok: false });
    await busy;
    expect([await claim(), await claim()]).toEqual([made[5], undefined]);
  });

  it('an owner becomes a user with its first workspace', async () => {
    await stoa.workspaces.createWorkspace(operatorCaller('newcomer'), { name: 'first' });
    expect(await stoa.registry.getUser(operatorCaller(), 'newcomer')).toMatchObject({ user: 'newcomer' });
  });
});

it('with several shards, a task created by a commit is found by its id, and a refused one leaves no id', async () => {
  const stoa = await openStoa({ data: 'unused', engine: 'memory', shards: 3 });
  try {
    for (const user of ['ada', 'bob', 'eve', 'joe']) {
      const caller = operatorCaller(user);
      const { sessionId } = await makePlace(stoa.workspaces, caller);
      const create = { op: 'task.create' as const, session_id: sessionId, command: user };
      const made = await stoa.commit.commit(caller, {
        operations: [create, { op: 'data.set', key: 'made', value: true }],
      });
      const [task] = (made as { results: { id: string }[] }).results;
      expect(await stoa.workspaces.getTask(operatorCaller(), task!.id)).toMatchObject({ command: user });
      const ids = (): number => [...stoa.kernel.root.range(kernelFamilies.directory, {})].length;
      const before = ids();
      const refused = {
        op: 'session.update' as const,
        session_id: sessionId,
        status: 'active' as const,
        if_version: 99,
      };
      expect(await stoa.commit.commit(caller, { operations: [create, refused] })).toMatchObject({
        ok: false,
        failed: { operation: 1, code: 'version_conflict' },
      });
      expect(ids()).toBe(before);
    }
  } finally {
    await stoa.close();
  }
});

describe.each(['embedded', 'PostgreSQL'])('agents that are lost, with workspaces kept %s', (backend) => {
  let stoa: Stoa;

  beforeAll(async () => {
    const workspaces = backend === 'embedded' ? 'embedded' : (await sharedPostgres()).url;
    stoa = await openStoa({
      data: 'unused',
      engine: 'memory',
      workspaces,
      clock,
      sweepIntervalMs: 3_600_000,
    });
  });
  afterAll(() => stoa.close());

  it('claimed tasks of an agent return when its presence is lost', async () => {
    const { projectId, sessionId } = await makePlace(stoa.workspaces, ada);
    const agent = await stoa.registry.createAgent(ada, { name: 'scout' });
    await stoa.registry.heartbeat(ada, agent.agent_id, {});
    const task = await stoa.workspaces.createTask(ada, sessionId, { command: 'long' });
    await stoa.workspaces.claimTask(ada, projectId, { agent_id: agent.agent_id, lease_seconds: 3600 });
    offsetMs += 91_000;
    await stoa.kernel.sweep();
    await expect
      .poll(() => stoa.workspaces.getTask(ada, task.id))
      .toMatchObject({ status: 'pending', attempts: 1, reason: expect.stringContaining('presence') });
  });

  it('claimed tasks of an agent return when it is deleted', async () => {
    const { projectId, sessionId } = await makePlace(stoa.workspaces, ada);
    const { agent_id } = await stoa.registry.createAgent(ada, { name: 'scout' });
    await stoa.registry.heartbeat(ada, agent_id, {});
    const task = await stoa.workspaces.createTask(ada, sessionId, { command: 'long' });
    await stoa.workspaces.claimTask(ada, projectId, { agent_id, lease_seconds: 3600 });
    await stoa.registry.updateAgentStatus(ada, agent_id, 'error');
    await stoa.registry.deleteAgent(ada, agent_id);
    await expect
      .poll(() => stoa.workspaces.getTask(ada, task.id))
      .toMatchObject({ status: 'pending', attempts: 1 });
  });

  it('every change is in the feed of the directory', async () => {
    // Of PostgreSQL the changes follow right after their commit.
    await expect
      .poll(
        async () =>
          (await stoa.changes.read(operatorCaller(), { topics: ['workspaces'] })).items.map(
            ({ kind }) => kind,
          ),
        { timeout: 10_000 },
      )
      .toEqual(
        expect.arrayContaining([
          'workspace.created',
          'project.created',
          'session.created',
          'task.created',
          'task.claimed',
          'task.returned',
        ]),
      );
  });
});
