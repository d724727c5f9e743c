import { kernelOf } from '../kernel-of.js';
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { Stoa } from '../../src/index.js';
import { ada, comparable, configSecret, linesOf, secret } from './kit.js';
import { expectHealthy, run, useExportedStore } from './exported-store.js';

const exported = useExportedStore();
const { open, save } = exported;

describe('an export', () => {
  it('begins with a header and ends with counts and a hash', async () => {
    const lines = (await readFile(exported.plain, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines[0]).toMatchObject({
      type: 'stoa.export',
      format: 'stoa-export',
      version: 1,
      store: kernelOf(exported.source).manifest.id,
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
    const { token } = await exported.source.identity.createToken(operatorCaller(), 'ada', {}, null);
    const [without, withThem] = [
      (await linesOf(exported.source)).join(''),
      (await linesOf(exported.source, { withSecrets: true })).join(''),
    ];
    for (const text of [secret, configSecret, '$2b$10$hash', 'enc:v1', token])
      expect(without).not.toContain(text);
    for (const text of [secret, configSecret, '$2b$10$hash']) expect(withThem).toContain(text);
    expect(withThem).not.toContain('enc:v1');
    expect(withThem).not.toContain(token);
  });

  it('contains no password of a repository, and an import stores none', async () => {
    const lines = (await linesOf(exported.source, { domains: ['workspaces'] })).map((line) =>
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
    const text = (await linesOf(exported.source, { user: 'bob' })).join('');
    expect(text).toContain('"other"');
    expect(text).not.toContain('"ada"');
    expect(text).not.toContain('messaging.');
    const documents = await linesOf(exported.source, { domains: ['data'] });
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
    const report = await run(target, exported.whole);
    expect(report).toMatchObject({ replaced: 0, skipped: 0, conflicts_total: 0, bad_total: 0 });
    expect(comparable(await linesOf(target, { withSecrets: true }))).toEqual(
      comparable(await linesOf(exported.source, { withSecrets: true })),
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
    await run(target, exported.plain);
    const before = comparable(await linesOf(target));
    const report = await run(target, exported.plain, { onConflict: 'skip' });
    expect(report.written).toBeLessThanOrEqual(1);
    expect(comparable(await linesOf(target))).toEqual(before);
    await expectHealthy(target);
  });

  it('continues an interrupted import', async () => {
    const target = await open(`resumed-${engine}`, { engine, shards });
    const lines = await linesOf(exported.source);
    await run(target, await save(lines.slice(0, 9), 'cut.ndjson'), { keepGoing: true });
    await run(target, exported.plain, { onConflict: 'skip' });
    expect(comparable(await linesOf(target))).toEqual(comparable(await linesOf(exported.source)));
    await expectHealthy(target);
  });

  it('with new ids makes a second, consistent copy', async () => {
    const target = await open(`mapped-${engine}`, { engine, shards });
    const user = await save(await linesOf(exported.source, { domains: ['workspaces'] }), 'workspaces.ndjson');
    await run(target, user, { ids: 'map' });
    const [original] = (await exported.source.workspaces.listWorkspaces(ada)).items;
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

describe('a damaged file', () => {
  let target: Stoa;
  let lines: string[];

  beforeAll(async () => {
    target = await open('strict');
    lines = await linesOf(exported.source);
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
    const small = await open('small', { limits: { importRecordsMax: 5 } });
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
