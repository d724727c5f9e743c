/** The error of a write whose expected version is not the current one. All domains use it. */
import { StoaError } from './errors.js';

/** A version of 0 means that the record does not exist. */
export function versionFailure(what: string, current: number, expected: number): StoaError {
  const now = current === 0 ? 'does not exist' : `has version ${current}`;
  return new StoaError(
    'version_conflict',
    `${what} ${now}; ${expected === 0 ? 'it was expected not to exist' : `version ${expected} was expected`}.`,
  );
}
