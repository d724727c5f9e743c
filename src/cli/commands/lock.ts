/** `stoa lock NAME` (the operation 'locks.acquire'): takes a lock, or runs a command while holding it. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { StoaError, messageOf } from '../../core/errors.js';
import { lockName } from '../mcp/scope.js';
import { type Action, durationOption, textOption } from '../definitions/definition.js';

/** Exit status of a shell for a command that a signal ended. */
const signalExit = 128;

export const lock: Action = async ({ connect, output }, [given = '', ...rest], options) => {
  const command = rest.flat();
  // The shell completes paths with it; other agents leave it out.
  const scope = textOption(options, 'scope');
  const plain = given.replace(/^(?:\.\/)+/, '');
  const name = scope === undefined ? plain : lockName(scope, plain);
  const stoa = await (await connect('created')).client();
  const held = await stoa.locks.acquire(name, {
    ttl: durationOption(options, 'ttl'),
    wait: durationOption(options, 'wait'),
    note: textOption(options, 'note'),
    // Two commands of one agent must not run at once.
    ifFree: command.length > 0,
  });
  if (command.length === 0) {
    held.abandon();
    output.value(held.lock);
    return;
  }
  try {
    process.exitCode = await runHolding(command, held.signal, {
      STOA_LOCK: name,
      STOA_LOCK_FENCE: String(held.fence),
    });
    if (held.signal.aborted)
      throw new StoaError(
        'fenced',
        `The lock "${name}" was lost while the command ran: ${messageOf(held.signal.reason)}`,
        { fix: 'Check what the command did, and run it again.' },
      );
  } finally {
    await held.release();
  }
};

/** The terminal sends Ctrl-C to the command too. This program stays to release the lock. */
const ignore = (): void => undefined;

/** The exit status of the command. A lost lock ends it: its work is no longer guarded. */
async function runHolding(
  [file = '', ...args]: readonly string[],
  lost: AbortSignal,
  environment: Readonly<Record<string, string>>,
): Promise<number> {
  const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...environment } });
  const forward = (signal: NodeJS.Signals): void => void child.kill(signal);
  const terminate = (): void => void child.kill('SIGTERM');
  lost.addEventListener('abort', terminate);
  process.on('SIGINT', ignore).on('SIGTERM', forward);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (error) =>
        reject(
          new StoaError('invalid_request', `The command "${file}" cannot be started: ${messageOf(error)}.`, {
            cause: error,
            fix: 'Check the command after "--".',
          }),
        ),
      );
      child.once('close', (status, signal) =>
        resolve(status ?? signalExit + constants.signals[signal ?? 'SIGTERM']),
      );
    });
  } finally {
    lost.removeEventListener('abort', terminate);
    process.off('SIGINT', ignore).off('SIGTERM', forward);
  }
}
