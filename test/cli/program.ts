/** The `stoa` program in separate processes, as a person runs it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { builtProgram } from '../servers/shared.js';

export interface Ended {
  status: number | null;
  stdout: string;
  stderr: string;
  /** The JSON on stdout; throws when there is none. */
  json<Body>(): Body;
  /** The JSON on stderr: an error with --json. */
  error(): { code: string; detail: string; fix?: string };
}

export interface RunningServer {
  url: string;
  pid: number;
  token: string;
  /** Everything printed so far. */
  stderr(): string;
  /** Ends it and answers the exit status. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** A command that runs until it gets a signal. */
export interface Following {
  /** The lines of JSON that it has printed so far. */
  lines<Line>(): Line[];
  stderr(): string;
  /** The exit status, if it has ended without a signal. */
  ended(): Promise<number | null>;
  end(): Promise<number | null>;
}

export interface RunOptions {
  environment?: Record<string, string>;
  cwd?: string;
  /** What it reads on stdin; nothing unless given. */
  input?: string;
}

/** What a process needs to run a command. */
export interface Command {
  args: readonly string[];
  cwd: string;
  environment: NodeJS.ProcessEnv;
  input: string | undefined;
}

/** What a command printed. */
export type Output = Pick<Ended, 'status' | 'stdout' | 'stderr'>;

/** A directory for a suite, and the ways to run the program in it. */
export function useProgram(): {
  directory(): string;
  path(name: string): string;
  stoa(args: readonly string[], options?: RunOptions): Promise<Ended>;
  commandOf(args: readonly string[], options?: RunOptions): Command;
  follow(args: readonly string[], options?: RunOptions): Following;
  up(data: string, args?: readonly string[], environment?: Record<string, string>): Promise<RunningServer>;
} {
  let program: string;
  let directory: string;
  const running = new Set<ChildProcess>();

  beforeAll(async () => {
    program = await builtProgram();
    directory = await mkdtemp(join(tmpdir(), 'stoa-cli-'));
  });
  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL');
    await rm(directory, { recursive: true, force: true });
  });

  const commandOf = (
    args: readonly string[],
    { environment = {}, cwd = directory, input }: RunOptions = {},
  ): Command => {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('STOA_'));
    const own = { XDG_STATE_HOME: join(directory, 'state'), ...environment };
    return { args, cwd, environment: { ...Object.fromEntries(inherited), ...own }, input };
  };
  const start = (given: readonly string[], options?: RunOptions): ChildProcess => {
    const { args, cwd, environment, input } = commandOf(given, options);
    const child = spawn(process.execPath, [program, ...args], {
      cwd,
      env: environment,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    child.stdin?.end(input);
    running.add(child);
    child.once('exit', () => running.delete(child));
    return child;
  };

  return {
    directory: () => directory,
    path: (name) => join(directory, name),
    stoa: async (args, options) => {
      const child = start(args, options);
      const [stdout, stderr, status] = await Promise.all([
        textOf(child.stdout),
        textOf(child.stderr),
        statusOf(child),
      ]);
      return endedOf(args, { status, stdout, stderr });
    },
    commandOf,
    follow: (args, options) => {
      const child = start(args, options);
      let [stdout, stderr] = ['', ''];
      child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
      child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      return {
        lines: <Line>() =>
          stdout
            .split('\n')
            .slice(0, -1)
            .map((line) => JSON.parse(line) as Line),
        stderr: () => stderr,
        ended: () => statusOf(child),
        end: async () => {
          const ended = statusOf(child);
          child.kill('SIGINT');
          return ended;
        },
      };
    },
    up: async (data, args = [], environment = {}) => {
      const child = start(['up', '--data', data, '--port', '0', '--json', ...args], { environment });
      const server = await runningServer(child);
      return { ...server, token: environment['STOA_OPERATOR_TOKEN'] ?? server.token };
    },
  };
}

export function endedOf(args: readonly string[], { status, stdout, stderr }: Output): Ended {
  return {
    status,
    stdout,
    stderr,
    json: <Body>() => {
      if (stdout === '')
        throw new Error(`stoa ${args.join(' ')} ended with ${status} and no data:\n${stderr}`);
      return JSON.parse(stdout) as Body;
    },
    error: () =>
      JSON.parse(stderr.trim().split('\n').at(-1) ?? '') as { code: string; detail: string; fix?: string },
  };
}

/** The server in a process that prints the line of `stoa up --json` when it is up. */
export async function runningServer(child: ChildProcess): Promise<RunningServer> {
  let stderr = '';
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const line = await firstLine(child, () => stderr);
  const { url, pid, operator_token_file, operator_token } = JSON.parse(line) as {
    url: string;
    pid: number;
    /** Null where the token is printed, or was given. */
    operator_token_file: string | null;
    operator_token?: string;
  };
  return {
    url,
    pid,
    token:
      operator_token_file === null
        ? (operator_token ?? '')
        : (await readFile(operator_token_file, 'utf8')).trim(),
    stderr: () => stderr,
    end: async (signal) => {
      const ended = statusOf(child);
      child.kill(signal);
      return ended;
    },
  };
}

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = '';
  if (stream !== null) for await (const chunk of stream) text += String(chunk);
  return text;
}

function statusOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => child.once('exit', (status) => resolve(status)));
}

function firstLine(child: ChildProcess, stderr: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const end = text.indexOf('\n');
      if (end !== -1) resolve(text.slice(0, end));
    });
    child.once('exit', (status) =>
      reject(new Error(`stoa up ended with ${status} before it was up:\n${stderr()}`)),
    );
  });
}
