/** The server on a full disk, with its log on the same disk; and with a log pipe without a reader. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type SmallDisk, mountSmallDisk } from '../homes/directory/kernel/small-disk.js';
import { builtProgram } from '../servers/shared.js';

interface Answer {
  status: number;
  text: string;
}

class Server {
  readonly child: ChildProcess;
  readonly #url: string;
  readonly #token: string;

  private constructor(child: ChildProcess, url: string, token: string) {
    this.child = child;
    this.#url = url;
    this.#token = token;
  }

  /** `stderr` is a file descriptor, or a pipe without a reader. */
  static async start(data: string, stderr: number | 'pipe', flags: readonly string[]): Promise<Server> {
    const args = ['up', '--json', '--port', '0', '--data', data, '--log-level', 'debug', ...flags];
    const child = spawn(process.execPath, [await builtProgram(), ...args], {
      stdio: ['ignore', 'pipe', stderr],
    });
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
    const { url } = JSON.parse(line.toString()) as { url: string };
    return new Server(child, url, readFileSync(join(data, 'operator.token'), 'utf8').trim());
  }

  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await fetch(this.#url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#token}`,
        'stoa-user': 'ada',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000),
    });
    return { status: answer.status, text: await answer.text() };
  }

  put(key: string): Promise<Answer> {
    return this.ask('PUT', `/v1/data/notes/${key}`, { value: 'x'.repeat(200) });
  }

  /** Many requests on one connection, without waiting in between; answers how many were answered. */
  async flood(requests: number): Promise<number> {
    const { hostname, port } = new URL(this.#url);
    const socket = connect(Number(port), hostname);
    socket.write(`GET /livez HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`.repeat(requests - 1));
    socket.write(`GET /livez HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n\r\n`);
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    return text.split('HTTP/1.1 200').length - 1;
  }

  async droppedLines(): Promise<number> {
    const { text } = await this.ask('GET', '/metrics');
    return Number(/^stoa_log_lines_dropped_total (\d+)/m.exec(text)?.[1]);
  }

  async end(): Promise<number | null> {
    this.child.kill('SIGTERM');
    const [status] = (await once(this.child, 'exit')) as [number | null];
    return status;
  }
}

describe.each(['lmdb', 'rocksdb'] as const)('%s on a full disk', (engine) => {
  let disk: SmallDisk;
  let server: Server | undefined;
  beforeEach(() => {
    disk = mountSmallDisk(64);
  });
  afterEach(() => {
    server?.child.kill('SIGKILL');
    disk.unmount();
  });

  it('reports failing writes, keeps serving reads, and recovers when there is space', async () => {
    const log = join(disk.path, 'stoa.log');
    server = await Server.start(join(disk.path, 'data'), openSync(log, 'a'), ['--engine', engine]);
    const { child } = server;
    expect((await server.put('before')).status).toBeLessThan(300);
    expect((await server.ask('GET', '/readyz')).status).toBe(200);

    disk.fill();
    // Also before anybody writes.
    await expect
      .poll(() => server?.ask('GET', '/readyz'), { timeout: 5_000 })
      .toEqual({ status: 503, text: '{"status":"disk_full"}' });
    for (let round = 0; round < 20; round += 1) {
      const refused = await server.put(`full-${round}`);
      expect([refused.status, JSON.parse(refused.text)]).toEqual([
        503,
        expect.objectContaining({ code: 'disk_full', fix: expect.stringContaining('without a restart') }),
      ]);
    }
    expect(JSON.parse((await server.ask('GET', '/v1/status')).text)).toMatchObject({ writes: 'disk_full' });
    expect((await server.ask('GET', '/health')).status).toBe(503);
    expect((await server.ask('GET', '/livez')).status).toBe(200);
    expect((await server.ask('GET', '/v1/data/notes/before')).text).toContain('xxx');
    expect((await server.ask('GET', '/metrics')).text).toMatch(/^stoa_disk_full 1$/m);
    const dropped = await server.droppedLines();
    expect(dropped).toBeGreaterThan(10);

    disk.free();
    await expect
      .poll(async () => (await server?.ask('GET', '/readyz'))?.status, { timeout: 10_000 })
      .toBe(200);
    expect((await server.put('after')).status).toBeLessThan(300);
    expect(JSON.parse((await server.ask('GET', '/v1/status')).text)).toMatchObject({ writes: 'ok' });
    expect((await server.ask('GET', '/v1/data/notes/full-0')).status).toBe(404);
    expect(child.exitCode).toBe(null);
    expect(await server.end()).toBe(0);
    expect(readFileSync(log, 'utf8')).toMatch(/"dropped":\d+/);

    server = await Server.start(join(disk.path, 'data'), openSync(log, 'a'), []);
    for (const key of ['before', 'after'])
      expect((await server.ask('GET', `/v1/data/notes/${key}`)).status).toBe(200);
    expect(await server.end()).toBe(0);
  });
});

describe('a disk that the data of Stoa has filled', () => {
  let disk: SmallDisk;
  let server: Server | undefined;
  beforeEach(() => {
    disk = mountSmallDisk(192);
  });
  afterEach(() => {
    server?.child.kill('SIGKILL');
    disk.unmount();
  });

  it('can be emptied by deleting data, and then takes new data without a restart', async () => {
    server = await Server.start(join(disk.path, 'data'), 'pipe', ['--engine', 'lmdb']);
    const put = async (namespace: string, key: number) =>
      server?.ask('PUT', `/v1/data/${namespace}/${key}`, { value: `${key} ${'x'.repeat(900_000)}` });
    expect((await server.ask('PUT', '/v1/data/kept/a', { value: 'small' })).status).toBeLessThan(300);
    let stored = 0;
    for (let status = 201; status < 300; stored += 1) status = (await put('large', stored))?.status ?? 0;
    expect(stored).toBeGreaterThan(20);
    // Callers that go on writing do not keep a deletion from its turn.
    const writers = Promise.all(Array.from({ length: 8 }, (_, index) => put('more', index)));
    expect(await server.ask('DELETE', '/v1/data/kept/a')).toMatchObject({ status: 204 });
    const cleared = await server.ask('DELETE', '/v1/data/large');
    expect([cleared.status, JSON.parse(cleared.text)]).toEqual([200, { deleted: stored - 1 }]);
    await writers;
    await expect
      .poll(async () => (await server?.ask('GET', '/readyz'))?.status, { timeout: 10_000 })
      .toBe(200);
    for (let key = 0; key < 5; key += 1) expect((await put('again', key))?.status).toBeLessThan(300);
    expect((await server.ask('GET', '/v1/data/again/4')).text).toContain('4 xxx');
    expect(await server.end()).toBe(0);
  });
});

describe('a log without a reader', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-unread-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it.each(['a named pipe', 'a socket'] as const)(
    'blocks neither the server nor its stop, and dropped lines are counted: %s',
    { timeout: 60_000 },
    async (kind) => {
      const pipe = join(directory, 'pipe');
      execFileSync('mkfifo', [pipe]);
      // Opened for reading too, so that it is open at all; nothing reads it.
      const stderr = kind === 'a socket' ? 'pipe' : openSync(pipe, constants.O_RDWR);
      const server = await Server.start(join(directory, 'data'), stderr, []);
      for (let round = 0; round < 5; round += 1) expect(await server.flood(800)).toBe(800);
      expect(await server.droppedLines()).toBeGreaterThan(0);
      expect(await server.end()).toBe(0);
    },
  );

  it('may be closed', async () => {
    const server = await Server.start(join(directory, 'data'), 'pipe', []);
    server.child.stderr?.destroy();
    for (let round = 0; round < 20; round += 1)
      expect((await server.put(`k${round}`)).status).toBeLessThan(300);
    expect(await server.droppedLines()).toBeGreaterThan(0);
    expect(await server.end()).toBe(0);
  });
});
