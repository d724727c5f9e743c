/** Servers on PostgreSQL and Redis for the suites of commits. */
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import type { CommitAnswer } from '../../../../src/commit/schemas.js';
import { type Caller, operatorCaller } from '../../../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { publicRoom } from '../../../messaging/public-room.js';
import type { TestServer } from '../../../servers/child.js';
import { emptyRedis, start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedKeys } from '../../../servers/shared.js';
import { eventually } from '../../../until.js';

export const ada = operatorCaller('ada', 'planner');
export const bob = operatorCaller('bob');

/** One Redis for the suite, empty for each test. Servers that a test opens are closed after it. */
export function useServers(): {
  redisUrl(): string;
  open(options: Partial<StoaOptions>): Promise<Stoa>;
} {
  let redis: TestServer;
  const opened: Stoa[] = [];
  beforeAll(async () => {
    redis = await startRedis();
    await noteServer(redis.describe);
  });
  beforeEach(() => emptyRedis(redis.url));
  afterEach(async () => {
    for (const stoa of opened.splice(0)) await stoa.close();
  });
  afterAll(() => redis.stop());
  return {
    redisUrl: () => redis.url,
    open: async (options) => {
      const stoa = await openStoa({
        redis: redis.url,
        secretKeys: sharedKeys,
        onError: () => undefined,
        ...options,
      });
      opened.push(stoa);
      return stoa;
    },
  };
}

export async function saidIn(stoa: Stoa, room = globalRoomId): Promise<string[]> {
  return (await stoa.messaging.port.messages(publicRoom(room), { afterMs: 0, limit: 200 })).items.map(
    ({ body }) => body,
  );
}

/**
 * A commit waits for the delivery of its message up to a limit. A message with an id is in its room already, a
 * queued one arrives later. `sent` names the room and the text of each commit, whose last operation is the post.
 * Returns how many were queued.
 */
export async function expectDeliveredOnce(
  stoa: Stoa,
  outcomes: readonly CommitAnswer[],
  sent: (at: number) => { room: string; body: string },
): Promise<number> {
  const posts = outcomes.map((outcome, at) => {
    const answer = (outcome.ok ? outcome.results.at(-1) : undefined) as { id?: string; queued?: true };
    return { ...sent(at), id: answer.id, isQueued: answer.queued === true };
  });
  expect(posts.filter(({ id, isQueued }) => (id === undefined) !== isQueued)).toEqual([]);
  const rooms = [...new Set(posts.map(({ room }) => room))];
  for (const room of rooms) {
    const ids = await idsIn(stoa, room);
    const answered = posts.filter((post) => post.room === room && post.id !== undefined);
    expect(answered.filter(({ id }) => !ids.includes(id ?? ''))).toEqual([]);
  }
  for (const room of rooms) {
    const bodies = posts.filter((post) => post.room === room).map(({ body }) => body);
    await eventually(async () => expect((await saidIn(stoa, room)).toSorted()).toEqual(bodies.toSorted()));
  }
  return posts.filter(({ isQueued }) => isQueued).length;
}

async function idsIn(stoa: Stoa, room: string): Promise<string[]> {
  const { items } = await stoa.messaging.port.messages(publicRoom(room), { afterMs: 0, limit: 200 });
  return items.map(({ id }) => id);
}

export async function project(
  stoa: Stoa,
  caller: Caller = ada,
  tasks = 1,
): Promise<{ projectId: string; sessionId: string; taskIds: string[] }> {
  const workspace = await stoa.workspaces.createWorkspace(caller, { name: `w-${randomUUID()}` });
  const { id: projectId } = await stoa.workspaces.createProject(caller, workspace.id, { name: 'p' });
  const { id: sessionId } = await stoa.workspaces.createSession(caller, projectId, { status: 'active' });
  const taskIds: string[] = [];
  for (let index = 0; index < tasks; index += 1)
    taskIds.push((await stoa.workspaces.createTask(caller, sessionId, { command: `task ${index}` })).id);
  return { projectId, sessionId, taskIds };
}
