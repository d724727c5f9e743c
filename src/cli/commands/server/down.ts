/** `stoa down`: stops the server of a data directory and waits until it has closed the directory. */
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError, messageOf } from '../../../core/errors.js';
import { type LockOwner, readLock } from '../../../homes/directory/kernel/directory/lock.js';
import { processState } from '../../../homes/directory/kernel/directory/process-identity.js';
import { type Action, textOption } from '../../definitions/definition.js';

const pollMs = 50;
/** What closing the store may take after the last request has ended. */
const closeSecondsMax = 30;

export const down: Action = async ({ output, globals, settings }) => {
  const { config } = settings();
  if (textOption(globals, 'url') !== undefined || config.postgres !== null)
    throw new StoaError(
      'invalid_request',
      'The command names a server by --url or --postgres. stoa down finds a server by its data directory.',
      { fix: 'Leave out --url and --postgres; stop a server on PostgreSQL with a signal: kill PID.' },
    );
  const directory = resolve(config.data);
  const owner = await readLock(directory);
  if (owner === undefined) {
    output.done({ stopped: null }, `No server runs on ${directory}.`);
    return;
  }
  if (owner.url === undefined)
    throw new StoaError('locked', `${directory} is in use by process ${owner.pid}, which is not a server.`, {
      fix: 'Wait until that command has ended.',
    });
  // A pid means another process there.
  if ((await processState(owner)) === 'unknown')
    throw new StoaError(
      'forbidden',
      `The server of ${directory} runs on ${owner.hostname}, on another machine or in another container.`,
      { fix: 'Stop it there.' },
    );
  stop(owner);
  const secondsMax = config.limits.stopSecondsMax + closeSecondsMax;
  for (
    const deadlineMs = Date.now() + secondsMax * 1_000;
    (await readLock(directory))?.nonce === owner.nonce;
  ) {
    if (Date.now() > deadlineMs)
      throw new StoaError(
        'unreachable',
        `The server, process ${owner.pid}, has not stopped within ${secondsMax} seconds.`,
        { fix: `Read its log, or end it with: kill -9 ${owner.pid}` },
      );
    await sleep(pollMs);
  }
  output.done({ stopped: owner.pid }, `Stopped the server on ${directory}.`);
};

function stop({ pid }: LockOwner): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    // It has ended since its lock was read.
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return;
    throw new StoaError('forbidden', `Process ${pid} cannot be stopped: ${messageOf(error)}.`, {
      cause: error,
      fix: 'Run as the user who started the server.',
    });
  }
}
