/** Runs the commit loop under strace, which records its system calls or makes them fail. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const script = fileURLToPath(new URL('commit-loop.mjs', import.meta.url));
const run = promisify(execFile);

export interface TracedRun {
  /** What the process printed, line by line. */
  readonly printed: string[];
  /** The system calls in the order in which they returned. */
  readonly calls: string[];
}

/** Fails without strace, which is needed to see the syncs. */
export async function commitTraced(
  compiled: string,
  engine: string,
  dataDir: string,
  commits: number,
  traceOptions: readonly string[],
): Promise<TracedRun> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-trace-'));
  const trace = join(directory, 'trace');
  try {
    const { stdout } = await run(
      'strace',
      [
        '-f',
        '-y',
        '-s',
        '64',
        '-o',
        trace,
        ...traceOptions,
        process.execPath,
        script,
        compiled,
        engine,
        dataDir,
        String(commits),
      ],
      // With one worker thread, the n-th call of a kind is the same in every run.
      { env: { ...process.env, UV_THREADPOOL_SIZE: '1' } },
    );
    return { printed: stdout.trim().split('\n'), calls: (await readFile(trace, 'utf8')).trim().split('\n') };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
