/** What workspaces and projects do on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { operatorCaller } from '../../core/caller.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, makePlace, makeTasks, userCaller } from './bench.js';

export function workspaceTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`workspaces and projects on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open();
      service = bench.service;
    });
    afterAll(() => bench.close());

    it('a new workspace has the fields of the seed', async () => {
      const made = await service.createWorkspace(ada, {
        name: 'My Project',
        project_path: '/home/user/projects/myproject',
        claude_key: 'sk-plain',
      });
      expect(made).toEqual({
        id: expect.stringMatching(/^ws_[0-9a-f-]{36}$/),
        name: 'My Project',
        project_path: '/home/user/projects/myproject',
        status: 'active',
        owner_id: 'ada',
        claude_key: '********',
        active_tasks: 0,
        created_at: expect.stringMatching(/Z$/),
        updated_at: made.created_at,
        deleted_at: null,
        version: 1,
      });
      expect(await service.getWorkspace(ada, made.id)).toEqual(made);
    });

    it('a new project has the fields of its record', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'for a project' });
      const project = await service.createProject(ada, workspace.id, {
        name: 'api',
        path: '/src/api',
        description: 'The API',
        git_url: 'https://example.org/api.git',
        git_branch: 'main',
        language: 'go',
        config: { environment: { NODE_ENV: 'test', API_KEY: 'sk-1' }, build_command: 'make' },
        git_info: { is_clean: true, last_commit: 'abc' },
      });
      expect(project).toMatchObject({
        workspace_id: workspace.id,
        name: 'api',
        status: 'active',
        version: 1,
        deleted_at: null,
        git_info: { is_clean: true, last_commit: 'abc' },
      });
      expect(project.config).toEqual({
        environment: { NODE_ENV: 'test', API_KEY: '********' },
        build_command: 'make',
      });
      expect(await service.getProject(ada, project.id)).toEqual(project);
    });

    for (const name of [
      '',
      'a/b',
      'a\\b',
      'a:b',
      'a;b',
      'a|b',
      'a?b',
      'a*b',
      'a<b',
      'a>b',
      'a&b',
      'a"b',
      "a'b",
      'a\nb',
      'a\u0000b',
      'a\ud800b',
      'x'.repeat(101),
    ])
      it(`the name ${JSON.stringify(name)} is refused`, async () => {
        await refused(service.createWorkspace(ada, { name }), 'invalid_request');
      });

    it('a name of 100 characters counts characters, not bytes', async () => {
      const name = '한'.repeat(90) + '😀'.repeat(10);
      expect((await service.createWorkspace(ada, { name })).name).toBe(name);
    });

    it('an unknown field is named', async () => {
      await refused(service.createWorkspace(ada, { name: 'x', colour: 'red' }), 'invalid_request', {
        message: expect.stringContaining('colour'),
      });
      await refused(service.createWorkspace(ada, { name: 'x', active_tasks: 7 }), 'invalid_request', {
        message: expect.stringContaining('active_tasks'),
      });
    });

    it('a path has at most 1024 bytes, and a long one is found again', async () => {
      const caller = userCaller('paths');
      const path = `/${'%:한'.repeat(200)}`;
      const workspace = await service.createWorkspace(caller, { name: 'long', project_path: path });
      await service.createWorkspace(caller, { name: 'other', project_path: `${path}x` });
      expect((await service.listWorkspaces(caller, { path })).items).toEqual([workspace]);
      await refused(
        service.createWorkspace(caller, { name: 'too long', project_path: 'x'.repeat(1025) }),
        'invalid_request',
      );
    });

    it('a name is unique among the live workspaces of one owner', async () => {
      const first = await service.createWorkspace(ada, { name: 'twice' });
      await refused(service.createWorkspace(ada, { name: 'twice' }), 'already_exists', {
        details: { id: first.id },
      });
      await service.createWorkspace(userCaller('bob'), { name: 'twice' });
      const second = await service.createWorkspace(ada, { name: 'thrice' });
      await refused(service.updateWorkspace(ada, second.id, { name: 'twice' }), 'already_exists');
      await service.deleteWorkspace(ada, first.id);
      expect((await service.updateWorkspace(ada, second.id, { name: 'twice' })).name).toBe('twice');
      await refused(service.restoreWorkspace(ada, first.id), 'already_exists');
      expect(await service.restoreWorkspace(ada, first.id, { name: 'back' })).toMatchObject({
        name: 'back',
        deleted_at: null,
      });
    });

    it('two creations of one name at the same time make one workspace', async () => {
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, () => service.createWorkspace(userCaller('racer'), { name: 'same' })),
      );
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect((await service.listWorkspaces(userCaller('racer'))).items).toHaveLength(1);
    });

    it('two Unicode spellings of a name are the same name', async () => {
      await service.createWorkspace(userCaller('spelling'), { name: 'caf\u00e9' });
      await refused(
        service.createWorkspace(userCaller('spelling'), { name: 'cafe\u0301' }),
        'already_exists',
      );
    });

    it('an old version is a conflict, not a not_found', async () => {
      const workspace = await service.createWorkspace(ada, { name: 'versions' });
      const changed = await service.updateWorkspace(
        ada,
        workspace.id,
        { status: 'inactive' },
        { ifVersion: 1 },
      );
      expect(changed.version).toBe(2);
      await refused(
        service.updateWorkspace(ada, workspace.id, { status: 'active' }, { ifVersion: 1 }),
        'version_conflict',
        { details: { version: 2 } },
      );
      await refused(service.deleteWorkspace(ada, workspace.id, { ifVersion: 1 }), 'version_conflict');
    });

    it('every change names the version of its record', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const stale = { ifVersion: 99 };
      const attempts = [
        () => service.updateProject(ada, projectId, { language: 'go' }, stale),
        () => service.deleteProject(ada, projectId, stale),
        () => service.updateSession(ada, sessionId, { process_id: 1 }, stale),
        () => service.deleteSession(ada, sessionId, stale),
        () => service.updateTask(ada, task!.id, { priority: 1 }, stale),
        () => service.deleteTask(ada, task!.id, stale),
      ];
      for (const attempt of attempts)
        await refused(attempt(), 'version_conflict', { details: { expected: 99 } });
      const deleted = await service.deleteProject(ada, projectId, { ifVersion: 1 });
      await refused(service.restoreProject(ada, projectId, {}, { ifVersion: 1 }), 'version_conflict');
      await refused(service.purgeProject(ada, projectId, { ifVersion: 1 }), 'version_conflict');
      expect((await service.restoreProject(ada, projectId, {}, { ifVersion: deleted.version })).version).toBe(
        deleted.version + 1,
      );
      await service.deleteWorkspace(ada, workspaceId, { ifVersion: 1 });
      await refused(service.restoreWorkspace(ada, workspaceId, {}, { ifVersion: 1 }), 'version_conflict');
      await refused(service.purgeWorkspace(ada, workspaceId, { ifVersion: 1 }), 'version_conflict');
    });

    it('records of another user are not found by any call', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const eve = userCaller('eve');
      const calls: (() => Promise<unknown>)[] = [
        () => service.getWorkspace(eve, workspaceId),
        () => service.updateWorkspace(eve, workspaceId, { name: 'mine' }),
        () => service.deleteWorkspace(eve, workspaceId),
        () => service.restoreWorkspace(eve, workspaceId),
        () => service.purgeWorkspace(eve, workspaceId),
        () => service.listProjects(eve, workspaceId),
        () => service.createProject(eve, workspaceId, { name: 'mine' }),
        () => service.getProject(eve, projectId),
        () => service.updateProject(eve, projectId, { name: 'mine' }),
        () => service.deleteProject(eve, projectId),
        () => service.restoreProject(eve, projectId),
        () => service.purgeProject(eve, projectId),
        () => service.listSessions(eve, projectId),
        () => service.createSession(eve, projectId),
        () => service.activeSession(eve, projectId),
        () => service.listReadyTasks(eve, projectId),
        () => service.claimTask(eve, projectId),
        () => service.getSession(eve, sessionId),
        () => service.updateSession(eve, sessionId, { status: 'active' }),
        () => service.deleteSession(eve, sessionId),
        () => service.listSessionTasks(eve, sessionId),
        () => service.createTask(eve, sessionId, { command: 'mine' }),
        () => service.getTask(eve, task!.id),
        () => service.updateTask(eve, task!.id, { priority: 1 }),
        () => service.deleteTask(eve, task!.id),
        () => service.heartbeatTask(eve, task!.id, { fence: 1 }),
        () => service.completeTask(eve, task!.id, { fence: 1 }),
        () => service.failTask(eve, task!.id, { fence: 1 }),
        () => service.cancelTask(eve, task!.id),
      ];
      for (const call of calls) await refused(call(), 'not_found');
      expect(await service.getTask(operatorCaller(), task!.id)).toEqual(task);
    });

    it('a read-only caller is refused every write', async () => {
      const reader = userCaller('ada', { scopes: { write: false, namespaces: null } });
      await refused(service.createWorkspace(reader, { name: 'no' }), 'forbidden');
      expect((await service.listWorkspaces(reader)).items.length).toBeGreaterThan(0);
    });

    it('an owner id with colons and percent signs lists its own rows only', async () => {
      for (const owner of ['u', 'u:1', 'u%3A1', 'u:1:2'])
        await service.createWorkspace(userCaller(owner), { name: 'one' });
      for (const owner of ['u', 'u:1', 'u%3A1', 'u:1:2']) {
        const { items } = await service.listWorkspaces(userCaller(owner));
        expect(items.map(({ owner_id }) => owner_id)).toEqual([owner]);
      }
    });

    it('lists have pages in the order of creation, 20 items by default and 100 at most', async () => {
      const caller = userCaller('pages');
      const made: string[] = [];
      for (let index = 0; index < 45; index += 1)
        made.push((await service.createWorkspace(caller, { name: `w${index}` })).id);
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await service.listWorkspaces(caller, { cursor });
        expect(page.items.length).toBeLessThanOrEqual(20);
        seen.push(...page.items.map(({ id }) => id));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(seen).toEqual(made);
      expect((await service.listWorkspaces(caller, { limit: 1000 })).items).toHaveLength(45);
    });

    it('a cursor of another list, or of none, is refused', async () => {
      const caller = userCaller('pages');
      const { next_cursor: cursor } = await service.listWorkspaces(caller, { limit: 1 });
      await refused(service.listWorkspaces(caller, { cursor, status: 'active' }), 'invalid_cursor');
      await refused(service.listWorkspaces(caller, { cursor: 'nonsense' }), 'invalid_cursor');
    });

    it('lists are filtered by status, name and path', async () => {
      const caller = userCaller('filters');
      const a = await service.createWorkspace(caller, { name: 'a', project_path: '/a' });
      const b = await service.createWorkspace(caller, { name: 'b', project_path: '/b', status: 'archived' });
      const ids = async (query: object): Promise<string[]> =>
        (await service.listWorkspaces(caller, query)).items.map(({ id }) => id);
      expect(await ids({ status: 'archived' })).toEqual([b.id]);
      expect(await ids({ name: 'a' })).toEqual([a.id]);
      expect(await ids({ path: '/b' })).toEqual([b.id]);
      expect(await ids({ path: '/b', status: 'active' })).toEqual([]);
      await service.updateWorkspace(caller, b.id, { status: 'active', project_path: '/a' });
      expect(await ids({ path: '/a', status: 'active' })).toEqual([a.id, b.id]);
    });

    it('the operator without a user lists the records of all users, page by page', async () => {
      const all = new Set<string>();
      let cursor: string | undefined;
      do {
        const page = await service.listWorkspaces(operatorCaller(), { cursor, limit: 7 });
        for (const { owner_id } of page.items) all.add(owner_id);
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect([...all]).toEqual(expect.arrayContaining(['ada', 'bob', 'pages', 'u', 'u:1', 'filters']));
    });

    it('a repeated creation under one Idempotency-Key makes one workspace', async () => {
      const idempotency = { scope: 'ada', key: 'k1', fingerprint: 'f1', seconds: 60 };
      const first = await service.createWorkspace(ada, { name: 'once only' }, { idempotency });
      expect(await service.createWorkspace(ada, { name: 'once only' }, { idempotency })).toEqual(first);
      await refused(
        service.createWorkspace(
          ada,
          { name: 'else' },
          { idempotency: { ...idempotency, fingerprint: 'f2' } },
        ),
        'idempotency_mismatch',
      );
    });

    it('every change is in the feed, with its owner', async () => {
      const caller = userCaller('feed');
      const { workspaceId, projectId, sessionId } = await makePlace(service, caller);
      const [task] = await makeTasks(service, caller, sessionId, 1);
      const claim = await service.claimTask(caller, projectId);
      await service.completeTask(caller, task!.id, { fence: claim!.lease.fence });
      await service.updateSession(caller, sessionId, { status: 'active' });
      await service.deleteProject(caller, projectId);
      await service.deleteWorkspace(caller, workspaceId);
      const changes = (await bench.changes()).filter(({ user }) => user === 'feed');
      expect(changes.map(({ kind }) => kind)).toEqual([
        'workspace.created',
        'project.created',
        'session.created',
        'task.created',
        'task.claimed',
        'task.completed',
        'session.status_changed',
        'project.deleted',
        'workspace.deleted',
      ]);
    });
  });
}
