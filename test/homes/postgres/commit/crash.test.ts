import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { type RunningServer, useProgram } from '../../../cli/program.js';
import type { TestServer } from '../../../servers/child.js';
import { start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedPostgres } from '../../../servers/shared.js';
import { Acknowledged, type Writing, commitUntilGone, resultOf } from '../../../commit/writers.js';
import { publicRoom } from '../../../messaging/public-room.js';

const program = useProgram();
const rounds = 2;
const writersPerServer = 6;
const enough = 40;
const tasksMax = 500;
const ada = operatorCaller('ada');
const roomy = '1000000000';

let redis: TestServer;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

async function bodiesIn(stoa: Stoa): Promise<number[]> {
  const bodies: number[] = [];
  for (let afterMs = 0; ;) {
    const { items } = await stoa.messaging.port.messages(publicRoom(globalRoomId), { afterMs, limit: 200 });
    bodies.push(...items.map(({ body }) => Number(body.replace('result ', ''))));
    if (items.length === 0) return bodies;
    afterMs = Math.max(...items.map(({ tsMs }) => tsMs));
  }
}

/** A project with tasks for all workers. */
async function makeProject(
  stoa: Stoa,
): Promise<{ workspaceId: string; projectId: string; sessionId: string }> {
  const { id: workspaceId } = await stoa.workspaces.createWorkspace(ada, { name: 'w' });
  const { id: projectId } = await stoa.workspaces.createProject(ada, workspaceId, { name: 'p' });
  const { id: sessionId } = await stoa.workspaces.createSession(ada, projectId, { status: 'active' });
  for (let made = 0; made < tasksMax; made += 500) {
    await stoa.commit.commit(ada, {
      operations: Array.from({ length: 500 }, (_, index) => ({
        op: 'task.create' as const,
        session_id: sessionId,
        command: `task ${made + index}`,
      })),
    });
  }
  return { workspaceId, projectId, sessionId };
}

/** Runs the servers until enough commits were acknowledged, then kills them while they work. */
async function workAndKill(servers: readonly RunningServer[], story: Writing): Promise<void> {
  const acknowledged = story.acknowledged.more(enough);
  const writing = servers.flatMap((server) =>
    Array.from({ length: writersPerServer }, () => commitUntilGone(server, story)),
  );
  await acknowledged;
  await Promise.all(servers.map((server) => server.end('SIGKILL')));
  await Promise.all(writing);
}

/** Documents, count, claims and messages show the same commits, including every acknowledged one. */
async function expectWhole(
  stoa: Stoa,
  { workspaceId, sessionId }: { workspaceId: string; sessionId: string },
  acknowledged: ReadonlySet<number>,
): Promise<void> {
  await vi.waitUntil(async () => (await stoa.commit.outbox()).waiting === 0, { timeout: 120_000 });
  const documents: number[] = [];
  for await (const { value } of stoa.data.getAll(ada, 'results')) documents.push(Number(value));
  documents.sort((a, b) => a - b);
  expect([...acknowledged].filter((number) => !documents.includes(number))).toEqual([]);
  expect((await bodiesIn(stoa)).toSorted((a, b) => a - b)).toEqual(documents);
  expect(await stoa.data.get(ada, 'default', 'count')).toBe(documents.length);
  expect((await stoa.workspaces.getWorkspace(ada, workspaceId)).active_tasks).toBe(tasksMax);
  const holders: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await stoa.workspaces.listSessionTasks(ada, sessionId, {
      status: 'running',
      limit: 100,
      ...(cursor !== undefined && { cursor }),
    });
    holders.push(...page.items.map(({ claimed_by }) => claimed_by ?? ''));
    if (page.next_cursor === null) break;
    cursor = page.next_cursor;
  }
  expect(holders.toSorted()).toEqual(documents.map((number) => `worker ${number}`).toSorted());
  expect(await stoa.commit.outbox()).toMatchObject({ waiting: 0, undeliverable: 0 });
}

/** Every commit also claims a task. */
function newStory(projectId: string): Writing {
  let last = 0;
  const claimOf = (number: number): object => ({
    op: 'task.claim',
    project_id: projectId,
    agent_id: `worker ${number}`,
    lease_seconds: 3_600,
  });
  return {
    next: () => (last += 1),
    acknowledged: new Acknowledged(),
    operationsOf: (number) => [claimOf(number), ...resultOf(number)],
  };
}

it('killed servers leave every acknowledged commit complete and deliver every message once', async () => {
  const { url } = await sharedPostgres();
  const secretKeys = 'cd'.repeat(32);
  const operatorToken = 'operator-of-this-test-and-of-no-other';
  const homeOptions = ['--postgres', url, '--redis', redis.url];
  const environment = {
    STOA_SECRET_KEYS: secretKeys,
    STOA_OPERATOR_TOKEN: operatorToken,
    STOA_LIMIT_MESSAGE_BYTES_PER_MINUTE_MAX: roomy,
    // Every commit claims its task as an agent of its own.
    STOA_LIMIT_AGENTS_PER_USER_MAX: String(tasksMax),
  };
  /** A third server that commits nothing and delivers the messages of the others. */
  const stoa = await openStoa({
    postgres: url,
    redis: redis.url,
    secretKeys,
    operatorToken,
    onError: () => undefined,
  });
  const made = await makeProject(stoa);
  const story = newStory(made.projectId);
  for (let round = 0; round < rounds; round += 1) {
    const servers = await Promise.all(
      ['one', 'two'].map((name) => program.up(program.path(`${name}-${round}`), homeOptions, environment)),
    );
    await workAndKill(servers, story);
    await expectWhole(stoa, made, story.acknowledged.numbers);
  }
  await stoa.close();
}, 300_000);
