import { readFile, stat, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useCommands } from '../command-host.js';
import type { RunningServer } from '../program.js';

const { path, stoa, up } = useCommands();

interface Document {
  key: string;
  value: unknown;
  version: number;
  accessCount: number;
}

const data = (...args: string[]) => stoa(['data', ...args, '--data', path('served')]);

describe('stoa data against a running server', () => {
  let server: RunningServer;
  beforeAll(async () => {
    server = await up(path('served'));
  });
  afterAll(() => server.end('SIGTERM'));

  test('values go in as JSON or text and come out the same', async () => {
    expect((await data('set', 'greeting', 'hello there')).status).toBe(0);
    expect((await data('get', 'greeting')).stdout).toBe('"hello there"\n');
    expect((await data('get', 'greeting', '--raw')).stdout).toBe('hello there\n');
    await data(
      'set',
      'limits',
      '{"cpu": 2}',
      '-n',
      'settings',
      '--ttl',
      '1h',
      '--metadata',
      '{"by": "test"}',
      '--agent',
      'cli',
    );
    expect((await data('get', 'limits', '-n', 'settings', '--json')).json<Document>()).toMatchObject({
      value: { cpu: 2 },
      version: 1,
      metadata: { by: 'test' },
      createdByAgent: 'cli',
      updatedByAgent: 'cli',
    });
    await data('set', 'number', '5', '--text');
    expect((await data('get', 'number')).stdout).toBe('"5"\n');
    await writeFile(path('value.json'), '[1, null, "é"]');
    await data('set', 'from/file', '--file', path('value.json'));
    expect((await data('get', 'from/file', '--json')).json<Document>().value).toEqual([1, null, 'é']);
    const piped = await stoa(['data', 'set', 'from/stdin', '--file', '-', '--data', path('served')], {
      input: '{"lines": ["a", "😀"]}',
    });
    expect(piped.status).toBe(0);
    expect((await data('get', 'from/stdin')).json()).toEqual({ lines: ['a', '😀'] });
    await stoa(['data', 'set', 'from/stdin', '-', '--data', path('served')], { input: '{"lines": 3}' });
    await stoa(['data', 'patch', 'from/stdin', '-', '--data', path('served')], { input: '{"more": 4}' });
    expect((await data('get', 'from/stdin')).json()).toEqual({ lines: 3, more: 4 });
    expect(
      (await stoa(['data', 'set', 'from/stdin', '-', '--data', path('served')], { input: '{' })).stderr,
    ).toContain('Standard input is not JSON');
    expect(
      (
        await stoa(['data', 'set', 'from/stdin', '--file', '-', '--text', '--data', path('served')], {
          input: '{',
        })
      ).status,
    ).toBe(0);
    expect((await data('get', 'from/stdin', '--raw')).stdout).toBe('{\n');
  });

  test('versions, missing keys and mistakes have their exit statuses', async () => {
    expect((await data('set', 'once', '1', '--if-version', '0')).status).toBe(0);
    expect((await data('set', 'once', '2', '--if-version', '0', '--json')).error().code).toBe(
      'version_conflict',
    );
    expect((await data('set', 'once', '2', '--if-version', '9')).status).toBe(5);
    expect((await data('rm', 'once', '--if-version', '1')).status).toBe(0);
    expect((await data('rm', 'once')).status).toBe(4);
    expect((await data('get', 'once')).status).toBe(4);
    expect((await data('set', 'novalue')).status).toBe(2);
    expect((await data('clear', '-n', 'scratch')).status).toBe(2);
  });

  test('lists, counters, clearing', async () => {
    for (const key of ['b', 'a', 'c/d']) await data('set', key, '1', '-n', 'list');
    expect(
      (await data('ls', '-n', 'list', '--json')).json<{ items: Document[] }>().items.map(({ key }) => key),
    ).toEqual(['a', 'b', 'c/d']);
    expect(
      (await data('ls', 'c', '-n', 'list', '--values', '--json'))
        .json<{ items: Document[] }>()
        .items.map(({ value }) => value),
    ).toEqual([1]);
    expect((await data('increment', 'a', '4', '-n', 'list')).stdout).toBe('5\n');
    expect((await data('append', 'log', 'one', '2', '-n', 'list')).stdout).toBe('["one",2]\n');
    expect((await data('append', 'log', 'three', '-n', 'list', '--if-version', '7')).status).toBe(5);
    await data(
      'set',
      'box',
      '{"a": 1, "b": {"c": 2, "d": 3}}',
      '-n',
      'patched',
      '--expires-at',
      '2099-01-01T00:00:00Z',
    );
    expect(
      (await data('patch', 'box', '{"a": null, "b": {"c": 4}}', '-n', 'patched', '--if-version', '1')).stdout,
    ).toBe('{"b":{"c":4,"d":3}}\n');
    expect((await data('patch', 'box', '{"a": 2}', '-n', 'patched', '--if-version', '1')).status).toBe(5);
    expect((await data('get', 'box', '-n', 'patched', '--json')).json()).toMatchObject({
      value: { b: { c: 4, d: 3 } },
      version: 2,
      expiresAt: '2099-01-01T00:00:00.000Z',
    });
    expect((await data('set', 'box', '1', '-n', 'patched', '--expires-at', 'tomorrow')).status).toBe(2);
    expect(
      (await data('namespaces', '--json')).json<{ items: { namespace: string; count: number }[] }>().items,
    ).toContainEqual(expect.objectContaining({ namespace: 'list', count: 4 }));
    expect((await data('clear', '-n', 'list', '--yes', '--json')).json()).toEqual({ deleted: 4 });
  });

  test('an export is readable by its owner only, and a path that cannot be written or read is named', async () => {
    const source = path('served');
    await stoa(['data', 'set', 'k', '1', '--data', source]);
    expect((await stoa(['export', '--documents', path('owned.ndjson'), '--data', source])).status).toBe(0);
    expect((await stat(path('owned.ndjson'))).mode & 0o777).toBe(0o600);
    const nowhere = path('missing/file.ndjson');
    for (const command of [['export', '--documents'], ['export']]) {
      expect(await stoa([...command, nowhere, '--data', source, '--json'])).toMatchObject({
        status: 2,
        stderr: expect.stringContaining(`${nowhere} cannot be written`) as string,
      });
    }
    expect(
      (await stoa(['export', '--documents', '--domains', 'data', '--data', source, '--json'])).error(),
    ).toMatchObject({ detail: '--domains cannot be used with --documents.' });
    expect(await stoa(['import', '--documents', source, '--data', source, '--json'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('cannot be read') as string,
    });
  });

  test('several values are stored and read in one step', async () => {
    await data('set', 'first', '1');
    const stored = await data('set-many', '{"a": 1, "b": {"c": [2]}}', '-n', 'notes');
    expect(stored.stderr).toContain('Stored 2 documents.');
    const read = await data('get-many', 'b', 'a', 'gone', '-n', 'notes', '--json');
    expect(read.json()).toEqual({ a: 1, b: { c: [2] } });
    const refused = await data('set-many', '[1]');
    expect([refused.status, refused.stderr]).toEqual([2, expect.stringContaining('is not a JSON object')]);
  });
});

test('all reads are counted when the server stops', async () => {
  const server = await up(path('counted'));
  await stoa(['data', 'set', 'k', '1', '--data', path('counted')]);
  const headers = { authorization: `Bearer ${server.token}`, 'stoa-agent': 'reader' };
  await Promise.all(
    Array.from({ length: 40 }, async () =>
      (await fetch(`${server.url}/v1/data/default/k`, { headers })).json(),
    ),
  );
  expect(await server.end('SIGTERM')).toBe(0);
  expect(
    (await stoa(['data', 'get', 'k', '--data', path('counted'), '--json'])).json<Document>(),
  ).toMatchObject({ accessCount: 40, lastAccessedByAgent: 'reader', version: 1 });
});

test('an export can be imported exactly, and bad lines refuse the whole import', async () => {
  const [one, two] = [path('export-one'), path('export-two')];
  await stoa(['data', 'set', 'k', '{"a": null}', '--data', one, '--user', 'ada', '--agent', 'x']);
  await stoa(['data', 'get', 'k', '--data', one, '--user', 'ada', '--agent', 'y']);
  await stoa(['data', 'set', 'other', '1', '--data', one, '--user', 'bob']);
  const exported = await stoa(['export', '--documents', path('all.ndjson'), '--data', one]);
  expect([exported.status, exported.stderr]).toEqual([0, expect.stringContaining('Exported 2 documents')]);
  const text = await readFile(path('all.ndjson'), 'utf8');
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.find(({ userId }) => userId === 'ada')).toMatchObject({
    _id: 'ada:default:aw==',
    value: { a: null },
    createdByAgent: 'x',
    lastAccessedByAgent: 'y',
    accessCount: 1,
  });

  await writeFile(path('bad.ndjson'), `${text}{"userId": "ada"}\nnot json\n{"_id":"_design/x"}\n\n`);
  const refused = await stoa(['import', '--documents', path('bad.ndjson'), '--data', two]);
  expect(refused.status).toBe(2);
  expect(refused.stderr).toMatch(/Line 3: .*"namespace" is missing|Line 3: .*missing/);
  expect(refused.stderr).toContain('Line 4: the line is not JSON');
  expect((await stoa(['export', '--documents', '--data', two])).stdout).toBe('');
  const kept = await stoa([
    'import',
    '--documents',
    path('bad.ndjson'),
    '--keep-going',
    '--data',
    two,
    '--json',
  ]);
  expect([kept.status, kept.json()]).toEqual([1, { imported: 2, lines: 4, bad: 2, firstBad: 3, skipped: 2 }]);
  expect((await stoa(['export', '--documents', '--data', two])).stdout.split('\n').toSorted()).toEqual(
    text.split('\n').toSorted(),
  );

  const piped = await stoa(['import', '--documents', '-', '--data', path('export-three'), '--json'], {
    input: text,
  });
  expect([piped.status, piped.json()]).toMatchObject([0, { imported: 2 }]);
  expect(
    (await stoa(['export', '--documents', '--data', path('export-three')])).stdout.split('\n').toSorted(),
  ).toEqual(text.split('\n').toSorted());
});

test('lines of an import end with a line feed and are UTF-8', async () => {
  const line =
    '{"userId":"u","namespace":"n","key":"one","value":"a\u2028b","createdAt":"2026-02-05T10:00:00Z"}';
  await writeFile(
    path('bytes.ndjson'),
    Buffer.concat([
      Buffer.from(`${line}\r\n \r\n${line}`),
      Buffer.from([0xff, 0x0a]),
      Buffer.from(line.replace('a\u2028b', '\u00ff'), 'latin1'),
    ]),
  );
  const kept = await stoa([
    'import',
    '--documents',
    path('bytes.ndjson'),
    '--keep-going',
    '--data',
    path('bytes'),
    '--json',
  ]);
  expect([kept.json(), kept.stderr]).toEqual([
    { imported: 1, lines: 3, bad: 2, firstBad: 3, skipped: 1 },
    expect.stringMatching(/Line 3: the line is not UTF-8[\s\S]*Line 4: the line is not UTF-8/),
  ]);
  expect((await stoa(['data', 'get', 'one', '-n', 'n', '--user', 'u', '--data', path('bytes')])).stdout).toBe(
    '"a\\u2028b"\n',
  );
});

test('a line that the server refuses refuses the whole import', async () => {
  const target = path('refused-there');
  // The first 500 are a separate request. This name is refused, and ada cannot write for bob.
  const lines = Array.from(
    { length: 601 },
    (_, index) =>
      `{"userId":"${index < 600 ? 'ada' : 'bob'}","namespace":"n","key":"k${index}","createdAt":"2026-02-05T10:00:00Z","value":${index === 550 ? '{"__proto__":1}' : '1'}}`,
  );
  await writeFile(path('late.ndjson'), lines.join('\n'));
  const refused = await stoa([
    'import',
    '--documents',
    path('late.ndjson'),
    '--data',
    target,
    '--user',
    'ada',
  ]);
  expect([refused.status, refused.stderr]).toEqual([
    2,
    expect.stringMatching(
      /Line 551: .*__proto__[\s\S]*Line 601: .*"bob"[\s\S]*2 of 601 lines cannot be imported \(the first is line 551\); nothing was written/,
    ),
  ]);
  expect((await stoa(['export', '--documents', '--data', target])).stdout).toBe('');
  const checked = await stoa([
    'import',
    '--documents',
    path('late.ndjson'),
    '--dry-run',
    '--keep-going',
    '--data',
    target,
    '--user',
    'ada',
    '--json',
  ]);
  expect(checked.json()).toEqual({ imported: 0, lines: 601, bad: 2, firstBad: 551, skipped: 0 });
  const kept = await stoa([
    'import',
    '--documents',
    path('late.ndjson'),
    '--keep-going',
    '--data',
    target,
    '--user',
    'ada',
    '--json',
  ]);
  expect([kept.status, kept.json()]).toEqual([
    1,
    { imported: 599, lines: 601, bad: 2, firstBad: 551, skipped: 0 },
  ]);
});
