/** What `stoa doctor` finds and repairs in the tables of PostgreSQL. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { type PostgresSql } from '../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { examine } from '../../../src/homes/postgres/doctor/doctor.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { sharedHome } from '../../servers/shared.js';

const ada = operatorCaller('ada');
let stoa: Stoa;
let sql: PostgresSql;

beforeAll(async () => {
  const { options } = await sharedHome();
  stoa = await openStoa({ ...options, onError: () => undefined });
  sql = await openPostgres(new URL(options.postgres));
  const { workspaces, registry, data, identity, messaging } = stoa;
  const { id: workspaceId } = await workspaces.createWorkspace(ada, { name: 'w' });
  const { id: projectId } = await workspaces.createProject(ada, workspaceId, { name: 'p' });
  const { id: sessionId } = await workspaces.createSession(ada, projectId, { status: 'active' });
  for (const command of ['ends', 'runs', 'waits']) await workspaces.createTask(ada, sessionId, { command });
  const first = await workspaces.claimTask(ada, projectId);
  await workspaces.claimTask(ada, projectId);
  await workspaces.completeTask(ada, first?.task.id ?? '', { fence: first?.lease.fence ?? 0, output: '' });
  const ended = await workspaces.createSession(ada, projectId, {});
  await workspaces.createTask(ada, ended.id, { command: 'is removed' });
  await workspaces.deleteSession(ada, ended.id);
  for (const name of ['one', 'two', 'three']) {
    const { agent_id } = await registry.createAgent(ada, { name });
    await registry.updateAgentStatus(ada, agent_id, 'running');
    const session = await registry.openSession(ada, agent_id, {});
    if (name !== 'one') await registry.closeSession(ada, session.session_id);
    if (name !== 'three') continue;
    for (const state of ['stopping', 'stopped'] as const)
      await registry.updateAgentStatus(ada, agent_id, state);
    await registry.deleteAgent(ada, agent_id, undefined);
  }
  for (const key of ['a', 'b', 'c']) await data.set(ada, 'notes', key, key);
  await data.delete(ada, 'notes', 'b');
  await identity.createToken(operatorCaller(), 'ada', {}, null);
  await stoa.locks.acquire(ada, 'deploy', {});
  await messaging.rooms.create(ada, { name: 'team', is_private: false, key: '', owner: 'ada' }, null);
  await messaging.rooms.post(ada, { room: 'global' }, () => ({ body: 'hello', pid: '' }), null);
});
afterAll(async () => {
  await closePostgres(sql, 5);
  await stoa.close();
});

async function findings(repair = false): Promise<string[]> {
  const found: string[] = [];
  for await (const { family, problem } of examine(sql, repair)) found.push(`${family}: ${problem}`);
  return found;
}

it('finds nothing where all domains were used', async () => {
  expect(await findings()).toEqual([]);
});

it.each([
  ['a document count', 'UPDATE agent_data_store_counts SET documents = documents + 5', 'has 2'],
  ['a counter of a session', 'UPDATE workspaces.sessions SET open_tasks = 7 WHERE NOT removed', 'has 2'],
  ['a counter of a project', 'UPDATE workspaces.projects SET open_tasks = 7', 'has 2'],
  ['the agents of a user', 'UPDATE registry.users SET agents = agents + 1', 'The user counts'],
  ['the sessions of an agent', 'UPDATE registry.agents SET active_sessions = 9', 'The agent counts 9'],
  ['an owner that is missing', "DELETE FROM registry.owners WHERE id LIKE 'token:%'", 'names its owner'],
  ['an owner of nothing', "INSERT INTO registry.owners VALUES ('gone', 'ada')", 'does not exist'],
  [
    'an owner that is another user',
    "UPDATE registry.owners SET user_id = 'eve' WHERE id LIKE 'token:%'",
    'another owner',
  ],
  [
    'a lease of an agent that would never end',
    "UPDATE registry.agents SET lease_holder = 'one', lease_fence = 9, lease_timer_at = NULL WHERE name = 'one'",
    'would never end',
  ],
  [
    'the dependencies of a task',
    "UPDATE workspaces.tasks SET blockers = 3 WHERE command = 'waits'",
    'counts 3 unfinished dependencies and has 0',
  ],
  [
    'a fencing number that would be given out again',
    'UPDATE locks.fences SET fence = 0',
    'last one given out is 0',
  ],
  [
    'a room of a user with two names',
    "UPDATE messaging.room_facts SET name = 'other' WHERE owner IS NOT NULL",
    'another name',
  ],
  ['the size of the feed', 'UPDATE feed.extent SET size_bytes = 1', 'The feed counts '],
])('finds and repairs %s', async (_what, damage, problem) => {
  await sql.unsafe(damage);
  expect((await findings()).join('\n')).toContain(problem);
  expect((await findings(true)).join('\n')).toContain(problem);
  expect(await findings()).toEqual([]);
});

it('a repair that finds nothing waits for no writer, and keeps none waiting', async () => {
  await sql.begin(async (open) => {
    // A row of each table that a repair locks.
    await open`UPDATE agent_data_store SET value = value WHERE key = 'a'`;
    await open`UPDATE workspaces.tasks SET command = command`;
    await open`UPDATE registry.agents SET name = name`;
    await open`UPDATE rooms SET name = name`;
    expect(await findings(true)).toEqual([]);
  });
});

it('reports a commit that is missing in the feed, which has others', async () => {
  await sql.unsafe(
    'DELETE FROM feed.commits WHERE seq = (SELECT (first_seq + last_seq) / 2 FROM feed.extent)',
  );
  expect((await findings()).join('\n')).toContain('The feed has no commit with the number ');
});

it('reports a claimed task whose lease nobody holds', async () => {
  await sql.unsafe('UPDATE workspaces.leases SET holder = NULL WHERE holder IS NOT NULL');
  expect((await findings()).join('\n')).toContain('and its lease is held by nobody');
});
