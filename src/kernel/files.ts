/** Files and directories that outlive a power cut, and that only their owner reads. */
import { mkdir, open, rename, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** Replaces a file so that after a power cut it is the old one or the new one, never a part. */
export async function writeDurably(path: string, content: string | Uint8Array, mode = 0o644): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  const file = await open(temporary, 'w', mode);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Makes a directory's list of names durable: a rename is not on disk before that. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open a directory, and makes names durable by itself.
  if (process.platform === 'win32') return;
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Makes a directory that only its owner can enter, with its parents; one that is there stays as it
 * is. Step by step, because Node's recursive `mkdir` never returns where the file system denies
 * with ENOENT, as /proc does.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  await makeDirectory(resolve(path), 0o700);
}

async function makeDirectory(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectory(dirname(path), 0o777);
    await mkdir(path, { mode });
  }
}
