/** The directory of a database: created, checked to be writable, and synced to disk. */
import { randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { fileFailure, makePrivate, privateFile, syncDirectory } from '../../../../core/files.js';

/** Creates the directory and its parents. Throws a clear error if it is not writable. */
export async function prepareDirectory(dataDir: string): Promise<string> {
  const path = resolve(dataDir);
  const probe = join(path, `.probe-${randomUUID()}`);
  try {
    const firstMade = await mkdir(path, { recursive: true, mode: 0o700 });
    await (await open(probe, 'wx', privateFile)).close();
    await rm(probe);
    await makePrivate(path);
    // The new names must survive a power cut, like the data stored under them.
    if (firstMade !== undefined) {
      for (let made = path; made.length >= firstMade.length; made = dirname(made))
        await syncDirectory(dirname(made));
    }
  } catch (thrown) {
    const failure = fileFailure(path, thrown);
    if (failure instanceof StoaError) throw failure;
    throw new StoaError(
      'invalid_config',
      `The data directory ${path} is not writable: ${fileReasonOf(thrown)}.`,
      {
        fix: 'Give the user that runs Stoa write access, or choose another data directory.',
        cause: thrown,
      },
    );
  }
  return path;
}

/**
 * Bytes of the files directly in a directory, or of those with an ending. A file that is deleted in the
 * meantime counts 0.
 */
export function directorySizeBytes(path: string, ending = ''): number {
  let sizeBytes = 0;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isFile() && entry.name.endsWith(ending))
      sizeBytes += statSync(join(path, entry.name), { throwIfNoEntry: false })?.size ?? 0;
  }
  return sizeBytes;
}

/** Bytes that may still be written to the disk of a directory, and its size: Infinity if the file system does not report it. */
export function diskSpace(path: string): { freeBytes: number; sizeBytes: number } {
  const { blocks, bavail, bsize } = statfsSync(path);
  return blocks === 0
    ? { freeBytes: Infinity, sizeBytes: Infinity }
    : { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
}

export function freeBytes(path: string): number {
  return diskSpace(path).freeBytes;
}
