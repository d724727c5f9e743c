/**
 * The commands of the built program in one process for a suite: to start Node and load the program takes most of the
 * processor time of a command. `useProgram` runs each in a process of its own, for what belongs to a process: signals,
 * its end, its children, several at once.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { builtProgram } from '../servers/shared.js';
import { type Command, type Output, endedOf, useProgram } from './program.js';

/** As `useProgram`, but `stoa` runs the command in the process of the suite's commands. */
export function useCommands() {
  const program = useProgram();
  let host: Promise<CommandHost> | undefined;
  afterAll(async () => (await host)?.end());
  const stoa: typeof program.stoa = async (args, options) => {
    host ??= builtProgram().then((path) => new CommandHost(path));
    return endedOf(args, await (await host).run(program.commandOf(args, options)));
  };
  return { ...program, stoa, ownProcess: program.stoa };
}

class CommandHost {
  readonly #child: ChildProcess;
  /** What the process printed beside the output of the commands. */
  #printed = '';
  #last: Promise<unknown> = Promise.resolve();
  readonly #closed: Promise<unknown>;

  constructor(program: string) {
    const script = join(dirname(fileURLToPath(import.meta.url)), 'command-host.mjs');
    this.#child = fork(script, [program], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], execArgv: [] });
    this.#closed = new Promise((resolve) => this.#child.once('close', resolve));
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => (this.#printed += chunk.toString()));
  }

  /** After the commands before it. */
  run(command: Command): Promise<Output> {
    const ended = this.#last.then(() => this.#runNow(command));
    this.#last = ended.catch(() => undefined);
    return ended;
  }

  #runNow(command: Command): Promise<Output> {
    return new Promise((resolve, reject) => {
      const onExit = (status: number | null): void =>
        reject(
          new Error(`stoa ${command.args.join(' ')} ended its process with ${status}:\n${this.#printed}`),
        );
      this.#child.once('exit', onExit);
      this.#child.once('message', (output: Output) => {
        this.#child.off('exit', onExit);
        resolve(output);
      });
      this.#child.send(command);
    });
  }

  async end(): Promise<void> {
    this.#child.kill();
    await this.#closed;
    if (this.#printed !== '') throw new Error(`Not printed by a command:\n${this.#printed}`);
  }
}
