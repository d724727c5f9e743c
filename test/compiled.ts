/** The sources as plain JavaScript, for tests that need a process of their own. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const repository = dirname(dirname(fileURLToPath(import.meta.url)));

export interface Compiled {
  /** A directory laid out like `src`, from which the packages are found. */
  readonly directory: string;
  remove(): Promise<void>;
}

export async function compileSources(): Promise<Compiled> {
  // Not in `dist`, which a build may empty while tests run.
  const parent = join(repository, 'test', '.compiled');
  await mkdir(parent, { recursive: true });
  const directory = await mkdtemp(join(parent, 'src-'));
  const compiler = join(repository, 'node_modules', 'typescript', 'bin', 'tsc');
  await promisify(execFile)(process.execPath, [compiler, '-p', repository, '--outDir', directory, '--declaration', 'false']);
  return { directory, remove: () => rm(directory, { recursive: true, force: true }) };
}
