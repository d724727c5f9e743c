/** The identity of this process, which another process can check later. */
import { execFile } from 'node:child_process';
import { readFile, readlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { promisify } from 'node:util';

export interface ProcessIdentity {
  pid: number;
  /** The start of the process as the system reports it, to detect a reused pid. */
  processStart: string;
  /** Changes with every boot; empty if the system has none. */
  bootId: string;
  /** Pids are valid only within their namespace. Empty if the system has no namespaces. */
  pidNamespace: string;
  hostname: string;
}

export async function thisProcess(): Promise<ProcessIdentity> {
  return {
    pid: process.pid,
    processStart: (await processStart(process.pid)) ?? '',
    bootId: await linuxOnly(async () => (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()),
    pidNamespace: await linuxOnly(() => readlink('/proc/self/ns/pid')),
    hostname: hostname(),
  };
}

/** Whether the process has ended, is running, or cannot be seen from here. */
export async function processState(other: ProcessIdentity): Promise<'alive' | 'dead' | 'unknown'> {
  const here = await thisProcess();
  const sameKernel = here.bootId === '' ? other.hostname === here.hostname : other.bootId === here.bootId;
  if (sameKernel && other.pidNamespace === here.pidNamespace) {
    return (await processStart(other.pid)) === other.processStart ? 'alive' : 'dead';
  }
  // The host was restarted since then, so the process is gone.
  if (!sameKernel && other.hostname === here.hostname) return 'dead';
  return 'unknown';
}

/** When a process of this system started, or undefined if no process has this pid. */
async function processStart(pid: number): Promise<string | undefined> {
  if (process.platform === 'win32') return isRunning(pid) ? 'unknown' : undefined;
  if (process.platform !== 'linux') return processStartByPs(pid);
  let stat: string;
  try {
    stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  } catch (thrown) {
    // ESRCH comes when the process ends between opening and reading.
    if (thrown instanceof Error && 'code' in thrown && (thrown.code === 'ENOENT' || thrown.code === 'ESRCH'))
      return undefined;
    throw thrown;
  }
  // The second field is the program's name in parentheses, and may hold spaces and parentheses itself.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  // A zombie has ended. Only its parent has not read its status.
  if (state === 'Z' || state === 'X') return undefined;
  return fields[22 - 3];
}

async function processStartByPs(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-o', 'lstart=', '-p', String(pid)], {
      env: { ...process.env, LC_ALL: 'C' },
    });
    return stdout.trim() || undefined;
  } catch (thrown) {
    // `ps` ends with status 1 when no process has this pid.
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 1) return undefined;
    throw thrown;
  }
}

/** All that Windows reports without another program. A reused pid is not detected there. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (thrown) {
    return thrown instanceof Error && 'code' in thrown && thrown.code === 'EPERM';
  }
}

async function linuxOnly(read: () => Promise<string>): Promise<string> {
  return process.platform === 'linux' ? read() : '';
}
