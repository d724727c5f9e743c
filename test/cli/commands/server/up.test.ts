import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { mkdir, readFile, readdir, stat, watch, writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { builtProgram, sharedHome } from '../../../servers/shared.js';
import { startSilentServer } from '../../../servers/silent.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { useProgram } from '../../program.js';

const { stoa, up, follow, path } = useProgram();

describe('a server', () => {
  test('prints its address, data, token and a working curl command, and survives the end of its reader', async () => {
    const data = path('greeting');
    const child = spawn(process.execPath, [await builtProgram(), 'up', '--data', data, '--port', '0'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stderr = '';
    for await (const chunk of child.stderr) {
      stderr += String(chunk);
      if (stderr.includes('try it') && stderr.endsWith('\n')) break;
    }
    expect(stderr).toContain(data);
    // This output is not a terminal: a log must not have a link that signs in.
    expect(stderr).toContain('make a sign-in link with: stoa console');
    expect((await stat(`${data}/operator.token`)).mode & 0o777).toBe(0o600);
    const command = /try it +(.*)/.exec(stderr)?.[1] ?? '';
    const curl = spawn('bash', ['-c', command], { stdio: ['ignore', 'pipe', 'ignore'] });
    let answer = '';
    for await (const chunk of curl.stdout) answer += String(chunk);
    expect(JSON.parse(answer)).toMatchObject({ engine: 'lmdb', writes: 'ok' });
    child.kill('SIGTERM');
    const [status] = (await once(child, 'exit')) as [number];
    expect(status).toBe(0);
  });

  test('in memory prints its token with --json', async () => {
    const server = follow(['up', '--engine', 'memory', '--port', '0', '--json']);
    await expect.poll(() => server.lines().length).toBe(1);
    const [{ url, operator_token: token } = {}] = server.lines<{ url?: string; operator_token?: string }>();
    expect((await fetch(`${url}/v1/status`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(
      200,
    );
    expect(await server.end()).toBe(0);
  });

  test('that is killed loses no acknowledged write, and starts again', async () => {
    const data = path('killed');
    const first = await up(data);
    const created = (
      await stoa(['agents', 'create', 'scout', '--user', 'ada', '--data', data, '--json'])
    ).json<{ agent_id: string }>();
    expect(await first.end('SIGKILL')).toBeNull();
    const second = await up(data);
    const found = (await stoa(['agents', 'get', created.agent_id, '--data', data, '--json'])).json<{
      name: string;
    }>();
    expect(found.name).toBe('scout');
    expect(await second.end('SIGTERM')).toBe(0);
  });

  test('is used by other commands on the same directory; without it they give the same answers', async () => {
    const data = path('shared');
    const server = await up(data);
    await stoa(['agents', 'create', 'one', '--user', 'ada', '--data', data]);
    const through = await stoa(['agents', 'ls', '--data', data, '--json']);
    const status = await stoa(['status', '--data', data]);
    expect(status.stdout).toContain(server.url);
    expect(await server.end('SIGINT')).toBe(0);
    const alone = await stoa(['agents', 'ls', '--data', data, '--json']);
    expect(alone.json()).toEqual(through.json());
    expect((await stoa(['status', '--data', data])).stdout).toContain('no server runs');
  });

  test('waits no longer than its limit for a request that does not end', async () => {
    const server = await up(path('hanging'), [], { STOA_LIMIT_STOP_SECONDS_MAX: '1' });
    const { hostname, port } = new URL(server.url);
    const socket = createConnection({ host: hostname, port: Number(port) });
    await once(socket, 'connect');
    socket.write(
      `PUT /v1/data/notes/one HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${server.token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
    );
    // Answered after the request above has been read, so that it is running when the stop comes.
    await fetch(`${server.url}/livez`);
    const cut = once(
      socket.on('error', () => undefined),
      'close',
    );
    const startedMs = Date.now();
    expect(await server.end('SIGTERM')).toBe(0);
    await cut;
    // The limit that was set, and not the default of thirty seconds.
    const tookMs = Date.now() - startedMs;
    expect(tookMs).toBeGreaterThanOrEqual(1_000);
    expect(tookMs).toBeLessThan(25_000);
  });

  test('serves its pages from the built program, each with what it loads, and refuses as the sources do', async () => {
    const server = await up(path('pages'));
    const pages = [
      '/',
      '/page/page.js',
      '/page/page.css',
      '/docs',
      '/docs/openapi.yaml',
      '/reference',
      '/reference/reference.js',
      '/reference/reference.css',
      '/openapi.json',
    ];
    const statuses = await Promise.all(
      pages.map(async (page) => [page, (await fetch(server.url + page)).status]),
    );
    expect(statuses).toEqual(pages.map((page) => [page, 200]));
    // A bundler may leave out a call that is made for its refusal alone.
    const refusal = (await (await fetch(`${server.url}/who/%ff`)).json()) as { error: string };
    expect(refusal.error).toContain('the segment "%ff" is not percent-encoded UTF-8');
    await server.end('SIGTERM');
  });

  test('on PostgreSQL and Redis has no state of its own: another server continues', async () => {
    const { args, environment } = await sharedHome();
    const server = await up(path('postgres'), args, environment);
    const headers = {
      authorization: `Bearer ${server.token}`,
      'content-type': 'application/json',
      'stoa-user': 'ada',
    };
    expect(
      (
        await fetch(`${server.url}/v1/data/notes/plan`, {
          method: 'PUT',
          headers,
          body: '{"value":"kept in PostgreSQL"}',
        })
      ).status,
    ).toBe(201);
    expect(
      (await fetch(`${server.url}/v1/workspaces`, { method: 'POST', headers, body: '{"name":"home"}' }))
        .status,
    ).toBe(201);
    await server.end('SIGTERM');
    await expect(stat(path('postgres'))).rejects.toMatchObject({ code: 'ENOENT' });
    const again = await up(path('another directory'), args, environment);
    const read = async (what: string) =>
      (
        await fetch(again.url + what, {
          headers: { authorization: `Bearer ${again.token}`, 'stoa-user': 'ada' },
        })
      ).json();
    expect(await read('/v1/data/notes/plan')).toMatchObject({ value: 'kept in PostgreSQL' });
    expect(await read('/v1/workspaces')).toMatchObject({ items: [{ name: 'home' }] });
    await again.end('SIGTERM');
  });

  test('a server waits for a running command that has the directory, but not for another server', async () => {
    const own = path('busy');
    const kernel = await openKernel({ dataDir: own, families: directoryFamilies, limits: limitsWith() });
    const refused = triedTwice(own);
    const starting = up(own);
    await refused;
    await kernel.close();
    const server = await starting;
    const second = await stoa(['up', '--data', own, '--port', '0', '--json']);
    expect(second).toMatchObject({ status: 5 });
    expect(second.error().code).toBe('locked');
    expect(await server.end('SIGTERM')).toBe(0);
  });

  test('refuses a directory that another one owns, and names the owner', async () => {
    const data = path('owned');
    const server = await up(data);
    const refused = await stoa(['up', '--data', data, '--port', '0', '--json']);
    expect(refused.status).toBe(5);
    expect(refused.error().code).toBe('locked');
    expect(refused.error().detail).toContain(String(server.pid));
    await server.end('SIGTERM');
  });
});

describe('what cannot start says why and what to do', () => {
  test('a port in use', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
    const refused = await stoa(['up', '--data', path('port'), '--port', String(port), '--json']);
    taken.close();
    expect(refused.status).toBe(2);
    expect(refused.error().detail).toContain(`Port ${port}`);
    expect(refused.error().fix).toContain('--port');
  });

  test('a data directory that is a file', async () => {
    await writeFile(path('file'), '');
    const refused = await stoa(['up', '--data', path('file'), '--json']);
    expect(refused.status).toBe(2);
    expect(refused.error().fix).toContain('--data');
  });

  test('a damaged database', async () => {
    const data = path('damaged');
    await stoa(['agents', 'create', 'first', '--data', data]);
    const directory = `${data}/shard-00/db`;
    for (const name of await readdir(directory)) {
      if (/lock/.test(name)) continue;
      const file = `${directory}/${name}`;
      if ((await stat(file)).isFile()) await writeFile(file, Buffer.alloc(8192, 0x5a));
    }
    const refused = await stoa(['up', '--data', data, '--port', '0', '--json']);
    expect(refused.status).toBe(1);
    expect(['damaged_data', 'engine']).toContain(refused.error().code);
    expect(refused.error().fix).toBeDefined();
  });

  test('invalid TLS files', async () => {
    await writeFile(path('no.pem'), 'not a certificate');
    const refused = await stoa([
      'up',
      '--data',
      path('tls'),
      '--tls-cert',
      path('no.pem'),
      '--tls-key',
      path('no.pem'),
      '--json',
    ]);
    expect(refused.status).toBe(2);
    expect(refused.error()).toMatchObject({
      code: 'invalid_config',
      detail: expect.stringContaining(path('no.pem')),
      fix: expect.stringContaining('PEM'),
    });
  });

  test('a database server that accepts connections and never answers', async () => {
    const silent = await startSilentServer();
    const environment = {
      FIRESTORE_EMULATOR_HOST: silent.address,
      STOA_LIMIT_BACKEND_REQUEST_SECONDS_MAX: '1',
    };
    const refused = await stoa(
      ['up', '--data', path('silent'), '--datastore', 'firestore://nowhere', '--json'],
      { environment, cwd: import.meta.dirname },
    );
    expect(refused.status).toBe(6);
    expect(refused.error().code).toBe('backend_unavailable');
    await silent.stop();
  });

  test('a damaged manifest', async () => {
    const data = path('manifest');
    await mkdir(data);
    await writeFile(`${data}/stoa.json`, '{');
    const refused = await stoa(['up', '--data', data, '--json']);
    expect(refused.status).toBe(1);
    expect(refused.error()).toMatchObject({ code: 'damaged_data', fix: expect.stringContaining('restore') });
  });

  test.each([
    [['up', '--port', '99999'], 'port'],
    [['up', '--port', 'x'], 'port'],
    [['up', '--engine', 'bolt'], 'lmdb'],
    [['up', '--host', '0.0.0.0'], '0.0.0.0'],
    [['up', '--postgres', 'mysql://x'], 'mysql'],
    [['up', '--prot', '1'], '--port'],
    [['ups'], 'up'],
    [['up', 'extra'], 'argument'],
  ])('%j', async (args, named) => {
    const refused = await stoa([...args, '--json']);
    expect(refused.status).toBe(2);
    expect(refused.error().detail).toContain(named);
    expect(refused.stdout).toBe('');
  });

  test('an unknown key in the file and an unknown variable', async () => {
    const cwd = path('config');
    await mkdir(cwd);
    await writeFile(`${cwd}/stoa.config.json`, JSON.stringify({ prot: 1 }));
    const fromFile = await stoa(['up', '--json'], { cwd });
    expect(fromFile).toMatchObject({ status: 2 });
    expect(fromFile.error().detail).toContain('Did you mean "port"?');
    const fromVariable = await stoa(['status', '--json'], { environment: { STOA_DATE: 'x' } });
    expect(fromVariable).toMatchObject({ status: 2 });
    expect(fromVariable.error().detail).toContain('Did you mean "STOA_DATA"?');
  });
});

test('the server warns at start when sync_writes is off', async () => {
  const server = await up(path('unsynced'), ['--sync-writes', 'false']);
  await expect.poll(() => server.stderr()).toContain('can lose writes');
  await server.end('SIGTERM');
});

test('stoa down stops the server of a directory, and says that none runs', async () => {
  const data = path('downed');
  const server = await up(data);
  const down = await stoa(['down', '--data', data, '--json']);
  expect([down.status, down.json()]).toEqual([0, { stopped: server.pid }]);
  await expect(fetch(`${server.url}/livez`)).rejects.toThrow('fetch failed');
  const again = await stoa(['down', '--data', data]);
  expect([again.status, again.stderr]).toEqual([0, `No server runs on ${data}.\n`]);
  expect((await stoa(['down', '--url', server.url])).status).toBe(2);
});

test('the operator token stays the same over restarts', async () => {
  const data = path('token');
  const first = await up(data);
  await first.end('SIGTERM');
  const second = await up(data);
  expect(second.token).toBe(first.token);
  expect(await readFile(`${data}/operator.token`, 'utf8')).toContain(first.token);
  await second.end('SIGTERM');
});

/** Resolves when a program tries again to take the lock of a directory: it was refused before. */
async function triedTwice(directory: string): Promise<void> {
  const drafts = new Set<string>();
  for await (const { filename } of watch(directory)) {
    if (filename?.startsWith('stoa.lock.draft-') === true) drafts.add(filename);
    if (drafts.size > 1) return;
  }
}
