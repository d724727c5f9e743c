/** Child processes of the test servers: started, watched until ready, ended by their own pid. */
import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { createServer } from 'node:net';

/** A test server that runs. `describe` says in a few words what it really is. */
export interface TestServer {
  url: string;
  describe: string;
  stop(): Promise<void>;
}

/** A server that can go away and come back with its data, at the same address. */
export interface HaltingServer extends TestServer {
  halt(): Promise<void>;
  resume(): Promise<void>;
}

/** A child that failed to start says so with everything that it printed. */
export class Child {
  readonly #child: ChildProcess;
  readonly #name: string;
  #output = '';
  #ended = false;
  /** Its last output may arrive after its end. A living child process may keep the stream open. */
  readonly #outputEnded: Promise<unknown>;

  constructor(name: string, command: string, args: readonly string[], options: SpawnOptions = {}) {
    this.#name = name;
    this.#child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const keep = (chunk: Buffer): void => {
      this.#output = (this.#output + chunk.toString()).slice(-20_000);
    };
    this.#child.stdout?.on('data', keep);
    this.#child.stderr?.on('data', keep);
    this.#child.on('error', (error) => {
      this.#ended = true;
      this.#output += `\n${error.message}`;
    });
    this.#child.on('exit', () => {
      this.#ended = true;
    });
    this.#outputEnded = new Promise((resolve) => this.#child.once('close', resolve));
  }

  get output(): string {
    return this.#output;
  }

  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Asks `ready` until it holds; fails as soon as the process has ended. */
  async until(ready: () => Promise<boolean>, secondsMax = 60): Promise<void> {
    const deadline = Date.now() + secondsMax * 1000;
    while (!(await ready())) {
      if (this.#ended) {
        await Promise.race([this.#outputEnded, new Promise((resolve) => setTimeout(resolve, 1_000))]);
        throw new Error(`${this.#name} ended before it was ready:\n${this.#output}`);
      }
      if (Date.now() > deadline)
        throw new Error(`${this.#name} was not ready after ${secondsMax} s:\n${this.#output}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Resolves with the exit status. */
  async exit(): Promise<number | null> {
    if (!this.#ended) await new Promise((resolve) => this.#child.once('close', resolve));
    return this.#child.exitCode;
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#ended) return;
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill(signal);
    const force = setTimeout(() => this.#child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(force);
  }
}

/** A port that was free a moment ago, at most `max` (a Redis cluster adds 10,000 to it for its bus). */
export async function freePort(max = 65_535): Promise<number> {
  for (;;) {
    const wanted = max === 65_535 ? 0 : 20_000 + Math.floor(Math.random() * (max - 20_000));
    const port = await listenOnce(wanted);
    if (port !== undefined && port <= max) return port;
  }
}

function listenOnce(wanted: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : undefined));
    });
  });
}
