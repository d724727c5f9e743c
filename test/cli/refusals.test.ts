/** What a wrong command, a wrong token or a wrong version is answered with. */
import { describe, expect, test } from 'vitest';
import { clientVariables } from '../../src/core/settings/config.js';
import { type Agent, useServedProgram } from './served.js';

const { stoa, data, server, run, json } = useServedProgram();

describe('exit statuses follow the error', () => {
  test('2 for usage, 3 for credentials, 4 for not found, 5 for a conflict, 6 for no server', async () => {
    const { agent_id: id, version } = await json<Agent>('agents', 'create', 'exits', '--user', 'eve');
    expect((await run('agents', 'get')).status).toBe(2);
    expect((await run('agents', 'get', 'zz', '--user', 'eve')).status).toBe(4);
    expect((await run('agents', 'ls', '--limit', 'many')).status).toBe(2);
    expect((await stoa(['status', '--url', server().url, '--token', 'wrong'])).status).toBe(3);
    expect((await run('agents', 'get', '0'.repeat(64), '--user', 'eve')).status).toBe(4);
    expect((await run('agents', 'wake', id, '--user', 'eve')).status).toBe(5);
    expect(
      (await run('agents', 'update', id, '--name', 'x', '--if-version', String(version + 7), '--user', 'eve'))
        .status,
    ).toBe(5);
    expect((await stoa(['status', '--url', 'http://127.0.0.1:9', '--json'])).status).toBe(6);
  });
});

test.each([
  [['data', 'watch', 'src/'], 'stoa watch data'],
  [['data', 'export'], 'stoa export'],
  [['agents', 'restore', 'backups'], 'stoa restore'],
])('an unknown command %j is answered with the one that has its words: %s', async (words, meant) => {
  const { status, stderr } = await stoa(words);
  expect([status, stderr]).toEqual([2, expect.stringContaining(`Use "${meant}"`)]);
  // What is only spelled alike ("patch" for "watch") is not suggested beside it.
  expect(stderr).not.toContain('Did you mean');
  expect((await stoa([...words, '--json'])).error().fix).toContain(`Use "${meant}"`);
});

test('an unknown command without one clear suggestion is refused', async () => {
  expect((await stoa(['secrets', 'create', '--json'])).error().fix).toContain('--help');
  expect((await stoa(['exprot'])).stderr).toContain('Unknown command "exprot". Did you mean "export"?');
  expect((await stoa(['tasks', 'add', 'shop'])).stderr).toContain('The argument <command> is missing.');
});

test('an empty variable counts as not set', async () => {
  const environment = Object.fromEntries(clientVariables.map((name) => [name, '']));
  const listed = await stoa(['users', 'ls', '--data', data(), '--json'], { environment });
  expect(listed.status, listed.stderr).toBe(0);
});
