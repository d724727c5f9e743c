/** The sources as plain JavaScript, for tests that need a separate process. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtProgram } from './servers/shared.js';

export const repository = dirname(dirname(fileURLToPath(import.meta.url)));

/** A directory laid out like `src`, from which the packages are found; compiled once a run. */
export async function compiledSources(): Promise<string> {
  return join(dirname(dirname(await builtProgram())), 'dist');
}
