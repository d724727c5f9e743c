import { randomUUID } from 'node:crypto';
import { eventually } from '../../../until.js';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import type { TestServer } from '../../../servers/child.js';
import { emptyRedis, start as startRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedPostgres, sharedKeys } from '../../../servers/shared.js';
import {
  ada,
  comparable,
  expectHolderKeepsName,
  expectSameWords,
  configSecret,
  fill,
  linesOf,
  secret,
} from '../../../transfer/kit.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from '../../../messaging/public-room.js';

let directory: string;
let redis: TestServer;
let source: Stoa;
let whole: string;
let plain: string;
const opened: Stoa[] = [];

async function save(lines: readonly string[], name: string): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, lines.join(''));
  return path;
}

/** Time stands still, so that no claim ends between two looks. */
const nowMs = Date.now();
const clock = (): number => nowMs;

/** A Stoa on PostgreSQL and Redis. */
async function openPostgres(): Promise<Stoa> {
  const { url } = await sharedPostgres();
  await emptyRedis(redis.url);
  const stoa = await openStoa({
    postgres: url,
    secretKeys: sharedKeys,
    redis: redis.url,
    onError: () => undefined,
    clock,
  });
  opened.push(stoa);
  return stoa;
}

const run = (stoa: Stoa, path: string, options: Parameters<Stoa['transfer']['import']>[2] = {}) =>
  stoa.transfer.import(operatorCaller(), path, options);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-transfer-postgres-'));
  redis = await startRedis();
  await noteServer(redis.describe);
  source = await openStoa({ data: '', engine: 'memory', clock });
  await fill(source);
  // A message in the name that the server keeps, so that there is an identity of that kind.
  await source.messaging.rooms.post(
    ada,
    { room: 'global' },
    () => ({ body: 'signed by the server', pid: '' }),
    null,
  );
  whole = await save(await linesOf(source, { withSecrets: true }), 'whole.ndjson');
  plain = await save(await linesOf(source), 'plain.ndjson');
});
afterAll(async () => {
  await source.close();
  await redis.stop();
  await rm(directory, { recursive: true, force: true });
});
afterEach(async () => {
  for (const stoa of opened.splice(0)) await stoa.close();
});

describe('an import into PostgreSQL and Redis', () => {
  let target: Stoa;

  beforeEach(async () => {
    target = await openPostgres();
  });

  it('stores everything, and exports the same lines again', async () => {
    const report = await run(target, whole);
    expect(report).toMatchObject({ replaced: 0, skipped: 0, conflicts_total: 0, bad_total: 0 });
    expect(comparable(await linesOf(target, { withSecrets: true }))).toEqual(
      comparable(await linesOf(source, { withSecrets: true })),
    );
    expect(comparable(await linesOf(target))).toEqual(comparable(await linesOf(source)));
    const text = (await linesOf(target)).join('');
    for (const hidden of [secret, configSecret, '$2b$10$hash', 'enc:v1']) expect(text).not.toContain(hidden);
  });

  it('on a Redis cluster exports the same lines again', async () => {
    const cluster = await startCluster();
    try {
      await noteServer(cluster.describe);
      const { url } = await sharedPostgres();
      const stoa = await openStoa({
        postgres: url,
        secretKeys: sharedKeys,
        redis: cluster.url,
        onError: () => undefined,
        clock,
      });
      await run(stoa, whole);
      expect(comparable(await linesOf(stoa, { withSecrets: true }))).toEqual(
        comparable(await linesOf(source, { withSecrets: true })),
      );
      expect(
        (
          await stoa.messaging.port.search({
            words: ['everybody'],
            roomId: null,
            owner: null,
            afterMs: 0,
            beforeMs: null,
            limit: 10,
          })
        ).messages,
      ).toHaveLength(1);
      await stoa.close();
    } finally {
      await cluster.stop();
    }
  }, 60_000);

  it('stores working secrets, counters, leases, dependencies, threads, search and inboxes', async () => {
    await run(target, whole);
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    expect(workspace).toMatchObject({ name: 'site', active_tasks: 2 });
    expect(await target.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
    const [project] = (await target.workspaces.listProjects(ada, workspace?.id as string)).items;
    const [session] = (await target.workspaces.listSessions(ada, project?.id as string)).items;
    const tasks = (await target.workspaces.listSessionTasks(ada, session?.id as string)).items;
    const running = tasks.find(({ status }) => status === 'running');
    // The claim is still valid: its holder completes the task here, and its dependants are ready.
    await target.workspaces.completeTask(operatorCaller('ada', 'worker'), running?.id as string, {
      fence: 1,
    });
    // The dependant waits for its time.
    expect(await target.workspaces.claimTask(ada, project?.id as string)).toBeNull();
    const second = tasks.find(({ command }) => command === 'second');
    await target.workspaces.updateTask(ada, second?.id as string, { run_at: null });
    expect((await target.workspaces.claimTask(ada, project?.id as string))?.task).toMatchObject({
      command: 'second',
    });
    const port = writtenPort(target.messaging);
    expect(
      (
        await port.search({
          words: ['everybody'],
          roomId: null,
          owner: null,
          afterMs: 0,
          beforeMs: null,
          limit: 10,
        })
      ).messages,
    ).toHaveLength(1);
    const [root, answer] = (await port.messages(publicRoom(globalRoomId), { afterMs: 0, limit: 10 })).items;
    expect(
      (await port.thread(publicRoom(globalRoomId), root?.id ?? '', 0, 10)).items.map(({ body }) => body),
    ).toEqual(['hello everybody', 'an answer']);
    const posted = await port.post({
      roomId: globalRoomId,
      from: answer?.from ?? '',
      body: 'and on it goes',
      parentId: root?.id ?? '',
      proof: null,
      serverSigned: false,
    });
    expect(posted.tsMs).toBeGreaterThan(answer?.tsMs ?? Infinity);
    await eventually(async () => expect(await port.room(globalRoomId)).toMatchObject({ messageCount: 4 }));
    const agents = await port.identities(
      (await linesOf(target, { domains: ['messaging'] })).flatMap((line) =>
        (JSON.parse(line) as { type: string; id: string }).type === 'messaging.identity'
          ? [(JSON.parse(line) as { id: string }).id]
          : [],
      ),
    );
    const reader = [...agents.values()].find(({ name }) => name === 'reader');
    expect((await port.pending(reader?.id ?? '', 0, 10)).items).toMatchObject([{ body: 'between us' }]);
  });

  it('a second time changes nothing', async () => {
    await run(target, plain);
    const before = comparable(await linesOf(target));
    expect(await run(target, plain, { onConflict: 'skip' })).toMatchObject({
      replaced: 0,
      conflicts_total: expect.any(Number) as number,
    });
    expect(comparable(await linesOf(target))).toEqual(before);
  });

  it('with new ids makes a second, consistent copy', async () => {
    await run(target, plain, { ids: 'map' });
    const [original] = (await source.workspaces.listWorkspaces(ada)).items;
    const [copy] = (await target.workspaces.listWorkspaces(ada)).items;
    expect(copy).toMatchObject({ name: 'site', active_tasks: 2 });
    expect(copy?.id).not.toBe(original?.id);
    expect(await run(target, plain, { ids: 'map', onConflict: 'skip' })).toMatchObject({ replaced: 0 });
  });

  it('a dry run lists the conflicts and writes nothing', async () => {
    await target.data.set(ada, 'notes', 'twice', 'mine');
    await target.workspaces.createWorkspace(ada, { name: 'site' });
    const before = comparable(await linesOf(target));
    const report = await run(target, plain, { dryRun: true });
    expect(report.conflicts.map(({ kind, type }) => `${type} ${kind}`).toSorted()).toEqual([
      'data.document exists',
      'registry.user exists',
      'workspaces.workspace name_taken',
    ]);
    expect(comparable(await linesOf(target))).toEqual(before);
    await expect(run(target, plain)).rejects.toMatchObject({ code: 'conflict' });
    expect(comparable(await linesOf(target))).toEqual(before);
    const skipped = await run(target, plain, { onConflict: 'skip' });
    // The user and the document that were there, and the workspace with all below it.
    expect(skipped.skipped).toBe(8);
    expect(await target.data.get(ada, 'notes', 'twice')).toBe('mine');
  });

  it('a replaced record loses neither its secret nor its counters', async () => {
    await run(target, whole);
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    await target.workspaces.updateWorkspace(ada, workspace?.id as string, { name: 'renamed' });
    const [project] = (await target.workspaces.listProjects(ada, workspace?.id as string)).items;
    const [session] = (await target.workspaces.listSessions(ada, project?.id as string)).items;
    const [pending] = (
      await target.workspaces.listSessionTasks(ada, session?.id as string, { status: 'pending' })
    ).items;
    await target.workspaces.cancelTask(ada, pending?.id as string, {});
    const report = await run(target, plain, { onConflict: 'replace' });
    expect(report.replaced).toBeGreaterThanOrEqual(2);
    expect(await target.workspaces.getWorkspace(ada, workspace?.id as string)).toMatchObject({
      name: 'site',
      active_tasks: 2,
    });
    expect(await target.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
  });

  it('leaves an agent that holds a task its name, and reports it before', async () => {
    await run(target, plain);
    await expectHolderKeepsName(target, (options) => run(target, plain, options));
  });

  it('names the record that has the name of another', () =>
    expectSameWords(target, () => run(target, plain, { dryRun: true })));

  it('of two files at the same time leaves complete records', async () => {
    await Promise.all([
      run(target, plain, { onConflict: 'skip' }),
      run(target, plain, { onConflict: 'skip' }),
    ]);
    expect(comparable(await linesOf(target))).toEqual(comparable(await linesOf(source)));
  });

  it('of one user exports only that user', async () => {
    await run(target, plain);
    const text = (await linesOf(target, { user: 'bob' })).join('');
    expect(text).toContain('"other"');
    expect(text).not.toContain('"ada"');
    expect(text).not.toContain('messaging.');
  });

  it('and back into a data directory is the same again', async () => {
    await run(target, whole);
    const home = await openStoa({ data: '', engine: 'memory', clock });
    opened.push(home);
    await run(home, await save(await linesOf(target, { withSecrets: true }), `${randomUUID()}.ndjson`));
    expect(comparable(await linesOf(home, { withSecrets: true }))).toEqual(
      comparable(await linesOf(source, { withSecrets: true })),
    );
  });
});
