/**
 * A commit over every set of domains, on each home, with the documents in the home and in a store beside it.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CommitInput } from '../../src/commit/schemas.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { sharedPostgres } from '../servers/shared.js';
import { emptyRedis, start as startRedis } from '../servers/redis.js';
import type { TestServer } from '../servers/child.js';
import { publicRoom } from '../messaging/public-room.js';

const ada = operatorCaller('ada', 'planner');
const domains = ['data', 'registry', 'workspaces', 'messaging'] as const;
type Domain = (typeof domains)[number];

const sets: Domain[][] = Array.from({ length: 15 }, (_, index) =>
  domains.filter((_domain, bit) => ((index + 1) >> bit) % 2 === 1),
);

let redis: TestServer;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const homes: [name: string, options: () => Promise<StoaOptions>][] = [
  ['a data directory', async () => ({ data: 'unused', engine: 'memory' })],
  [
    'PostgreSQL and Redis',
    async () => ({ postgres: (await sharedPostgres()).url, redis: redis.url, secretKeys: '00'.repeat(32) }),
  ],
];

describe.each(
  homes.flatMap(([name, options]) => [
    { title: name, options, store: null },
    { title: `${name}, documents in a store beside it`, options, store: 'memory://' },
  ]),
)('in $title', ({ options, store }) => {
  let stoa: Stoa;
  let sessionId: string;
  let agentId: string;
  beforeAll(async () => {
    await emptyRedis(redis.url);
    stoa = await openStoa({ ...(await options()), datastore: store, onError: () => undefined });
    const workspace = await stoa.workspaces.createWorkspace(ada, { name: 'w' });
    const project = await stoa.workspaces.createProject(ada, workspace.id, { name: 'p' });
    sessionId = (await stoa.workspaces.createSession(ada, project.id, { status: 'active' })).id;
    agentId = (await stoa.registry.createAgent(ada, { name: 'scout' })).agent_id;
  }, 120_000);
  afterAll(() => stoa.close());

  /** Which domains hold the word. */
  async function state(word: string): Promise<Record<Domain, boolean>> {
    const { items } = await stoa.messaging.port.messages(publicRoom(globalRoomId), {
      beforeMs: null,
      limit: 50,
    });
    const tasks = await stoa.workspaces.listSessionTasks(ada, sessionId, { limit: 100 });
    return {
      data: (await stoa.data.get(ada, 'default', word)) === word,
      registry: (await stoa.registry.getAgent(ada, agentId)).labels['word'] === word,
      workspaces: tasks.items.some(({ command }) => command === word),
      messaging: items.some(({ body }) => body === word),
    };
  }

  function commitOf(touched: readonly Domain[], word: string): CommitInput {
    const operations: Record<Domain, unknown> = {
      data: { op: 'data.set', key: word, value: word },
      registry: { op: 'agent.update', agent_id: agentId, labels: { word } },
      workspaces: { op: 'task.create', session_id: sessionId, command: word },
      messaging: { op: 'room.post', room: 'global', body: word },
    };
    // The table above has an operation of each domain.
    return { operations: touched.map((domain) => operations[domain]) } as CommitInput;
  }

  it.each(sets)('%s %s %s %s', async (...given) => {
    const touched = given.filter((domain) => domain !== undefined);
    const word = `w-${touched.join('-')}`;
    const commit = stoa.commit.commit(ada, commitOf(touched, word));
    if (store !== null && touched.includes('data')) {
      await expect(commit).rejects.toMatchObject({ code: 'unsupported', details: { backend: 'memory' } });
      expect(Object.values(await state(word))).toEqual([false, false, false, false]);
    } else {
      expect(await commit).toMatchObject({ ok: true });
      expect(await state(word)).toEqual(
        Object.fromEntries(domains.map((domain) => [domain, touched.includes(domain)])),
      );
    }
  });

  it('a repeat without a key is a new commit, and a claim check refuses it', async () => {
    const { project_id: projectId } = await stoa.workspaces.getSession(ada, sessionId);
    await stoa.workspaces.createTask(ada, sessionId, { command: 'done once', priority: 1 });
    const claim = await stoa.workspaces.claimTask(ada, projectId);
    const [task_id, fence] = [claim?.task.id ?? '', claim?.lease.fence ?? 0];
    const operations: CommitInput['operations'] = [
      { op: 'task.complete', task_id, fence, output: 'done' },
      { op: 'task.create', session_id: sessionId, command: 'what follows' },
    ];
    const following = async (): Promise<number> => {
      const { items } = await stoa.workspaces.listSessionTasks(ada, sessionId, { limit: 100 });
      return items.filter(({ command }) => command === 'what follows').length;
    };
    const idempotency = { scope: 'ada', key: `done ${task_id}`, fingerprint: 'f', seconds: 60 };
    const first = await stoa.commit.commit(ada, { operations }, idempotency);
    expect(first).toMatchObject({ ok: true, results: [{ status: 'completed' }, {}] });
    expect(await stoa.commit.commit(ada, { operations }, idempotency)).toMatchObject({ ok: true });
    expect(await following()).toBe(1);
    const version = (await stoa.workspaces.getTask(ada, task_id)).version;
    expect(await stoa.commit.commit(ada, { operations })).toMatchObject({
      ok: true,
      results: [{ status: 'completed', version }, {}],
    });
    expect(await following()).toBe(2);
    const checks = [{ check: 'claim' as const, task_id, fence }];
    expect(await stoa.commit.commit(ada, { checks, operations })).toMatchObject({
      ok: false,
      failed: { check: 0, code: 'fenced' },
    });
    expect(await following()).toBe(2);
  });

  it('a single operation does nothing if a check of its commit fails', async () => {
    const { project_id: projectId } = await stoa.workspaces.getSession(ada, sessionId);
    await stoa.workspaces.createTask(ada, sessionId, { command: 'stays ready', priority: 2 });
    const single: CommitInput['operations'] = [
      ...(store === null
        ? [
            { op: 'data.set' as const, key: 'never', value: 1 },
            { op: 'data.increment' as const, key: 'never' },
          ]
        : []),
      { op: 'task.create', session_id: sessionId, command: 'never' },
      { op: 'task.claim', project_id: projectId },
      { op: 'lock.acquire', name: 'never' },
    ];
    const checks = [{ check: 'lock' as const, name: 'nobody has it', fence: 1 }];
    for (const operation of single)
      expect(await stoa.commit.commit(ada, { checks, operations: [operation] }), operation.op).toMatchObject({
        ok: false,
        failed: { check: 0 },
      });
    expect(await stoa.data.get(ada, 'default', 'never')).toBeUndefined();
    const { items } = await stoa.workspaces.listSessionTasks(ada, sessionId, { limit: 100 });
    expect(items.some(({ command }) => command === 'never')).toBe(false);
    expect(items.find(({ command }) => command === 'stays ready')).toMatchObject({ status: 'pending' });
    expect((await stoa.locks.list(ada, {})).items).toEqual([]);
  });
});
