/** How long until `stoa up` answers, against the time that Node itself takes. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type Bench, byTurns } from './frame.js';
import { freePort } from './free-port.js';

const program = join(process.cwd(), 'bundle', 'main.cjs');

export const startupBench: Bench = {
  name: 'startup',
  run: async (directory) => {
    const data = join(directory, 'data');
    // A directory of an earlier run may have a format that the program no longer reads.
    await rm(data, { recursive: true, force: true });
    await firstAnswerMs(data);
    const times = await byTurns(7, () => firstAnswerMs(data), nodeMs);
    return [
      {
        what: 'first answer of `stoa up` on an existing directory / `node -e 0`',
        ...times,
        unit: 'ms',
        target: { atMost: 5 },
      },
    ];
  },
};

function nodeMs(): number {
  const startedMs = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  return performance.now() - startedMs;
}

/** From the start of the process to the first byte of the first answer. */
async function firstAnswerMs(data: string): Promise<number> {
  const port = await freePort();
  const startedMs = performance.now();
  const server = spawn(process.execPath, [program, 'up', '--data', data, '--port', String(port)], {
    stdio: 'ignore',
  });
  try {
    while (!(await answers(port)))
      if (server.exitCode !== null) throw new Error(`"stoa up" ended with ${server.exitCode}.`);
    return performance.now() - startedMs;
  } finally {
    await end(server);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'),
    );
    socket.on('data', () => resolve(true));
    socket.on('error', () => setTimeout(() => resolve(false), 2));
    socket.on('close', () => resolve(false));
  });
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGTERM');
  await ended;
}
