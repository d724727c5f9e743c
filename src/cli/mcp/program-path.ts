/** The file of this program, to start it again. Links of a package manager are resolved. */
import { realpathSync } from 'node:fs';
import { StoaError } from '../../core/errors.js';

export function programPath(): string {
  const [, script] = process.argv;
  if (script === undefined) throw new StoaError('internal', 'The process was not started from a file.');
  return realpathSync(script);
}
