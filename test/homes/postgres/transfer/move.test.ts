/** A whole Stoa from a data directory to PostgreSQL and Redis, and back. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Stoa, openStoa, operatorCaller } from '../../../../src/index.js';
import type { TaskLine } from '../../../../src/transfer/records/record-schemas.js';
import type { RecordStore } from '../../../../src/transfer/port.js';
import type { MoveStep } from '../../../../src/transfer/move/move.js';
import type { TestServer } from '../../../servers/child.js';
import { start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedKeys, emptyPostgres } from '../../../servers/shared.js';
import { ada, bob, configSecret, secret } from '../../../transfer/kit.js';
import { type Filled, type Opening, contentsOf, fillWhole, move } from '../../../transfer/move-kit.js';

let directory: string;
let redis: TestServer;
let filled: Filled;
let contents: string[];
const source: Opening = {};
const target: Opening = { secretKeys: sharedKeys };
const back: Opening = {};
const opened: Stoa[] = [];

/** Time stands still, so that no lease ends between two looks. */
const nowMs = Date.now();

async function open(place: Opening): Promise<Stoa> {
  const stoa = await openStoa({ ...place, onError: () => undefined, clock: () => nowMs });
  opened.push(stoa);
  return stoa;
}

async function closeAll(): Promise<void> {
  for (const stoa of opened.splice(0)) await stoa.close();
}

async function inDatabase(statement: string): Promise<Record<string, string>[]> {
  const sql = postgres(target.postgres as string, { max: 1, onnotice: () => undefined });
  return sql.unsafe<Record<string, string>[]>(statement).finally(() => sql.end());
}

let homes = 0;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-move-'));
  redis = await startRedis();
  await noteServer(redis.describe);
  source.data = join(directory, 'source');
  const stoa = await open({ ...source, shards: 2 });
  filled = await fillWhole(stoa);
  contents = await contentsOf(stoa);
  await closeAll();
});
afterAll(async () => {
  await redis.stop();
  await rm(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
  homes += 1;
  target.postgres = (await emptyPostgres()).url;
  target.redis = redis.url;
  back.data = join(directory, `back-${homes}`);
});
afterEach(closeAll);

describe('a move to PostgreSQL and Redis', () => {
  it('and back copies everything, followers get resync, and the source stays unchanged', async () => {
    const first = await open(source);
    const inSource = await first.home.feed.newest();
    await open(target);
    const inTarget = await (opened.at(-1) as Stoa).home.feed.newest();
    await closeAll();
    const there = await move({ from: source, to: target });
    expect(there).toMatchObject({ records: there.copied, blocks: 1 });
    expect(there.types['identity.token'].records).toBe(2);
    expect(there.types['messaging.seed'].records).toBe(1);
    const onPostgres = await open(target);
    expect(await contentsOf(onPostgres)).toEqual(contents);
    expect((await onPostgres.operations.examine(false)).findings).toEqual([]);
    for (const since of [inSource, inTarget])
      await expect(onPostgres.changes.read(operatorCaller(), { since })).rejects.toMatchObject({
        code: 'resync',
      });
    const onServer = await onPostgres.home.feed.newest();
    await closeAll();

    // The source is only read: it may be set to read-only.
    const [{ name } = { name: '' }] = await inDatabase('SELECT current_database() AS name');
    await inDatabase(`ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
    const home = await move({ from: target, to: back });
    expect(home.types).toEqual(there.types);
    const inDirectory = await open(back);
    expect(await contentsOf(inDirectory)).toEqual(contents);
    expect((await inDirectory.operations.examine(false)).findings).toEqual([]);
    await expect(inDirectory.changes.read(operatorCaller(), { since: onServer })).rejects.toMatchObject({
      code: 'resync',
    });
    await closeAll();
    expect(await contentsOf(await open(source))).toEqual(contents);
  }, 120_000);

  it('keeps what exports leave out: tokens, leases with their holders, fencing numbers, seeds, secrets, blocks', async () => {
    await move({ from: source, to: target });
    const stoa = await open(target);
    const caller = await stoa.identity.authenticate(filled.token);
    expect(caller).toMatchObject({ user: 'ada', scopes: { write: true, namespaces: ['notes'] } });
    const agent = await stoa.registry.getAgent(ada, filled.agent);
    expect(agent).toMatchObject({ lease: { holder: 'host', fence: filled.fence } });
    const again = await stoa.registry.heartbeat(ada, filled.agent, { holder: 'host' });
    expect(again.lease.fence).toBe(filled.fence);
    // Deleted agents were given the fencing numbers up to 3.
    const id = randomBytes(32).toString('hex');
    await stoa.registry.putAgent(bob, { agent_id: id, name: 'next' });
    expect((await stoa.registry.heartbeat(bob, id, { holder: 'd' })).lease.fence).toBeGreaterThan(3);
    const [workspace] = (await stoa.workspaces.listWorkspaces(ada)).items;
    expect(await stoa.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
    const before = await stoa.messaging.port.totals();
    await stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body: 'signed there', pid: '' }), null);
    // The seed was moved: no second identity was made for her.
    expect((await stoa.messaging.port.totals()).agents).toBe(before.agents);
    expect(await stoa.messaging.port.blockOf('192.0.2.7')).toMatchObject({ reason: 'too many requests' });
  });

  it('seals secrets with the first key of the target, and shows them nowhere', async () => {
    await move({ from: source, to: target });
    const sql = postgres(target.postgres as string, { max: 1 });
    const [rows] = await sql.unsafe(
      `SELECT (SELECT string_agg(claude_key, ' ') FROM workspaces.workspaces) AS keys,
        (SELECT string_agg(config::text, ' ') FROM workspaces.projects) AS configs,
        (SELECT string_agg(sealed_seed, ' ') FROM messaging.kept_agents) AS seeds,
        (SELECT string_agg(key_id, ' ') FROM cluster.secret_keys) AS ring`,
    );
    await sql.end();
    const { keys, configs, seeds, ring } = rows as Record<string, string>;
    const stored = `${keys} ${configs} ${seeds}`;
    expect(stored).not.toContain(secret);
    expect(stored).not.toContain(configSecret);
    for (const sealed of stored.match(/enc:v1:[0-9a-f]+/g) ?? []) expect(sealed).toBe(`enc:v1:${ring}`);
    expect(stored.match(/enc:v1:/g)).toHaveLength(3);
  });
});

describe('a task', () => {
  const later = 'task_ffffffff-0000-7000-8000-000000000000';
  const earlier = 'task_00000000-0000-7000-8000-000000000000';
  const earliest = 'task_00000000-0000-7000-8000-00000000000a';

  it('that comes before the tasks that it depends on waits for them in the target too', async () => {
    const skewed: Opening = { data: join(directory, 'skewed') };
    const stoa = await open(skewed);
    const workspace = await stoa.workspaces.createWorkspace(ada, { name: 'skewed' });
    const project = await stoa.workspaces.createProject(ada, workspace.id, { name: 'clocks' });
    const session = await stoa.workspaces.createSession(ada, project.id, { status: 'active' });
    const task = await stoa.workspaces.createTask(ada, session.id, { command: 'plain' });
    await stoa.workspaces.cancelTask(ada, task.id, {});
    const tasks = new Map(stoa.home.records()).get('workspaces.task') as RecordStore;
    const line = (id: string, depends_on: string[]): TaskLine => ({
      type: 'workspaces.task',
      user: 'ada',
      ...task,
      id,
      depends_on,
      lease: null,
    });
    // Servers whose clocks differ give out such ids.
    await tasks.write([line(later, []), line(earliest, [later]), line(earlier, [earliest])], 'fail');
    await closeAll();
    await move({ from: skewed, to: target });
    await move({ from: target, to: back });
    for (const place of [target, back]) {
      const moved = await open(place);
      for (const id of [later, earliest, earlier]) {
        const claim = await moved.workspaces.claimTask(ada, project.id);
        expect(claim?.task.id).toBe(id);
        expect(await moved.workspaces.claimTask(ada, project.id)).toBeNull();
        await moved.workspaces.completeTask(ada, id, { fence: claim?.lease.fence as number });
      }
      await closeAll();
    }
  });
});

/** Ends the move after so many steps of copying, as a killed process does: between two pages. */
function stopAfter(steps: number): (step: { phase: string }) => void {
  let left = steps;
  return ({ phase }) => {
    if (phase === 'copying' && (left -= 1) < 0) throw new Error('stopped');
  };
}

describe('an interrupted move', () => {
  it.each([0, 9])('goes on after %i steps and ends with the same contents', async (steps) => {
    await expect(move({ from: source, to: target, onStep: stopAfter(steps) })).rejects.toThrow('stopped');
    await expect(open(target)).rejects.toMatchObject({ code: 'conflict' });
    const whole = await move({ from: source, to: target });
    expect(whole.copied).toBeLessThanOrEqual(whole.records);
    expect(await contentsOf(await open(target))).toEqual(contents);
    await closeAll();

    await expect(move({ from: target, to: back, onStep: stopAfter(steps) })).rejects.toThrow('stopped');
    await expect(open(back)).rejects.toMatchObject({ code: 'conflict' });
    await move({ from: target, to: back });
    const stoa = await open(back);
    expect(await contentsOf(stoa)).toEqual(contents);
    expect((await stoa.operations.examine(false)).findings).toEqual([]);
  });

  it('is refused from another source', async () => {
    await expect(move({ from: source, to: target, onStep: stopAfter(3) })).rejects.toThrow('stopped');
    const other = { data: join(directory, `other-${homes}`) };
    await open(other);
    await closeAll();
    await expect(move({ from: other, to: target })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('from another Stoa') as string,
    });
  });
});

/** Changes the target between the copy and the comparison. */
const planted =
  (statement: string) =>
  async ({ phase, done, total }: MoveStep): Promise<void> => {
    if (phase === 'copying' && done === total) await inDatabase(statement);
  };

describe('a difference', () => {
  it.each([
    ['data.document', `UPDATE agent_data_store SET "accessCount" = "accessCount" + 1 WHERE key = 'twice'`],
    [
      'registry.agent',
      'UPDATE registry.agents SET lease_fence = lease_fence + 1 WHERE lease_fence IS NOT NULL',
    ],
    ['identity.token', `DELETE FROM registry.tokens WHERE user_name = 'ada'`],
    ['workspaces.task', `UPDATE workspaces.tasks SET command = 'other' WHERE status = 'pending'`],
    ['messaging.room', `UPDATE rooms SET key_hash = 'x' WHERE is_private`],
  ])('in %s is an error that names the type', async (type, statement) => {
    await expect(move({ from: source, to: target, onStep: planted(statement) })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(`The two sides differ in ${type} (`) as string,
    });
    await expect(open(target)).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is repaired by the next run', async () => {
    const onStep = planted(`DELETE FROM agent_data_store WHERE key = 'twice'`);
    await expect(move({ from: source, to: target, onStep })).rejects.toMatchObject({ code: 'conflict' });
    await move({ from: source, to: target });
    expect(await contentsOf(await open(target))).toEqual(contents);
  });
});

describe('a move is refused', () => {
  it('where the target has records', async () => {
    const stoa = await open(target);
    await stoa.data.set(bob, 'default', 'mine', 1);
    await closeAll();
    await expect(move({ from: source, to: target })).rejects.toMatchObject({
      code: 'conflict',
      message: 'the target is not empty: it has a record of registry.user.',
    });
    const kept = await open(target);
    expect(await kept.data.get(bob, 'default', 'mine')).toBe(1);
    await closeAll();
    await expect(move({ from: target, to: source })).rejects.toMatchObject({ code: 'conflict' });
  });

  it('where a server runs on either side', async () => {
    await open(target);
    await expect(move({ from: source, to: target })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(/^the target is in use\. The server .* is running\./) as string,
    });
    await expect(move({ from: target, to: back })).rejects.toMatchObject({
      message: expect.stringMatching(/^the source is in use/) as string,
    });
    await closeAll();
    await open(source);
    await expect(move({ from: source, to: target })).rejects.toMatchObject({ code: 'locked' });
  });

  it('by a server that would start on the source or the target, and by what changed the source', async () => {
    await move({ from: source, to: target });
    const refusals: unknown[] = [];
    const onStep = async ({ phase }: MoveStep): Promise<void> => {
      if (phase !== 'counting' || refusals.length > 0) return;
      for (const place of [target, back]) refusals.push(await open(place).catch((error: unknown) => error));
      // As a server would have left it that was started and stopped again.
      await inDatabase(`INSERT INTO feed.incoming (changes) VALUES ('[]')`);
    };
    await expect(move({ from: target, to: back, onStep })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('the source was changed during the move') as string,
    });
    expect(refusals).toEqual([
      expect.objectContaining({ code: 'locked' }),
      expect.objectContaining({ code: 'conflict' }),
    ]);
    await move({ from: target, to: back });
    expect(await contentsOf(await open(back))).toEqual(contents);
  });

  it('where the source is unfinished, which stays as it is', async () => {
    await open(target);
    await closeAll();
    await inDatabase(`DELETE FROM stoa_migrations WHERE domain = 'commits'; DROP TABLE commit_outbox`);
    await expect(move({ from: target, to: back })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('Create the tables commit_outbox and commit_bytes.') as string,
    });
    expect(await inDatabase(`SELECT to_regclass('commit_outbox') AS made`)).toEqual([{ made: null }]);
  });

  it('where messages of commits have not been delivered', async () => {
    await open(target);
    await closeAll();
    await inDatabase(
      `INSERT INTO commit_outbox (delivery, destination, message, user_id) VALUES (gen_random_uuid(), 'room x', '{}', 'ada')`,
    );
    await expect(move({ from: target, to: back })).rejects.toMatchObject({
      message: expect.stringContaining('1 messages of commits are not delivered yet.') as string,
    });
  });

  it('where the keys of the source are missing, and the target is left empty', async () => {
    const path = join(source.data as string, 'secret.keys');
    const keys = await readFile(path, 'utf8');
    await writeFile(
      path,
      JSON.stringify({ current: 'ab', keys: { ab: Buffer.alloc(32, 1).toString('base64') } }),
    );
    try {
      await expect(move({ from: source, to: target })).rejects.toMatchObject({ code: 'damaged_data' });
    } finally {
      await writeFile(path, keys);
    }
    expect(await move({ from: source, to: target })).toMatchObject({ blocks: 1 });
  });
});
