import { limitsWith } from '../../../src/core/settings/limits.js';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { directoryFamilies } from '../../../src/homes/directory/families.js';
import { findFamilies, messagesPartition } from '../../../src/homes/directory/find/rows.js';
import { directoryPlacements } from '../../../src/homes/directory/placements.js';
import { reshardDirectory } from '../../../src/homes/directory/reshard.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { kernelOf } from '../../kernel-of.js';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-reshard-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

it('every family of the directory home has its place', () => {
  expect(directoryFamilies.filter((family) => directoryPlacements[family] === undefined)).toEqual([]);
});

const users = Array.from({ length: 12 }, (_, index) => `user-${index}`);

/** Everything that users can see through the public interfaces. */
async function visible(stoa: Stoa): Promise<unknown> {
  const seen: unknown[] = [];
  for (const user of users) {
    const caller = operatorCaller(user);
    const { items } = await stoa.registry.listAgents(caller, {});
    for (const { agent_id: id } of items) {
      seen.push(await stoa.registry.getAgent(caller, id), await stoa.registry.listSessions(caller, id, {}));
    }
    for await (const document of stoa.data.getAll(caller, 'notes')) seen.push(document);
    seen.push(await stoa.data.listNamespaces(caller, {}));
    for (const workspace of (await stoa.workspaces.listWorkspaces(caller)).items) {
      seen.push(workspace);
      for (const project of (await stoa.workspaces.listProjects(caller, workspace.id)).items) {
        seen.push(
          project,
          await stoa.workspaces.activeSession(caller, project.id),
          await stoa.workspaces.listReadyTasks(caller, project.id),
        );
        for (const session of (await stoa.workspaces.listSessions(caller, project.id)).items) {
          const { items: tasks } = await stoa.workspaces.listSessionTasks(caller, session.id);
          // The operator who names no user finds them by their ids alone.
          for (const { id } of tasks) seen.push(await stoa.workspaces.getTask(operatorCaller(), id));
        }
      }
    }
  }
  return seen;
}

it('agents, sessions, documents and workspaces are the same after a move to four shards and back', async () => {
  const first = await openStoa({ data: join(directory, 'one') });
  for (const user of users) {
    const caller = operatorCaller(user);
    const agent = await first.registry.createAgent(caller, {
      name: `agent of ${user}`,
      labels: { team: 'red' },
    });
    await first.registry.updateAgentStatus(caller, agent.agent_id, 'running');
    await first.registry.openSession(caller, agent.agent_id, {}, null);
    await first.data.set(caller, 'notes', 'key', { of: user });
    await first.data.set(caller, 'notes', 'large', 'x'.repeat(20_000));
    const workspace = await first.workspaces.createWorkspace(caller, { name: 'home', project_path: '/home' });
    const project = await first.workspaces.createProject(caller, workspace.id, { name: 'site' });
    const session = await first.workspaces.createSession(caller, project.id, { status: 'active' });
    const task = await first.workspaces.createTask(caller, session.id, { command: 'one' });
    await first.workspaces.createTask(caller, session.id, { command: 'two', depends_on: [task.id] });
    await first.workspaces.createTask(caller, session.id, { command: 'three' });
    await first.workspaces.claimTask(caller, project.id);
  }
  const before = await visible(first);
  await first.close();
  await reshardDirectory({
    from: join(directory, 'one'),
    to: join(directory, 'four'),
    shards: 4,
    limits: limitsWith(),
  });
  const second = await openStoa({ data: join(directory, 'four'), shards: 4 });
  expect(await visible(second)).toEqual(before);
  expect(second.operatorToken).toBe(first.operatorToken);
  for (const name of ['operator.token', 'secret.keys']) {
    expect(await readFile(join(directory, 'four', name))).toEqual(
      await readFile(join(directory, 'one', name)),
    );
    expect((await stat(join(directory, 'four', name))).mode & 0o777).toBe(0o600);
  }
  await second.close();
  await reshardDirectory({
    from: join(directory, 'four'),
    to: join(directory, 'again'),
    shards: 1,
    limits: limitsWith(),
  });
  const third = await openStoa({ data: join(directory, 'again') });
  expect(await visible(third)).toEqual(before);
  await third.close();
});

it('a reindex that was interrupted begins again in the shards of the new directory', async () => {
  const first = await openStoa({ data: join(directory, 'one') });
  for (const user of users) await first.data.set(operatorCaller(user), 'notes', 'key', `walrus of ${user}`);
  const store = kernelOf(first).root;
  const { reindex, ...index } = findFamilies;
  await store.transact((tx) => {
    // The index is lost, and the job has done everything in the only shard.
    for (const family of Object.values(index))
      for (const key of Array.from(store.range(family, {}), (row) => row.key)) tx.delete(family, key);
    const key = Buffer.concat([messagesPartition, Buffer.from('{"user":null,"namespace":null}')]);
    const progress = { total: 12, done: 12, shards: 1, shard: 0, kind: 'messages', after: null };
    tx.put(reindex, key, Buffer.from(JSON.stringify(progress)));
  });
  await first.close();
  const to = join(directory, 'four');
  await reshardDirectory({ from: join(directory, 'one'), to, shards: 4, limits: limitsWith({}) });
  const second = await openStoa({ data: to });
  expect(await second.find.reindex(operatorCaller(), undefined, () => undefined)).toMatchObject({
    filed: 12,
  });
  for (const user of users)
    expect((await second.find.find(operatorCaller(user), { q: 'walrus' })).items).toHaveLength(1);
  await second.close();
});
