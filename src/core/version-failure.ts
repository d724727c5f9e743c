/** The refusal of a write whose check of a version does not hold, in all domains alike. */
import { StoaError } from './errors.js';

/** Zero stands for nothing there. */
export function versionFailure(what: string, current: number, expected: number): StoaError {
  const now = current === 0 ? 'is not there' : `has version ${current}`;
  return new StoaError(
    'version_conflict',
    `${what} ${now}; ${expected === 0 ? 'it must not be there' : `version ${expected} was expected`}.`,
  );
}
