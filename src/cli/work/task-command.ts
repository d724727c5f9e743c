/** One run of the command of `stoa work`: its process, its output, and its end. */
import { type ChildProcess, spawn } from 'node:child_process';

/** Bytes of the output that are kept: the last ones. The server takes at most this many. */
const outputBytesMax = 1024 * 1024;
/** Characters of standard error that the error of a failed task contains: the last ones. */
const errorCharactersMax = 2_000;
/** After SIGTERM, the command has this long before SIGKILL. */
const killAfterMs = 5_000;

export interface TaskCommandOptions {
  readonly command: readonly string[];
  /** Written to standard input. */
  readonly input: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Terminates the command. */
  readonly signal: AbortSignal;
}

export interface Ended {
  /** Null if a signal ended the command. */
  readonly status: number | null;
  /** `exit status 3`, `SIGKILL`. */
  readonly how: string;
  readonly output: string;
  readonly errors: string;
}

/** Rejects if the command cannot be started. */
export async function runCommand(options: TaskCommandOptions): Promise<Ended> {
  const [file = '', ...args] = options.command;
  const child = spawn(file, args, {
    env: { ...process.env, ...options.environment },
    stdio: ['pipe', 'pipe', 'pipe'],
    // A separate process group: Ctrl-C reaches only this program, and a signal to the group reaches the
    // children too.
    detached: true,
  });
  const [output, errors] = [new Tail(outputBytesMax), new Tail(4 * errorCharactersMax)];
  // The output is data for the server; people follow it on standard error.
  child.stdout.on('data', (chunk: Buffer) => output.add(chunk)).pipe(process.stderr, { end: false });
  child.stderr.on('data', (chunk: Buffer) => errors.add(chunk)).pipe(process.stderr, { end: false });
  // A command that does not read its input closes it early.
  child.stdin.on('error', () => undefined).end(options.input);
  let killing: NodeJS.Timeout | undefined;
  const terminate = (): void => {
    signalGroup(child, 'SIGTERM');
    killing = setTimeout(() => signalGroup(child, 'SIGKILL'), killAfterMs);
  };
  options.signal.addEventListener('abort', terminate);
  if (options.signal.aborted) terminate();
  try {
    const [status, signal] = await ended(child);
    return {
      status,
      how: status === null ? String(signal) : `exit status ${status}`,
      output: output.text(),
      errors: errors.text().slice(-errorCharactersMax).toWellFormed(),
    };
  } finally {
    clearTimeout(killing);
    options.signal.removeEventListener('abort', terminate);
  }
}

function ended(child: ChildProcess): Promise<[status: number | null, signal: NodeJS.Signals | null]> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    // `close` comes after all output was read.
    child.once('close', (status, signal) => resolve([status, signal]));
  });
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // ESRCH: the group has ended meanwhile.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

/** The last bytes of a stream. */
class Tail {
  readonly #bytesMax: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes <= 2 * this.#bytesMax) return;
    this.#chunks = [this.#last()];
    this.#bytes = this.#bytesMax;
  }

  /** Without NUL, which no home can store. A character that was cut becomes U+FFFD. */
  text(): string {
    const text = this.#last().toString().replaceAll('\0', '');
    return Buffer.byteLength(text) <= this.#bytesMax
      ? text
      : text.slice(-Math.floor(this.#bytesMax / 3)).toWellFormed();
  }

  #last(): Buffer {
    const all = Buffer.concat(this.#chunks);
    return all.subarray(Math.max(0, all.length - this.#bytesMax));
  }
}
