/** Starts a server if none runs: as a separate process, which is found by its lock like any other. */
import { spawn } from 'node:child_process';
import { open, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../core/settings/config.js';
import { StoaError, errorKinds, fileReasonOf } from '../../core/errors.js';
import { makePrivateDirectory } from '../../core/files.js';
import { type LockOwner, readLock } from '../../homes/directory/kernel/directory/lock.js';
import { programPath } from './program-path.js';

/** The largest directories take long to open. */
const startMsMax = 60_000;
const pollMs = 50;

/**
 * The address of the server that owns the directory. If there is none, it is started. If several
 * processes start one at once, the lock decides; the others use the server that got the lock.
 */
export async function ensureServer(config: Config, flags: readonly string[]): Promise<string> {
  if (config.engine === 'memory')
    throw new StoaError(
      'invalid_config',
      'The engine is "memory", and this command needs a store that several processes can use.',
      { fix: 'Choose lmdb or rocksdb with --engine, or name a running server with --url.' },
    );
  const dataDir = resolve(config.data);
  await makeDirectory(dataDir);
  const deadlineMs = Date.now() + startMsMax;
  let starting: Starting | undefined;
  let anyPort = false;
  for (;;) {
    const owner = await readLock(dataDir);
    if (owner?.url !== undefined && (await answers(owner))) return owner.url;
    if (owner === undefined && (starting === undefined || starting.status() !== undefined)) {
      // Another store may use the port; clients find this server by its lock.
      if (starting?.status() === exitOfConfig && !anyPort) anyPort = true;
      else if (starting !== undefined && starting.status() !== exitOfLock)
        throw await startFailed(dataDir, starting);
      starting = await start(dataDir, anyPort ? [...flags, '--port', '0'] : flags);
    }
    if (Date.now() > deadlineMs) {
      throw new StoaError(
        'unreachable',
        `No server answered for ${dataDir} within ${startMsMax / 1_000} seconds.`,
        { fix: `Read ${logPath(dataDir)}, or start a server with "stoa up".` },
      );
    }
    await sleep(pollMs);
  }
}

/** With the same permissions that the server would set. */
async function makeDirectory(dataDir: string): Promise<void> {
  try {
    await makePrivateDirectory(dataDir);
  } catch (error) {
    throw new StoaError(
      'invalid_config',
      `The data directory ${dataDir} cannot be created: ${fileReasonOf(error)}.`,
      { cause: error, fix: 'Use another directory with --data, or check the permissions.' },
    );
  }
}

interface Starting {
  /** The exit status, or undefined while it runs. */
  status(): number | undefined;
  /** Where the output of this server begins in the log. */
  logBytes: number;
}

/** The exit status if the port is in use. */
const exitOfConfig = errorKinds.invalid_config.exit;
/** The exit status if another process was faster. */
const exitOfLock = errorKinds.locked.exit;

const logPath = (dataDir: string): string => join(dataDir, 'stoa.log');

async function start(dataDir: string, flags: readonly string[]): Promise<Starting> {
  const log = await open(logPath(dataDir), 'a', 0o600);
  try {
    const logBytes = (await log.stat()).size;
    let status: number | undefined;
    // The server must outlive this process and its terminal.
    const child = spawn(
      process.execPath,
      [programPath(), 'up', '--stop-when-idle', '--data', dataDir, ...flags],
      {
        detached: true,
        stdio: ['ignore', log.fd, log.fd],
        cwd: process.cwd(),
      },
    );
    child.once('error', () => (status = 1));
    child.once('exit', (code) => (status = code ?? 1));
    child.unref();
    return { status: () => status, logBytes };
  } finally {
    await log.close();
  }
}

async function startFailed(dataDir: string, { logBytes }: Starting): Promise<StoaError> {
  const log = await readFile(logPath(dataDir));
  const words = log.subarray(logBytes).toString().trim().slice(-1_000);
  return new StoaError(
    'unreachable',
    `The server could not be started: ${words === '' ? 'its log is empty' : words}`,
    { fix: 'Run "stoa up" to see the error.' },
  );
}

async function answers({ url }: LockOwner): Promise<boolean> {
  try {
    return (await fetch(new URL('/livez', url), { signal: AbortSignal.timeout(2_000) })).ok;
  } catch (error) {
    // The server is starting or stopping; the lock shows which.
    if (error instanceof Error) return false;
    throw error;
  }
}
