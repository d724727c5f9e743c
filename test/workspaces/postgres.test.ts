/** The conformance suite of workspaces on PostgreSQL, and what only several servers on one database show. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPostgres, query } from '../../src/backends/postgres/connection.js';
import type { WorkspacesService } from '../../src/workspaces/service.js';
import { describeHolders } from './conformance-holders.js';
import { describeSecrets } from './conformance-secrets.js';
import { describeSessions } from './conformance-sessions.js';
import { describeTasks } from './conformance-tasks.js';
import { makePlace, makeTasks, userCaller } from './fixture.js';
import { type PostgresBench, openPostgresBench } from './postgres-fixture.js';

describeHolders('PostgreSQL', openPostgresBench);
describeSessions('PostgreSQL', openPostgresBench);
describeTasks('PostgreSQL', openPostgresBench);
describeSecrets('PostgreSQL', openPostgresBench);

describe('workspaces of several servers on one PostgreSQL', () => {
  let benches: PostgresBench[];
  let first: WorkspacesService;
  const ada = userCaller('ada');

  beforeAll(async () => {
    const bench = await openPostgresBench();
    benches = [bench, ...(await Promise.all(Array.from({ length: 7 }, () => openPostgresBench({}, bench.url))))];
    first = bench.service;
  });
  afterAll(() => Promise.all(benches.map((bench) => bench.close())));

  it('no task is claimed twice by the claimers of eight servers, and none is lost', async () => {
    const { projectId, sessionId, workspaceId } = await makePlace(first, ada);
    const made = await makeTasks(first, ada, sessionId, 400);
    const claimed: string[] = [];
    const work = async (service: WorkspacesService, name: string): Promise<void> => {
      for (let claim = await service.claimTask(ada, projectId, { agent_id: name }); claim !== null; claim = await service.claimTask(ada, projectId, { agent_id: name })) {
        claimed.push(claim.task.id);
        await service.completeTask(ada, claim.task.id, { fence: claim.lease.fence });
      }
    };
    await Promise.all(benches.flatMap(({ service }, server) => [0, 1, 2].map((worker) => work(service, `${server}-${worker}`))));
    expect(claimed.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    expect((await first.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
  });

  it('a claim that waits at one server is woken by a task that is made at another', async () => {
    const { projectId, sessionId } = await makePlace(first, ada);
    const waiting = benches[5]!.service.claimTask(ada, projectId, { wait: 30 });
    const task = await benches[2]!.service.createTask(ada, sessionId, { command: 'x' });
    expect((await waiting)?.task.id).toBe(task.id);
  });

  it('the tables are real: a foreign key holds what the records say', async () => {
    const sql = await openPostgres(benches[0]!.url, { connectionsMax: 1 });
    try {
      await expect(query(sql, "UPDATE workspaces.projects SET workspace_id = 'ws_nowhere' WHERE id = (SELECT min(id) FROM workspaces.projects)")).rejects.toThrow(/foreign key/);
      expect(await query(sql, 'SELECT key, value FROM workspaces.metadata ORDER BY key')).toEqual([
        { key: 'meta:last_migration', value: '001_initial' },
        { key: 'meta:schema_version', value: '1' },
      ]);
    } finally {
      await sql.end();
    }
  });
});
