/** The file of this very program, for those who start it again: links that a package manager made are followed. */
import { realpathSync } from 'node:fs';
import { StoaError } from '../../core/errors.js';

export function programPath(): string {
  const [, script] = process.argv;
  if (script === undefined) throw new StoaError('internal', 'This process runs no file.');
  return realpathSync(script);
}
