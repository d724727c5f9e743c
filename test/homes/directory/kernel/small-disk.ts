/** A real file system of a few megabytes that a test can fill to the last byte and empty again. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, rmdirSync, statSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SmallDisk {
  readonly path: string;
  /** Leaves no free byte. */
  fill(): void;
  /** Gives back what `fill` took. */
  free(): void;
  unmount(): void;
}

/** Mounting needs root. Where it is refused the test fails: a disk that is never full proves nothing. */
export function mountSmallDisk(megabytes: number): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'stoa-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0755`, 'stoa-test', path]);
  const filler = join(path, 'filler');
  return {
    path,
    fill: () => {
      // A test that ran out of time is unmounted while it goes on: it must not fill the machine's own disk.
      if (statSync(path).dev === statSync(tmpdir()).dev) throw new Error(`${path} is not mounted any more.`);
      const file = openSync(filler, 'a');
      try {
        for (const block of [Buffer.alloc(1024 * 1024), Buffer.alloc(4096), Buffer.alloc(1)])
          writeUntilFull(file, block);
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    unmount: () => {
      execFileSync('umount', ['--lazy', path]);
      rmdirSync(path);
    },
  };
}

function writeUntilFull(file: number, block: Buffer): void {
  try {
    for (;;) writeSync(file, block);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
