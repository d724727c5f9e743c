/** Input that is read more than once: standard input is copied to a temporary file. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** Calls `work` with the path of a file that contains the input; `-` is standard input. */
export async function withInputFile(file: string, work: (path: string) => Promise<void>): Promise<void> {
  if (file !== '-') return work(file);
  const directory = await mkdtemp(join(tmpdir(), 'stoa-import-'));
  try {
    const path = join(directory, 'lines.ndjson');
    await pipeline(process.stdin, createWriteStream(path, { mode: 0o600 }));
    await work(path);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
