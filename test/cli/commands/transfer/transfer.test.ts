import { readFile, stat, writeFile } from 'node:fs/promises';
import { beforeAll, expect, test } from 'vitest';
import { useCommands } from '../../command-host.js';
import type { RunningServer } from '../../program.js';

const { stoa, up, path } = useCommands();
let data: string;
let server: RunningServer;

beforeAll(async () => {
  data = path('data');
  server = await up(data);
  await stoa(['data', 'set', 'k', '{"a":1}', '--user', 'ada', '--data', data]);
  await stoa(['agents', 'create', 'scout', '--user', 'ada', '--data', data]);
  await writeFile(path('key'), 'sk-plain');
  await stoa(['workspaces', 'create', 'site', '--key-file', path('key'), '--user', 'ada', '--data', data]);
});

test('everything goes out through the server and into a closed directory, and again through a server', async () => {
  const file = path('all.ndjson');
  expect((await stoa(['export', file, '--data', data])).status).toBe(0);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const target = ['--data', path('closed')];
  expect((await stoa(['import', file, '--dry-run', '--json', ...target])).json()).toMatchObject({
    dry_run: true,
    conflicts_total: 0,
    written: 0,
  });
  const imported = (await stoa(['import', file, '--json', ...target])).json<{ written: number }>();
  expect(imported.written).toBeGreaterThan(3);
  expect((await stoa(['data', 'get', 'k', '--user', 'ada', '--json', ...target])).json()).toMatchObject({
    value: { a: 1 },
    version: 1,
  });
  expect((await stoa(['doctor', '--json', ...target])).json()).toMatchObject({ found: 0 });

  const other = await up(path('other'));
  const remote = ['--url', other.url, '--token', other.token];
  expect((await stoa(['import', file, '--json', ...remote])).json()).toMatchObject({
    written: imported.written,
  });
  await stoa(['data', 'set', 'k', '2', '--user', 'ada', ...remote]);
  const refused = await stoa(['import', file, '--json', ...remote]);
  expect(refused.status).toBe(5);
  expect(refused.error()).toMatchObject({ code: 'conflict' });
  expect((await stoa(['import', file, '--dry-run', ...remote])).stderr).toContain('exists: data.document');
  expect(
    (await stoa(['import', file, '--on-conflict', 'replace', '--json', ...remote])).json(),
  ).toMatchObject({ replaced: 1 });
});

test('secrets are in it only when asked for, with a warning', async () => {
  const plain = await stoa(['export', '--data', data]);
  expect(plain.stdout).not.toContain('sk-plain');
  expect(plain.stdout.trimEnd().split('\n').at(-1)).toContain('"stoa.end"');
  const withSecrets = await stoa([
    'export',
    '-',
    '--with-secrets',
    '--user',
    'ada',
    '--domains',
    'workspaces',
    '--data',
    data,
  ]);
  expect(withSecrets.stdout).toContain('sk-plain');
  expect(withSecrets.stderr).toContain('secrets as plain text');
});

test('a bad line is named and ends the command before anything is written', async () => {
  const { stdout } = await stoa(['export', '--data', data]);
  await writeFile(path('bad.ndjson'), stdout.replace('"registry.agent"', '"registry.robot"'));
  const ended = await stoa(['import', path('bad.ndjson'), '--data', path('bad')]);
  expect(ended.status).toBe(2);
  expect(ended.stderr).toMatch(/Line \d+: the type "registry.robot" is unknown/);
  expect((await stoa(['export', '--domains', 'data', '--data', path('bad')])).stdout).not.toContain(
    '"type":"data.document"',
  );
  expect((await stoa(['export', '--domains', 'nothing', '--data', data])).status).toBe(2);
});

test('the server reads lines of JSON as a stream on that route alone', async () => {
  const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/x-ndjson' };
  const elsewhere = await fetch(`${server.url}/v1/agents`, { method: 'POST', headers, body: '{}\n' });
  expect(elsewhere.status).toBe(415);
  const body = await readFile(path('all.ndjson'));
  const answer = await fetch(`${server.url}/v1/import?dry_run=true`, { method: 'POST', headers, body });
  expect(answer.status).toBe(200);
  expect(await answer.json()).toMatchObject({ dry_run: true, conflicts_total: 0 });
});
