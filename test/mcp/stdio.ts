/** `stoa mcp` in separate processes, each with a real client. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect } from 'vitest';
import { builtProgram } from '../servers/shared.js';
import { type Generation, TestClient } from './client.js';
import { eventually } from '../until.js';

export interface StdioPrograms {
  /** A directory that no server owns yet; its server is ended with the suite. */
  data(): Promise<string>;
  connect(data: string, args?: readonly string[], generation?: Generation): Promise<TestClient>;
  /** Runs it over the given lines to its end. */
  feed(
    data: string,
    input: string,
    args?: readonly string[],
  ): Promise<{ status: number | null; stdout: string; stderr: string }>;
  /** Starts it, for a test that holds the pipe itself. */
  open(data: string, args?: readonly string[]): OpenPipe;
  /** The process that owns the directory. */
  ownerOf(data: string): Promise<number>;
}

/** `stoa mcp` with its pipe controlled by a test. */
export interface OpenPipe {
  write(message: object): void;
  /** The answer to a request, when it comes. */
  answer(id: number): Promise<Record<string, unknown>>;
  /** The client closes its end; answers the exit status. */
  end(): Promise<number | null>;
  kill(): Promise<void>;
}

export function useStdio(): StdioPrograms {
  let program: string;
  const directories: string[] = [];

  beforeAll(async () => {
    program = await builtProgram();
  });
  afterAll(async () => {
    await Promise.all(
      directories.map(async (directory) => {
        await endServer(directory);
        await rm(directory, { recursive: true, force: true });
      }),
    );
  });

  const inherited = Object.entries(process.env).filter(
    ([name, value]) => !name.startsWith('STOA_') && value !== undefined,
  );
  const environment = { ...(Object.fromEntries(inherited) as Record<string, string>), STOA_PORT: '0' };

  return {
    data: async () => {
      const directory = await mkdtemp(join(tmpdir(), 'stoa-mcp-'));
      directories.push(directory);
      return directory;
    },
    connect: async (data, args = [], generation = 'legacy') => {
      const client = TestClient.of(generation);
      await client.connect(
        new StdioClientTransport({
          command: process.execPath,
          args: [program, 'mcp', '--data', data, ...args],
          env: environment,
          stderr: 'pipe',
        }),
      );
      return new TestClient(client);
    },
    feed: (data, input, args = []) =>
      new Promise((resolve) => {
        const child = spawn(process.execPath, [program, 'mcp', '--data', data, ...args], {
          env: environment,
        });
        let [stdout, stderr] = ['', ''];
        child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
        child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
        child.once('close', (status) => resolve({ status, stdout, stderr }));
        child.stdin.end(input);
      }),
    open: (data, args = []) =>
      openPipe(spawn(process.execPath, [program, 'mcp', '--data', data, ...args], { env: environment })),
    ownerOf,
  };
}

function openPipe(child: ChildProcessWithoutNullStreams): OpenPipe {
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve));
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  // Its end may be gone before ours.
  child.stdin.on('error', () => undefined);
  child.stderr.resume();
  const answerTo = (id: number) =>
    stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .find((message) => message['id'] === id);
  return {
    write: (message) => void child.stdin.write(`${JSON.stringify(message)}\n`),
    answer: (id) => eventually(() => answerTo(id) ?? expect.fail(`no answer to ${id}`)),
    end: () => {
      child.stdin.end();
      return closed;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await closed;
    },
  };
}

const lockOf = (data: string): string => join(data, 'stoa.lock');

async function ownerOf(data: string): Promise<number> {
  return (JSON.parse(await readFile(lockOf(data), 'utf8')) as { pid: number }).pid;
}

/** The lock goes when the server has closed everything. */
async function endServer(data: string): Promise<void> {
  if (!existsSync(lockOf(data))) return;
  process.kill(await ownerOf(data), 'SIGTERM');
  while (existsSync(lockOf(data))) await new Promise((resolve) => setTimeout(resolve, 20));
}
