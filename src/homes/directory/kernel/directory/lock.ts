/** The lock on a data directory: one process owns it, and a dead owner's lock passes to exactly one other. */
import { Periodic } from '../../../../core/waiting/periodic.js';
import { createHash, randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { StoaError, fileReasonOf, messageOf } from '../../../../core/errors.js';
import { isMissing, writeWhole } from '../../../../core/files.js';
import { processState, thisProcess } from './process-identity.js';

const lockOwnerSchema = z.object({
  pid: z.number().int(),
  processStart: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  hostname: z.string(),
  /** Never used twice, so that a lock can be distinguished from a later one of the same process. */
  nonce: z.string(),
  url: z.string().optional(),
  /** When the lock was taken, in ISO 8601. */
  startedAt: z.string(),
});

export type LockOwner = z.infer<typeof lockOwnerSchema>;

export interface LockInfo {
  /** The URL of the owner, for processes that are refused. */
  url?: string | undefined;
}

export interface DirectoryLock {
  readonly owner: LockOwner;
  /** Changes what other processes read about the owner. */
  update(info: LockInfo): Promise<void>;
  release(): Promise<void>;
}

/**
 * How often the owner renews its lock, for processes that cannot see it. These times are not settings,
 * because all processes that use a directory must agree on them.
 */
const touchMs = 5_000;

/** An owner whose process cannot be seen counts as dead after this time without a renewal. */
const silentMsMax = 30_000;

/** How long another process may take to take over a dead owner's lock before this one gives up. */
const takeoverMsMax = 10_000;

/** Its drafts begin with the same name. */
export const lockFile = 'stoa.lock';

export const lockPath = (dataDir: string): string => join(dataDir, lockFile);
const takeoverPath = (dataDir: string, nonce: string): string =>
  join(dataDir, `${lockFile}.takeover-${nonce}`);

/**
 * Takes the lock, or throws `locked` with the owner. `onLost` is called when another process has taken the
 * lock, which happens when this one did not renew it in time.
 */
export async function acquireLock(
  dataDir: string,
  info: LockInfo,
  onLost?: () => void,
): Promise<DirectoryLock> {
  const owner: LockOwner = {
    ...(await thisProcess()),
    nonce: randomUUID(),
    url: info.url,
    startedAt: new Date().toISOString(),
  };
  const draft = await writeDraft(dataDir, owner);
  try {
    const deadline = Date.now() + takeoverMsMax;
    while (!(await tryAcquire(dataDir, draft, owner))) {
      if (Date.now() > deadline)
        throw new StoaError('locked', `Another process is taking over ${dataDir} and has not finished.`, {
          fix: 'Wait until it has started, or stop it.',
        });
      await sleep(10);
    }
  } finally {
    await rm(draft, { force: true });
  }
  return heldLock(dataDir, owner, onLost);
}

/** The current owner of the directory, or undefined when no living process owns it. */
export async function readLock(dataDir: string): Promise<LockOwner | undefined> {
  const found = await readOwner(lockPath(dataDir));
  return found !== undefined && (await isAlive(found, Date.now())) ? found.owner : undefined;
}

/** One attempt: true when the lock is ours, false to try again, an error when a living process has it. */
async function tryAcquire(dataDir: string, draft: string, owner: LockOwner): Promise<boolean> {
  const path = lockPath(dataDir);
  if (await linked(draft, path)) return true;
  const found = await readOwner(path);
  if (found === undefined) return false;
  // The time of its own draft is the time of the file system, which may differ from the clock of this
  // machine.
  if (await isAlive(found, (await stat(draft)).mtimeMs)) throw lockedBy(dataDir, found.owner);

  const claimed = await claimTakeover(dataDir, draft, found.owner.nonce);
  if (claimed === undefined) return false;
  // Only the holder of the claim may replace this lock, so no other process replaces it between this check
  // and the rename.
  const still = (await readOwner(path))?.owner.nonce === found.owner.nonce;
  if (still) await rename(await writeDraft(dataDir, owner), path);
  for (const nonce of claimed) await rm(takeoverPath(dataDir, nonce), { force: true });
  return still;
}

/**
 * Claims the right to replace the lock with this nonce. A claim is a file that only one process can
 * make, named after the nonce. When its maker has died too, the right is claimed from that one in
 * turn. Returns the nonces on the way, or undefined when a living process has the right.
 */
async function claimTakeover(dataDir: string, draft: string, nonce: string): Promise<string[] | undefined> {
  const path = takeoverPath(dataDir, nonce);
  if (await linked(draft, path)) return [nonce];
  const holder = await readOwner(path);
  if (holder === undefined || (await isAlive(holder, (await stat(draft)).mtimeMs))) return undefined;
  const claimed = await claimTakeover(dataDir, draft, holder.owner.nonce);
  return claimed === undefined ? undefined : [nonce, ...claimed];
}

function heldLock(dataDir: string, owner: LockOwner, onLost: (() => void) | undefined): DirectoryLock {
  const path = lockPath(dataDir);
  const isOurs = async (): Promise<boolean> => (await readOwner(path))?.owner.nonce === owner.nonce;
  let current = owner;

  const touching = new Periodic({
    everyMs: touchMs,
    run: async () => {
      if (await isOurs()) {
        const now = new Date();
        await utimes(path, now, now);
      } else {
        void touching.close();
        onLost?.();
      }
    },
    onError: (error) =>
      process.emitWarning(
        `The lock on ${dataDir} could not be renewed: ${messageOf(error)}. The server tries again.`,
      ),
  });
  touching.start();

  return {
    get owner() {
      return current;
    },
    update: async (info) => {
      if (!(await isOurs()))
        throw new StoaError('locked', `Another process has taken over the lock on ${dataDir}.`, {
          fix: 'Stop the other process, then start again.',
        });
      current = { ...current, url: info.url };
      await rename(await writeDraft(dataDir, current), path);
    },
    release: async () => {
      await touching.close();
      if (await isOurs()) await rm(path, { force: true });
    },
  };
}

interface FoundOwner {
  owner: LockOwner;
  touchedAtMs: number;
}

async function isAlive(found: FoundOwner, nowMs: number): Promise<boolean> {
  const state = await processState(found.owner);
  return state === 'unknown' ? nowMs - found.touchedAtMs < silentMsMax : state === 'alive';
}

async function readOwner(path: string): Promise<FoundOwner | undefined> {
  let content: string;
  let touchedAtMs: number;
  try {
    content = await readFile(path, 'utf8');
    touchedAtMs = (await stat(path)).mtimeMs;
  } catch (thrown) {
    if (isMissing(thrown)) return undefined;
    throw new StoaError(
      'invalid_config',
      `${dirname(path)} cannot be used as a data directory of Stoa: ${fileReasonOf(thrown)}.`,
      { cause: thrown, fix: 'Name another directory with --data, or check its permissions.' },
    );
  }
  return { owner: parseOwner(content), touchedAtMs };
}

/** The owner of an unreadable file is unknown, so only its age decides. */
function parseOwner(content: string): LockOwner {
  try {
    return lockOwnerSchema.parse(JSON.parse(content));
  } catch {
    const nonce = createHash('sha256').update(content).digest('hex');
    return {
      pid: 0,
      processStart: '',
      bootId: 'unreadable',
      pidNamespace: '',
      hostname: 'unreadable',
      nonce,
      startedAt: 'unknown',
    };
  }
}

/** Writes the lock under a temporary name, completely and to disk, before it gets its real name. */
async function writeDraft(dataDir: string, owner: LockOwner): Promise<string> {
  const draft = join(dataDir, `${lockFile}.draft-${randomUUID()}`);
  await writeWhole(draft, `${JSON.stringify(owner, undefined, 2)}\n`, 'wx');
  return draft;
}

/** Gives a file a second name unless that name is taken, in one step. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (thrown) {
    if (codeOf(thrown) === 'EEXIST') return false;
    throw thrown;
  }
}

function lockedBy(dataDir: string, owner: LockOwner): StoaError {
  const where = owner.url === undefined ? '' : `, which serves it at ${owner.url}`;
  const client =
    owner.url === undefined ? 'Stop it first' : `Use the server at ${owner.url}, or stop it first`;
  return new StoaError(
    'locked',
    `The data directory ${dataDir} is in use by process ${owner.pid} on ${owner.hostname} since ${owner.startedAt}${where}.`,
    {
      fix: `${client}, or choose another data directory.`,
      details: { pid: owner.pid, startedAt: owner.startedAt, url: owner.url },
    },
  );
}

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
}
