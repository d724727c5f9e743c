/** Agents and rooms that come with an import: presence, names that change, and room keys. On both homes. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { allChecks } from '../../src/homes/directory/doctor/doctor.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { kernelOf } from '../kernel-of.js';
import type { TestServer } from '../servers/child.js';
import { emptyRedis, start as startRedis } from '../servers/redis.js';
import { noteServer, sharedKeys, sharedPostgres } from '../servers/shared.js';
import { ada, linesOf } from './kit.js';

let directory: string;
let redis: TestServer;
let source: Stoa;
const opened: Stoa[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-imported-'));
  redis = await startRedis();
  await noteServer(redis.describe);
});
afterAll(async () => {
  await redis.stop();
  await rm(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  source = await openStoa({ data: '', engine: 'memory' });
  opened.push(source);
});
afterEach(async () => {
  for (const stoa of opened.splice(0)) await stoa.close();
});

const as = (agent: string) => operatorCaller('ada', agent);

async function save(lines: readonly string[]): Promise<string> {
  const path = join(directory, 'exported.ndjson');
  await writeFile(path, lines.join(''));
  return path;
}

const exported = async (stoa: Stoa): Promise<string> => save(await linesOf(stoa, { domains: ['registry'] }));

const homes: [name: string, open: (options?: Partial<StoaOptions>) => Promise<Stoa>][] = [
  ['a data directory', (options) => openStoa({ data: '', engine: 'memory', ...options })],
  [
    'PostgreSQL',
    async (options) => {
      const { url } = await sharedPostgres();
      await emptyRedis(redis.url);
      const settings = { postgres: url, redis: redis.url, secretKeys: sharedKeys, onError: () => undefined };
      return openStoa({ ...settings, ...options });
    },
  ],
];

const presences = async (stoa: Stoa): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await stoa.registry.listAgents(ada)).items.map((agent) => [agent.name, agent.presence]),
  );

/** A Stoa of a home that is closed after the test. */
async function opening(open: (typeof homes)[number][1], options?: Partial<StoaOptions>): Promise<Stoa> {
  const stoa = await open(options);
  opened.push(stoa);
  return stoa;
}

describe.each(homes)('agents imported into %s', (name, open) => {
  const target = (options?: Partial<StoaOptions>): Promise<Stoa> => opening(open, options);

  it('that were present elsewhere are lost until they call, and do not count in the quota', async () => {
    for (const agent of ['otter', 'heron']) await source.data.set(as(agent), 'notes', agent, 1);
    await source.registry.createAgent(ada, { name: 'new' });
    const heron = (await source.registry.listAgents(ada, { name: 'heron' })).items[0];
    await source.registry.releaseLease(ada, heron?.agent_id ?? '');
    expect(await presences(source)).toEqual({ otter: 'live', heron: 'none', new: 'none' });

    const stoa = await target({ limits: { agentsPerUserMax: 1 } });
    const report = await stoa.transfer.import(operatorCaller(), await exported(source));
    expect(report).toMatchObject({ conflicts_total: 0, skipped: 0 });
    expect(await presences(stoa)).toEqual({ otter: 'lost', heron: 'none', new: 'none' });
    // The one that never was present counts.
    await expect(stoa.registry.createAgent(ada, { name: 'second' })).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
    await stoa.data.set(as('otter'), 'notes', 'again', 1);
    expect((await presences(stoa))['otter']).toBe('live');
    // The same file again changes nothing.
    const again = await stoa.transfer.import(operatorCaller(), await exported(source));
    expect([again.written, again.replaced]).toEqual([0, 0]);
    expect((await presences(stoa))['otter']).toBe('live');
    if (name === 'a data directory') await expectHealthy(stoa);
  });

  it('under another name take along what they have under the old one', async () => {
    await source.data.set(as('otter'), 'notes', 'k', 1);
    const [{ agent_id } = { agent_id: '' }] = (await source.registry.listAgents(ada)).items;
    const stoa = await target();
    await stoa.transfer.import(operatorCaller(), await exported(source));
    await stoa.messaging.rooms.post(
      as('otter'),
      { room: 'build', byName: true, key: undefined, address: '' },
      () => ({ body: 'before', pid: '' }),
      null,
    );
    await stoa.locks.acquire(as('otter'), 'src/app.ts', {});
    await source.registry.updateAgent(ada, agent_id, { name: 'heron' });
    const options = { onConflict: 'replace' } as const;
    expect((await stoa.transfer.import(operatorCaller(), await exported(source), options)).replaced).toBe(1);
    expect((await stoa.locks.list(ada)).items).toMatchObject([{ name: 'src/app.ts', holder: 'heron' }]);
    const { id } = await stoa.messaging.identities.find(ada, 'heron');
    expect((await stoa.messaging.authors.of([{ from: id }])).get(id)).toMatchObject({ name: 'heron' });
    await expect(stoa.messaging.identities.find(ada, 'otter')).rejects.toMatchObject({ code: 'not_found' });

    // An agent keeps its name while it holds a task.
    const workspace = await stoa.workspaces.createWorkspace(ada, { name: 'w' });
    const project = await stoa.workspaces.createProject(ada, workspace.id, { name: 'p' });
    const session = await stoa.workspaces.createSession(ada, project.id, { status: 'active' });
    await stoa.workspaces.createTask(ada, session.id, { command: 'x' });
    await stoa.workspaces.claimTask(as('heron'), project.id);
    await source.registry.updateAgent(ada, agent_id, { name: 'stork' });
    expect(await stoa.transfer.import(operatorCaller(), await exported(source), options)).toMatchObject({
      replaced: 0,
      skipped: 1,
      conflicts: [{ id: agent_id, detail: expect.stringContaining('holds tasks') }],
    });
    expect(Object.keys(await presences(stoa))).toEqual(['heron']);
  });
});

const roomLines = (stoa: Stoa, withSecrets: boolean): Promise<string[]> =>
  linesOf(stoa, { domains: ['messaging'], withSecrets });

describe.each(homes)('private rooms of a user imported into %s', (_name, open) => {
  const key = 'a key of more than sixteen bytes';
  const vault = { room: 'vault', byName: true };
  const post = (stoa: Stoa, given: string) =>
    stoa.messaging.rooms.post(
      as('otter'),
      { ...vault, key: given, address: '' },
      () => ({ body: 'behind a key', pid: '' }),
      null,
    );

  beforeEach(async () => {
    await post(source, key);
  });

  it('without the hash of their key stay private, and no key opens them', async () => {
    const stoa = await opening(open);
    const file = await save(await roomLines(source, false));
    expect(await stoa.transfer.import(operatorCaller(), file)).toMatchObject({ conflicts_total: 0 });
    expect(await stoa.messaging.rooms.own('ada', null, 10)).toMatchObject([{ isPrivate: true }]);
    for (const given of [key, 'some other key of a caller'])
      await expect(post(stoa, given)).rejects.toMatchObject({ code: 'forbidden' });
    await expect(stoa.messaging.rooms.enter(as('otter'), vault, { key, address: '' })).rejects.toMatchObject({
      code: 'forbidden',
    });
    const found = (await roomLines(stoa, true)).filter((line) => line.includes('"name":"vault"'));
    expect(found.map((line) => JSON.parse(line) as unknown)).toMatchObject([{ key_hash: null }]);
    const again = await stoa.transfer.import(operatorCaller(), file);
    // Every store has the global room, and an import always writes it.
    expect(again).toMatchObject({ conflicts_total: 0, written: 1, replaced: 0, skipped: 0 });
  });

  it('keep their key when they are replaced, and lose it when they become open', async () => {
    const stoa = await opening(open);
    const lines = await roomLines(source, true);
    await stoa.transfer.import(operatorCaller(), await save(lines));
    await post(stoa, key);
    const replace = async (change: Record<string, unknown>): Promise<void> => {
      const changed = lines.map((line) =>
        line.includes('"name":"vault"')
          ? `${JSON.stringify({ ...(JSON.parse(line) as object), key_hash: null, ...change })}\n`
          : line,
      );
      await stoa.transfer.import(operatorCaller(), await save(changed), asGiven);
    };
    await replace({ retentionSeconds: 3_600 });
    await expect(post(stoa, 'some other key of a caller')).rejects.toMatchObject({ code: 'forbidden' });
    await post(stoa, key);
    await replace({ isPrivate: false });
    await post(stoa, '');
    expect(await stoa.messaging.rooms.own('ada', null, 10)).toMatchObject([{ isPrivate: false }]);
  });
});

describe.each(homes)('the global room imported into %s', (_name, open) => {
  it.each([{ isPrivate: true }, { owner: 'eve' }])(
    'with %j is a bad line and stays public',
    async (change) => {
      const stoa = await opening(open);
      const lines = (await roomLines(source, true)).map((line) =>
        line.includes(`"id":"${globalRoomId}"`)
          ? `${JSON.stringify({ ...(JSON.parse(line) as object), ...change })}\n`
          : line,
      );
      const file = await save(lines);
      const reason = expect.stringContaining(
        'id: The global room must be public and must not have an owner.',
      ) as string;
      await expect(stoa.transfer.import(operatorCaller(), file)).rejects.toMatchObject({
        code: 'invalid_request',
        message: reason,
      });
      const { bad } = await stoa.transfer.import(operatorCaller(), file, asGiven);
      expect(bad[0]).toMatchObject({ reason });
      expect(await stoa.messaging.port.room(globalRoomId)).toMatchObject({ isPrivate: false, owner: null });
    },
  );
});

it('a line with a value of another type or out of range is refused by what it has', async () => {
  const stoa = await openStoa({ data: '', engine: 'memory' });
  opened.push(stoa);
  const reasonOf = async (change: object): Promise<string | undefined> => {
    const lines = (await roomLines(source, true)).map((line) =>
      line.includes(`"id":"${globalRoomId}"`)
        ? `${JSON.stringify({ ...(JSON.parse(line) as object), ...change })}\n`
        : line,
    );
    return (await stoa.transfer.import(operatorCaller(), await save(lines), asGiven)).bad[0]?.reason;
  };
  expect(await reasonOf({ name: 7 })).toBe('name: must be text, got a number');
  expect(await reasonOf({ version: 0 })).toBe('version: must be 1 or more, got 0');
});

/** The files have changed lines, so their checksums are wrong. */
const asGiven = { onConflict: 'replace', keepGoing: true } as const;

it('a room that an import replaces is counted, ranked and found by its new owner, name and number of messages', async () => {
  const room = await source.messaging.rooms.create(
    ada,
    { name: 'hall', is_private: false, key: '', owner: null },
    null,
  );
  const lines = await roomLines(source, true);
  const stoa = await openStoa({ data: '', engine: 'memory' });
  opened.push(stoa);
  for (const change of [
    { messageCount: 9 },
    { messageCount: 3 },
    { isPrivate: true },
    { isPrivate: false },
    { owner: 'ada' },
    { owner: 'eve' },
    { owner: 'eve', name: 'other' },
    {},
  ]) {
    const changed = lines.map((line) =>
      line.includes('"name":"hall"')
        ? `${JSON.stringify({ ...(JSON.parse(line) as object), ...change })}\n`
        : line,
    );
    await stoa.transfer.import(operatorCaller(), await save(changed), asGiven);
    await expectHealthy(stoa);
  }
  expect((await stoa.messaging.rooms.own('eve', null, 10)).map(({ id }) => id)).not.toContain(room.id);
});

async function expectHealthy(stoa: Stoa): Promise<void> {
  const kernel = kernelOf(stoa);
  for await (const finding of examineAll(kernel.stores, allChecks(kernel), { repair: false }))
    throw new Error(`The doctor found: ${finding.family}: ${finding.problem}`);
}

describe.each(homes)('tasks of %s', (_name, open) => {
  it('never get a fence again that was given out, also after an import has replaced them', async () => {
    const target = await open();
    opened.push(target);
    const { workspaces } = target;
    const { id: workspace } = await workspaces.createWorkspace(ada, { name: 'site' });
    const { id: project } = await workspaces.createProject(ada, workspace, { name: 'web' });
    const { id: session } = await workspaces.createSession(ada, project);
    const { id: task } = await workspaces.createTask(ada, session, { command: 'x' });
    const unclaimed = await save(await linesOf(target, { domains: ['workspaces'] }));
    const first = await workspaces.claimTask(as('scout'), project);
    const { replaced } = await target.transfer.import(operatorCaller(), unclaimed, { onConflict: 'replace' });
    expect(replaced).toBeGreaterThan(0);
    const second = await workspaces.claimTask(as('builder'), project);
    expect(second?.task.id).toBe(task);
    expect(second?.lease.fence).toBeGreaterThan(first?.lease.fence as number);
    await expect(
      workspaces.completeTask(as('scout'), task, { fence: first?.lease.fence as number }),
    ).rejects.toMatchObject({ code: 'fenced' });
  });
});
