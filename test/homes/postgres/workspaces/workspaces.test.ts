/** The conformance suite of workspaces on PostgreSQL, and tests with several servers on one database. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as vitest from 'vitest';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import {
  type TableMigration,
  workspacesMigrations,
} from '../../../../src/homes/postgres/workspaces/schema.js';
import type { WorkspacesService } from '../../../../src/workspaces/service.js';
import { makePlace, makeTasks, userCaller } from '../../../../src/workspaces/conformance/bench.js';
import { workspacesConformance } from '../../../../src/workspaces/conformance/index.js';
import { type PostgresBench, openPostgresBench } from './fixture.js';
import { eventually } from '../../../until.js';

workspacesConformance(vitest, { name: 'PostgreSQL', open: (limits) => openPostgresBench(limits) });

describe('workspaces of several servers on one PostgreSQL', () => {
  let benches: PostgresBench[];
  let first: WorkspacesService;
  const ada = userCaller('ada');

  beforeAll(async () => {
    const bench = await openPostgresBench();
    benches = [bench, await openPostgresBench({}, bench.url)];
    first = bench.service;
  });
  afterAll(() => Promise.all(benches.map((bench) => bench.close())));

  it('a claim that waits at one server is woken by a task that is created at another', async () => {
    const { projectId, sessionId } = await makePlace(first, ada);
    const waiting = benches[0]!.service.claimTask(ada, projectId, { wait: 30 });
    const task = await benches[1]!.service.createTask(ada, sessionId, { command: 'x' });
    expect((await waiting)?.task.id).toBe(task.id);
  });

  it('the tables have foreign keys that PostgreSQL enforces', async () => {
    await makePlace(first, userCaller('eve'));
    const sql = await openPostgres(benches[0]!.url, { connectionsMax: 1 });
    try {
      await expect(
        query(
          sql,
          `UPDATE workspaces.projects SET workspace_id = 'ws_nowhere'
            WHERE id = (SELECT min(id) FROM workspaces.projects)`,
        ),
      ).rejects.toThrow(/foreign key/);
      expect(await query(sql, 'SELECT key, value FROM workspaces.metadata ORDER BY key')).toEqual([
        { key: 'meta:last_migration', value: '001_initial' },
        { key: 'meta:schema_version', value: '1' },
      ]);
    } finally {
      await sql.end();
    }
  });
});

it('the tasks of a lost agent become ready again in the transaction that ends its presence', async () => {
  const ada = userCaller('ada');
  const bench = await openPostgresBench();
  try {
    const { projectId, sessionId } = await makePlace(bench.service, ada);
    const [task] = await makeTasks(bench.service, ada, sessionId, 1);
    const claim = await bench.service.claimTask({ ...ada, agent: 'scout' }, projectId);
    const lose = (then: () => void): Promise<void> =>
      bench.base.writer.transact(async (work) => {
        await bench.port.releaseClaims(work, 'ada', ['agent-id', 'scout']);
        then();
      });
    await expect(
      lose(() => {
        throw new Error('The agent is found again.');
      }),
    ).rejects.toThrow('found again');
    expect(await bench.service.getTask(ada, task!.id)).toMatchObject({ status: 'running', attempts: 0 });
    await lose(() => undefined);
    expect(await bench.service.getTask(ada, task!.id)).toMatchObject({ status: 'pending', attempts: 1 });
    await expect(
      bench.service.completeTask(ada, task!.id, { fence: claim!.lease.fence }),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect((await bench.changes()).filter(({ kind }) => kind === 'task.returned')).toHaveLength(1);
  } finally {
    await bench.close();
  }
});

it('tasks of a lost agent that are locked, or too many for one step, follow after the commit', async () => {
  const ada = userCaller('ada');
  const bench = await openPostgresBench({ workspaceStepRowsMax: 2 });
  const other = await openPostgres(bench.url, { connectionsMax: 1 });
  try {
    const { projectId, sessionId } = await makePlace(bench.service, ada);
    const tasks = await makeTasks(bench.service, ada, sessionId, 5);
    for (const _task of tasks) await bench.service.claimTask({ ...ada, agent: 'scout' }, projectId);
    const statuses = async (): Promise<string[]> =>
      (await Promise.all(tasks.map(({ id }) => bench.service.getTask(ada, id)))).map(({ status }) => status);
    await transaction(other, async (tx) => {
      await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [tasks[0]!.id]);
      // It does not wait for the locked task.
      await bench.base.writer.transact((work) =>
        bench.port.releaseClaims(work, 'ada', ['agent-id', 'scout']),
      );
      expect((await statuses()).filter((status) => status === 'pending').length).toBeGreaterThanOrEqual(2);
      expect((await statuses())[0]).toBe('running');
    });
    await eventually(async () => expect(new Set(await statuses())).toEqual(new Set(['pending'])));
    // Later claims are not those that were lost.
    await bench.service.claimTask({ ...ada, agent: 'scout' }, projectId);
    await bench.sweep();
    expect((await statuses()).filter((status) => status === 'running')).toHaveLength(1);
  } finally {
    await other.end();
    await bench.close();
  }
});

it('tables of a newer version are refused and not changed', async () => {
  const bench = await openPostgresBench();
  const sql = await openPostgres(bench.url, { connectionsMax: 1 });
  try {
    const { workspaceId } = await makePlace(bench.service, userCaller('ada'));
    await query(sql, "INSERT INTO stoa_migrations (domain, step) VALUES ('workspaces', 99)");
    await expect(openPostgresBench({}, bench.url)).rejects.toMatchObject({ code: 'newer_data' });
    expect(
      await query(sql, 'SELECT id FROM workspaces.workspaces WHERE id = $1', [workspaceId]),
    ).toHaveLength(1);
  } finally {
    await sql.end();
    await bench.close();
  }
});

it('tables of the first version are migrated once, and not at all if the migration fails', async () => {
  const ada = userCaller('ada');
  const bench = await openPostgresBench();
  const sql = await openPostgres(bench.url, { connectionsMax: 1 });
  const columns = async () =>
    (
      await query<{ name: string }>(
        sql,
        `SELECT column_name AS name FROM information_schema.columns
          WHERE table_schema = 'workspaces' AND table_name = 'tasks'`,
      )
    ).map(({ name }) => name);
  const version = async () =>
    (await query<{ value: string }>(sql, 'SELECT value FROM workspaces.metadata ORDER BY key')).map(
      ({ value }) => value,
    );
  const second = {
    name: '002_task_tags',
    up: `ALTER TABLE workspaces.tasks ADD COLUMN tags json NOT NULL DEFAULT '[]';
      UPDATE workspaces.tasks SET tags = json_build_array(command)`,
  };
  const benches: PostgresBench[] = [bench];
  try {
    const { projectId, sessionId } = await makePlace(bench.service, ada);
    const task = await bench.service.createTask(ada, sessionId, { command: 'build' });
    const failing = [...workspacesMigrations, { ...second, up: `${second.up}; SELECT 1 / 0` }];
    await expect(openPostgresBench({}, bench.url, failing)).rejects.toThrow(/division by zero/);
    expect(await columns()).not.toContain('tags');
    expect(await version()).toEqual(['001_initial', '1']);

    const migrations = [...workspacesMigrations, second];
    benches.push(...(await Promise.all([1, 2, 3].map(() => openPostgresBench({}, bench.url, migrations)))));
    expect(await version()).toEqual(['002_task_tags', '2']);
    expect(await query(sql, 'SELECT id, tags FROM workspaces.tasks')).toEqual([
      { id: task.id, tags: '["build"]' },
    ]);
    expect((await benches[1]!.service.claimTask(ada, projectId))?.task.id).toBe(task.id);
    await expect(openPostgresBench({}, bench.url)).rejects.toMatchObject({ code: 'newer_data' });
  } finally {
    await sql.end();
    for (const each of benches) await each.close();
  }
});

it('a migration of rows runs in steps, continues when interrupted, and refuses older programs', async () => {
  const ada = userCaller('ada');
  const bench = await openPostgresBench();
  const sql = await openPostgres(bench.url, { connectionsMax: 1 });
  const benches: PostgresBench[] = [];
  const rewritten = async () =>
    (await query<{ times: number }>(sql, 'SELECT times FROM workspaces.tasks ORDER BY id')).map(
      ({ times }) => times,
    );
  const version = async () =>
    (await query<{ value: string }>(sql, 'SELECT value FROM workspaces.metadata ORDER BY key')).map(
      ({ value }) => value,
    );
  const second: TableMigration = {
    name: '002_task_times',
    up: 'ALTER TABLE workspaces.tasks ADD COLUMN times integer NOT NULL DEFAULT 0',
    rows: {
      first: '',
      rewrite: `WITH next AS (SELECT id FROM workspaces.tasks WHERE id > $1 ORDER BY id LIMIT $2),
        changed AS (UPDATE workspaces.tasks t SET times = times + 1 FROM next WHERE t.id = next.id)
        SELECT max(id) AS position FROM next`,
    },
  };
  const third: TableMigration = {
    name: '003_more_times',
    up: 'UPDATE workspaces.tasks SET times = times * 10',
  };
  try {
    const { sessionId } = await makePlace(bench.service, ada);
    await makeTasks(bench.service, ada, sessionId, 20);
    await bench.close();
    const limits = { migrationStepRowsMax: 3 };
    // The eighth row cannot be changed yet, so the third step fails, as if the process had been killed.
    await query(sql, 'ALTER TABLE workspaces.tasks ADD COLUMN stuck integer NOT NULL DEFAULT 1');
    await query(
      sql,
      `UPDATE workspaces.tasks SET stuck = 0
        WHERE id = (SELECT id FROM workspaces.tasks ORDER BY id OFFSET 7 LIMIT 1)`,
    );
    const failing = {
      ...second,
      rows: { first: '', rewrite: second.rows!.rewrite.replace('times + 1', 'times + 1 / stuck') },
    };
    await expect(
      openPostgresBench(limits, bench.url, [...workspacesMigrations, failing, third]),
    ).rejects.toThrow(/division by zero/);
    expect(await rewritten()).toEqual([...Array<number>(6).fill(1), ...Array<number>(14).fill(0)]);
    expect(await version()).toEqual(['001_initial', '1']);
    await expect(openPostgresBench({}, bench.url)).rejects.toMatchObject({ code: 'newer_data' });

    const migrations = [...workspacesMigrations, second, third];
    benches.push(
      ...(await Promise.all([1, 2, 3].map(() => openPostgresBench(limits, bench.url, migrations)))),
    );
    expect(await rewritten()).toEqual(Array<number>(20).fill(10));
    expect(await version()).toEqual(['003_more_times', '3']);
    benches.push(await openPostgresBench(limits, bench.url, migrations));
    expect(await rewritten()).toEqual(Array<number>(20).fill(10));
  } finally {
    await sql.end();
    for (const each of benches) await each.close();
  }
});

it('a purge that a stopped server interrupted continues on the next server', async () => {
  const ada = userCaller('ada');
  const bench = await openPostgresBench({ workspaceStepRowsMax: 3 });
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 30);
  await bench.service.deleteProject(ada, projectId);
  await bench.service.purgeProject(ada, projectId);
  await bench.close();
  const sql = await openPostgres(bench.url, { connectionsMax: 1 });
  const left = async () =>
    (
      await query(
        sql,
        'SELECT id FROM workspaces.tasks WHERE project_id = $1 UNION SELECT name FROM workspaces.bulk_work',
        [projectId],
      )
    ).length;
  expect(await left()).toBeGreaterThan(1);
  const next = await openPostgresBench({ workspaceStepRowsMax: 3 }, bench.url);
  try {
    await expect.poll(left).toBe(0);
    expect(await query(sql, 'SELECT id FROM workspaces.projects WHERE id = $1', [projectId])).toEqual([]);
  } finally {
    await sql.end();
    await next.close();
  }
});

it('an older server can read but not write after a newer one changed the tables', async () => {
  const ada = userCaller('ada');
  const faults: unknown[] = [];
  const older = await openPostgresBench({}, undefined, undefined, (error) => faults.push(error));
  const { id } = await older.service.createWorkspace(ada, { name: 'before' });
  const newer = await openPostgresBench({}, older.url, [
    ...workspacesMigrations,
    { name: '002_notes', up: 'ALTER TABLE workspaces.workspaces ADD COLUMN notes text' },
  ]);
  try {
    await older.base.tables.look();
    expect(faults).toMatchObject([{ code: 'newer_data' }]);
    // The other domains too.
    await expect(older.base.writer.transact(async () => undefined)).rejects.toMatchObject({
      code: 'newer_data',
    });
    await expect(older.service.createWorkspace(ada, { name: 'too late' })).rejects.toMatchObject({
      code: 'newer_data',
    });
    await expect(older.service.deleteWorkspace(ada, id)).rejects.toMatchObject({ code: 'newer_data' });
    expect(await older.service.getWorkspace(ada, id)).toMatchObject({ name: 'before' });
    expect(await newer.service.createWorkspace(ada, { name: 'after' })).toMatchObject({ name: 'after' });
  } finally {
    await older.close();
    await newer.close();
  }
});

/** The number of secrets that the work encrypted with another key. */
async function sealedFrom(bench: PostgresBench, work: () => Promise<void>): Promise<{ resealed: number }> {
  const before = new Set(sealedTexts(await bench.dump()));
  await work();
  return { resealed: sealedTexts(await bench.dump()).filter((text) => !before.has(text)).length };
}

function sealedTexts(dump: string): string[] {
  return [...dump.matchAll(/enc:v1:[\w:-]+/g)].map(([text]) => text);
}

describe('an interrupted re-keying on PostgreSQL', () => {
  it('leaves every secret readable, and continues automatically', async () => {
    const bench = await openPostgresBench({ workspaceStepRowsMax: 10 });
    try {
      const { service, sealer } = bench;
      const ada = userCaller('ada');
      const workspaces = await Promise.all(
        Array.from({ length: 35 }, (_, index) =>
          service.createWorkspace(ada, { name: `w${index}`, claude_key: `sk-${index}` }),
        ),
      );
      const project = await service.createProject(ada, workspaces[0]!.id, {
        name: 'p',
        config: { token: 'sk-config' },
      });
      const allReadable = async (): Promise<void> => {
        for (const [index, { id }] of workspaces.entries())
          expect(await service.revealWorkspaceKey(ada, id)).toBe(`sk-${index}`);
        expect(await service.revealProjectConfig(ada, project.id)).toEqual({ token: 'sk-config' });
      };
      const keysInUse = async (): Promise<Set<string>> =>
        new Set([...(await bench.dump()).matchAll(/enc:v1:(\w+):/g)].map(([, key]) => key as string));
      const cut = new Error('the server was stopped');
      let steps = 0;
      await expect(
        bench.rekey(() => {
          steps += 1;
          if (steps === 2) throw cut;
        }),
      ).rejects.toBe(cut);
      expect((await keysInUse()).size).toBe(2);
      await allReadable();
      // Another server with a different key does not continue it; neither does one that starts later.
      const stranger = await openPostgresBench({ workspaceStepRowsMax: 10 }, bench.url);
      await stranger.sweep();
      expect((await keysInUse()).size).toBe(2);
      await stranger.close();
      const key = sealer.ring.currentId;
      const { resealed } = await sealedFrom(bench, () => bench.sweep());
      expect([...(await keysInUse())]).toEqual([key]);
      // Two steps were done before the interruption and are not repeated.
      expect(resealed).toBe(35 + 1 - 2 * 10);
      await allReadable();
      await bench.rekey();
      expect([...(await keysInUse())]).toEqual([sealer.ring.currentId]);
      await allReadable();
    } finally {
      await bench.close();
    }
  });
});
