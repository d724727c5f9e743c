import { kernelOf } from '../kernel-of.js';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { allChecks } from '../../src/homes/directory/doctor/doctor.js';
import { operatorCaller } from '../../src/core/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import { type Stoa, openStoa } from '../../src/index.js';
import type { Limits } from '../../src/core/settings/limits.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import type { EngineName } from '../../src/core/settings/store-config.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';
import { ada, comparable, configSecret, fill, linesOf, secret } from './kit.js';

let directory: string;
let source: Stoa;
/** An export of the source with secrets, and one without. */
let whole: string;
let plain: string;
const opened: Stoa[] = [];

async function open(
  name: string,
  options: { engine?: EngineName; shards?: number; limits?: Partial<Limits> } = {},
): Promise<Stoa> {
  const stoa = await openStoa({ data: join(directory, name), sweepIntervalMs: 3_600_000, ...options });
  opened.push(stoa);
  return stoa;
}

async function expectHealthy(stoa: Stoa): Promise<void> {
  for await (const finding of examineAll(kernelOf(stoa).stores, allChecks(kernelOf(stoa)), {
    repair: false,
  }))
    throw new Error(`The doctor found: ${finding.family}: ${finding.problem}`);
}

async function save(lines: readonly string[], name = 'export.ndjson'): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, lines.join(''));
  return path;
}

const run = (stoa: Stoa, path: string, options: Parameters<Stoa['transfer']['import']>[2] = {}) =>
  stoa.transfer.import(operatorCaller(), path, options);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-transfer-'));
  source = await open('source');
  await fill(source);
  whole = await save(await linesOf(source, { withSecrets: true }), 'whole.ndjson');
  plain = await save(await linesOf(source), 'plain.ndjson');
});

afterAll(async () => {
  for (const stoa of opened) await stoa.close();
  await rm(directory, { recursive: true, force: true });
});

describe('an export', () => {
  it('begins with a header and ends with counts and a hash', async () => {
    const lines = (await readFile(plain, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines[0]).toMatchObject({
      type: 'stoa.export',
      format: 'stoa-export',
      version: 1,
      store: kernelOf(source).manifest.id,
      user: null,
      with_secrets: false,
    });
    expect(lines.at(-1)).toMatchObject({
      type: 'stoa.end',
      counts: {
        // Two that were created, and the worker that claimed a task.
        'registry.agent': 3,
        'registry.session': 1,
        'registry.link': 1,
        'data.document': 3,
        'workspaces.workspace': 2,
        'workspaces.task': 3,
        'messaging.identity': 2,
        'messaging.message': 3,
        'messaging.direct': 1,
      },
    });
  });

  it('contains secrets only on request, and never tokens', async () => {
    const { token } = await source.identity.createToken(operatorCaller(), 'ada', {}, null);
    const [without, withThem] = [
      (await linesOf(source)).join(''),
      (await linesOf(source, { withSecrets: true })).join(''),
    ];
    for (const text of [secret, configSecret, '$2b$10$hash', 'enc:v1', token])
      expect(without).not.toContain(text);
    for (const text of [secret, configSecret, '$2b$10$hash']) expect(withThem).toContain(text);
    expect(withThem).not.toContain('enc:v1');
    expect(withThem).not.toContain(token);
  });

  it('contains no password of a repository, and an import stores none', async () => {
    const lines = (await linesOf(source, { domains: ['workspaces'] })).map((line) =>
      line.includes('"workspaces.project"')
        ? line
            .replace('"git_url":""', '"git_url":"https://ada:hunter2@example.org/x.git"')
            .replace('"git_info":{}', '"git_info":{"remote_url":"https://ada:hunter2@example.org/x.git"}')
        : line,
    );
    expect(lines.join('').split('hunter2')).toHaveLength(3);
    const target = await open('git-passwords');
    await run(target, await save(lines.slice(0, -1), 'git-passwords.ndjson'), { keepGoing: true });
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    const [project] = (await target.workspaces.listProjects(ada, workspace?.id as string)).items;
    expect((await target.workspaces.port.getProject('ada', project?.id as string, false)).git_url).toBe(
      'https://…@example.org/x.git',
    );
    for (const withSecrets of [false, true])
      expect((await linesOf(target, { withSecrets })).join('')).not.toContain('hunter2');
  });

  it('of one user contains only that user', async () => {
    const text = (await linesOf(source, { user: 'bob' })).join('');
    expect(text).toContain('"other"');
    expect(text).not.toContain('"ada"');
    expect(text).not.toContain('messaging.');
    const documents = await linesOf(source, { domains: ['data'] });
    expect(documents).toHaveLength(3 + 2);
    expect(JSON.parse(documents[1] as string)).toMatchObject({
      type: 'data.document',
      userId: expect.any(String) as string,
      _id: expect.any(String) as string,
    });
  });
});

describe.each([
  { engine: 'lmdb', shards: 1 },
  { engine: 'rocksdb', shards: 3 },
] as const)('an import on $engine with $shards shards', ({ engine, shards }) => {
  it('restores everything exactly', async () => {
    const target = await open(`whole-${engine}`, { engine, shards });
    const report = await run(target, whole);
    expect(report).toMatchObject({ replaced: 0, skipped: 0, conflicts_total: 0, bad_total: 0 });
    expect(comparable(await linesOf(target, { withSecrets: true }))).toEqual(
      comparable(await linesOf(source, { withSecrets: true })),
    );
    await expectHealthy(target);
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    expect(workspace).toMatchObject({ name: 'site', active_tasks: 2 });
    expect(await target.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
    expect(
      (
        await target.messaging.port.search({
          words: ['everybody'],
          roomId: null,
          owner: null,
          afterMs: 0,
          beforeMs: null,
          limit: 10,
        })
      ).messages,
    ).toHaveLength(1);
  });

  it('a second time with skip ends in the same state', async () => {
    const target = await open(`again-${engine}`, { engine, shards });
    await run(target, plain);
    const before = comparable(await linesOf(target));
    const report = await run(target, plain, { onConflict: 'skip' });
    expect(report.written).toBeLessThanOrEqual(1);
    expect(comparable(await linesOf(target))).toEqual(before);
    await expectHealthy(target);
  });

  it('continues an interrupted import', async () => {
    const target = await open(`resumed-${engine}`, { engine, shards });
    const lines = await linesOf(source);
    await run(target, await save(lines.slice(0, 9), 'cut.ndjson'), { keepGoing: true });
    await run(target, plain, { onConflict: 'skip' });
    expect(comparable(await linesOf(target))).toEqual(comparable(await linesOf(source)));
    await expectHealthy(target);
  });

  it('with new ids makes a second, consistent copy', async () => {
    const target = await open(`mapped-${engine}`, { engine, shards });
    const user = await save(await linesOf(source, { domains: ['workspaces'] }), 'workspaces.ndjson');
    await run(target, user, { ids: 'map' });
    const [original] = (await source.workspaces.listWorkspaces(ada)).items;
    const [copy] = (await target.workspaces.listWorkspaces(ada)).items;
    expect(copy).toMatchObject({ name: 'site', active_tasks: 2 });
    expect(copy?.id).not.toBe(original?.id);
    const [project] = (await target.workspaces.listProjects(ada, copy?.id as string)).items;
    const [session] = (await target.workspaces.listSessions(ada, project?.id as string)).items;
    const tasks = (await target.workspaces.listSessionTasks(ada, session?.id as string)).items;
    expect(tasks.map(({ command }) => command)).toEqual(['first', 'second', 'third']);
    expect(tasks[1]).toMatchObject({
      depends_on: [tasks[0]?.id],
      labels: ['gpu', 'ml'],
      run_at: '2100-01-01T00:00:00.000Z',
      retry: { base_seconds: 5, max_seconds: 50 },
    });
    expect(tasks[2]).toMatchObject({ question: 'Now?', answer: 'Yes', status: 'completed' });
    // The same file gets the same ids again.
    expect(await run(target, user, { ids: 'map' })).toMatchObject({ written: 0, conflicts_total: 0 });
    await expectHealthy(target);
  });
});

describe('conflicts', () => {
  let target: Stoa;
  let number = 0;

  beforeEach(async () => {
    number += 1;
    target = await open(`conflicts-${number}`);
  });

  afterEach(() => expectHealthy(target));

  it('are listed by a dry run, which writes nothing', async () => {
    await target.data.set(ada, 'notes', 'twice', 'mine');
    await target.workspaces.createWorkspace(ada, { name: 'site' });
    const before = await linesOf(target);
    const report = await run(target, plain, { dryRun: true });
    expect(report.conflicts.map(({ kind, type }) => `${type} ${kind}`).toSorted()).toEqual([
      'data.document exists',
      'registry.user exists',
      'workspaces.workspace name_taken',
    ]);
    expect(report.conflicts.every(({ line }) => line > 1)).toBe(true);
    expect(comparable(await linesOf(target))).toEqual(comparable(before));
  });

  it('include ids of another user, also in another shard, which keeps them', async () => {
    const shardsTarget = await open('ids-of-others', { engine: 'memory', shards: 4 });
    const { registry } = shardsTarget;
    const kernel = kernelOf(shardsTarget);
    const [agent] = (await source.registry.listAgents(ada)).items;
    const home = kernel.storeOf(userKey('ada'));
    const other = ['bob', 'cleo', 'dan', 'eve', 'fay'].find((name) => kernel.storeOf(userKey(name)) !== home);
    const agentId = agent?.agent_id ?? '';
    await registry.putAgent(operatorCaller(other), { agent_id: agentId, name: 'theirs' });
    const { conflicts } = await run(shardsTarget, plain, { dryRun: true });
    expect(conflicts.map(({ kind, type }) => `${type} ${kind}`)).toContain('registry.agent name_taken');
    await run(shardsTarget, plain, { onConflict: 'skip' });
    expect((await registry.getAgent(operatorCaller(), agentId)).name).toBe('theirs');
    await expectHealthy(shardsTarget);
  });

  it('stop an import before it writes anything, by default', async () => {
    await target.data.set(ada, 'notes', 'twice', 'mine');
    const before = comparable(await linesOf(target));
    await expect(run(target, plain)).rejects.toMatchObject({ code: 'conflict' });
    expect(comparable(await linesOf(target))).toEqual(before);
    await run(target, plain, { onConflict: 'skip' });
    expect(await target.data.get(ada, 'notes', 'twice')).toBe('mine');
    await run(target, plain, { onConflict: 'replace' });
    expect(await target.data.get(ada, 'notes', 'twice')).toBe(2);
    expect((await target.data.getEntry(ada, 'notes', 'twice'))?.version).toBe(2);
  });

  it('a replaced record loses neither its secret nor its counters', async () => {
    await run(target, whole);
    const [workspace] = (await target.workspaces.listWorkspaces(ada)).items;
    await target.workspaces.updateWorkspace(ada, workspace?.id as string, { name: 'renamed' });
    const report = await run(target, plain, { onConflict: 'replace' });
    expect(report.replaced).toBe(1);
    expect(await target.workspaces.getWorkspace(ada, workspace?.id as string)).toMatchObject({
      name: 'site',
      active_tasks: 2,
    });
    expect(await target.workspaces.revealWorkspaceKey(ada, workspace?.id as string)).toBe(secret);
  });

  it('a replaced identity can no longer be found by the key that it loses', async () => {
    await run(target, plain);
    const line = (await linesOf(target)).find((each) => each.includes('"messaging.identity"')) as string;
    const { id, publicKey } = JSON.parse(line) as { id: string; publicKey: string };
    const newPublicKey = randomBytes(32).toString('base64');
    await writtenPort(target.messaging).rotateKey({
      id,
      oldPublicKey: publicKey,
      newPublicKey,
      proof: {
        scheme: 'aicq',
        publicKey,
        signature: '',
        nonce: '',
        timestampMs: 0,
        request: { base64: '' },
      },
    });
    expect((await run(target, plain, { onConflict: 'replace' })).replaced).toBe(1);
    expect(await writtenPort(target.messaging).keys(id)).toMatchObject([{ publicKey }]);
    const register = { publicKey: newPublicKey, name: 'another', email: null, proven: true };
    expect((await writtenPort(target.messaging).register(register)).created).toBe(true);
  });

  it('a replaced direct message can no longer be found by its id', async () => {
    const lines = (await linesOf(source)).slice(0, -1);
    // Ids that hold another time than the message has: those are found through a row of an index.
    const withId = (id: string): string[] =>
      lines.map((line) =>
        line.includes('"messaging.direct"')
          ? `${JSON.stringify({ ...(JSON.parse(line) as object), id })}\n`
          : line,
      );
    await run(target, await save(withId('01ARZ3NDEKTSV4RRFFQ69G5FAV'), 'direct-first.ndjson'), {
      keepGoing: true,
    });
    const other = await save(withId('01BX5ZZKBKACTAV9WEVGEMMVRZ'), 'direct-other.ndjson');
    expect((await run(target, other, { onConflict: 'replace', keepGoing: true })).replaced).toBe(1);
  });

  it('a name in use skips the record and everything below it', async () => {
    await target.workspaces.createWorkspace(ada, { name: 'site' });
    const report = await run(target, plain, { onConflict: 'skip' });
    // The workspace, its project, its session and three tasks, beside the user that was there.
    expect(report.skipped).toBe(7);
  });

  it('the quota of agents is checked over the whole file, with the quota in the file', async () => {
    const lines = (await linesOf(source, { user: 'bob', domains: ['registry'] })).filter(
      (line) => !line.includes('stoa.end'),
    );
    const agent = JSON.parse(lines.find((line) => line.includes('registry.agent')) as string) as Record<
      string,
      unknown
    >;
    const many = Array.from(
      { length: 101 },
      (_, index) =>
        `${JSON.stringify({ ...agent, agent_id: randomBytes(32).toString('hex'), name: `n${index}` })}\n`,
    );
    const path = await save([...lines, ...many], 'quota.ndjson');
    const report = await run(target, path, { dryRun: true, keepGoing: true });
    expect(report.conflicts.map(({ kind }) => kind)).toEqual(['quota', 'quota']);
    const raised = lines.map((line) => line.replace('"agents_max":null', '"agents_max":110'));
    expect(
      (await run(target, await save([...raised, ...many], 'raised.ndjson'), { keepGoing: true })).written,
    ).toBe(103);
  });
});

describe('documents', () => {
  const ada = operatorCaller('ada');

  it('are checked against the limits of the target store, each line before anything is written', async () => {
    const generous = await open('generous', { limits: { dataKeyBytesMax: 1_200 } });
    await generous.data.setMany(ada, 'notes', { a: 1, ['k'.repeat(1_100)]: 1 });
    const lines = await linesOf(generous, { domains: ['data'] });
    expect(await run(generous, await save(lines))).toMatchObject({ bad_total: 0, same: 2 });
    const usual = await open('usual');
    await expect(run(usual, await save(lines))).rejects.toThrow('has 1,100 bytes, which exceeds 1,024');
    expect(comparable(await linesOf(usual))).toEqual([]);
    expect(await run(usual, await save(lines), { keepGoing: true })).toMatchObject({
      bad_total: 1,
      bad: [{ line: 3 }],
      written: 1,
    });
  });

  it('nested too deeply are bad lines, as for every other record', async () => {
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    const lines = await linesOf(source);
    const project = lines.findIndex((line) => line.includes('"type":"workspaces.project"'));
    const nested = lines
      .with(project, (lines[project] as string).replace('"config":{', `"config":{"deep":${deep},`))
      .toSpliced(1, 0, `{"type":"data.document","userId":"ada","namespace":"n","key":"k","value":${deep}}\n`);
    await expect(run(await open('deep'), await save(nested))).rejects.toMatchObject({
      code: 'invalid_request',
      details: { bad: [{ line: 2 }, { line: project + 2, reason: 'the line is nested too deeply' }] },
    });
  });

  it('beyond a quota are conflicts, counted over the file, and skipped on request', async () => {
    const many = await open('many');
    await many.data.setMany(
      ada,
      'notes',
      Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`k${index}`, index])),
    );
    const path = await save(await linesOf(many, { domains: ['data'] }), 'quota.ndjson');
    const small = await open('few', { limits: { dataDocumentsPerUserMax: 3 } });
    await small.data.set(ada, 'other', 'mine', 1);
    const before = comparable(await linesOf(small));
    expect(await run(small, path, { dryRun: true })).toMatchObject({
      conflicts_total: 3,
      conflicts: [{ kind: 'quota' }, { kind: 'quota' }, { kind: 'quota' }],
    });
    await expect(run(small, path)).rejects.toMatchObject({ code: 'conflict' });
    expect(comparable(await linesOf(small))).toEqual(before);
    expect(await run(small, path, { onConflict: 'skip' })).toMatchObject({ written: 2, skipped: 3 });
    expect((await small.data.listKeys(ada, 'notes')).items.map(({ key }) => key)).toEqual(['k0', 'k1']);
  });
});

describe('a damaged file', () => {
  let target: Stoa;
  let lines: string[];

  beforeAll(async () => {
    target = await open('strict');
    lines = await linesOf(source);
  });

  const attempt = async (given: readonly string[]) => run(target, await save(given));

  it.each([
    ['is cut off', (all: string[]) => all.slice(0, -1), 'its last line is missing'],
    ['lacks a line', (all: string[]) => all.toSpliced(4, 1), 'but'],
    [
      'has a changed line',
      (all: string[]) => all.map((line) => line.replace('hello everybody', 'hullo everybody')),
      'not the exported ones',
    ],
    [
      'has a line that is no JSON',
      (all: string[]) => all.with(3, '{"type":\n'),
      'Line 4: the line is not JSON',
    ],
    [
      'has an unknown type',
      (all: string[]) => all.with(3, '{"type":"registry.robot"}\n'),
      'Line 4: the type "registry.robot" is unknown',
    ],
    [
      'has an unknown member',
      (all: string[]) => all.with(1, (all[1] as string).replace('{', '{"extra":1,')),
      'Line 2: extra',
    ],
    ['has a record twice', (all: string[]) => all.toSpliced(2, 0, all[1] as string), 'is repeated'],
    ['has no header', (all: string[]) => all.slice(1), 'Line 1: the first line is not the header'],
    ['goes on after its end', (all: string[]) => [...all, all[1] as string], 'continues after the last line'],
    [
      'is of a newer version',
      (all: string[]) => all.with(0, (all[0] as string).replace('"version":1', '"version":2')),
      'version 2',
    ],
    ['is empty', () => [], 'empty'],
  ])('that %s is refused, and nothing is written', async (_what, change, reason) => {
    await expect(attempt(change(lines))).rejects.toThrow(reason);
    expect(comparable(await linesOf(target, { domains: ['registry', 'data', 'workspaces'] }))).toEqual([]);
  });

  it('a duplicate record is imported once with --keep-going', async () => {
    const report = await run(
      await open('twice'),
      await save([lines[0] as string, lines[1] as string, ...lines.slice(1)]),
      { keepGoing: true },
    );
    expect(report).toMatchObject({
      bad_total: 2,
      conflicts_total: 0,
      records: lines.length - 2,
      written: report.records - report.same,
    });
    expect(report.bad.map(({ reason }) => reason)).toContainEqual(expect.stringContaining('is repeated'));
  });

  it('a file of more records than are allowed is refused before anything is written', async () => {
    const small = await openStoa({
      data: join(directory, 'small'),
      limits: { importRecordsMax: 5 },
      sweepIntervalMs: 3_600_000,
    });
    opened.push(small);
    await expect(run(small, await save(lines, 'many.ndjson'), { keepGoing: true })).rejects.toMatchObject({
      code: 'too_large',
      details: { importRecordsMax: 5 },
    });
    expect(comparable(await linesOf(small))).toEqual([]);
  });

  it('a bad line is skipped with --keep-going', async () => {
    const report = await run(target, await save(lines.with(1, '{"type":\n')), { keepGoing: true });
    expect(report.bad_total).toBe(2);
    expect(report.bad[0]).toMatchObject({ line: 2 });
    expect(report.written).toBeGreaterThan(15);
  });
});
