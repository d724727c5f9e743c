/** Errors of PostgreSQL and of its driver, and what Stoa makes of them. */
import { StoaError, messageOf } from '../../../core/errors.js';

/** The connection is closed, or will be closed soon. */
export const lostCodes = /^(ECONN|EPIPE|ETIMEDOUT|CONNECTION_|08|25P03|57P0[123])/;

/**
 * True for a statement that failed only because an earlier one of its transaction had failed. That error says
 * more.
 */
export function isAborted(error: unknown): boolean {
  return causeCodeOf(error) === '25P02';
}

/** Thrown by the body of a transaction to run again, because data that it relied on has changed. */
export class TryAgain extends Error {}

/**
 * Serialization failures, deadlocks, and unique or foreign keys that another transaction changed at the same
 * time.
 */
export function isConcurrency(error: unknown): boolean {
  const code = causeCodeOf(error);
  return code === '40001' || code === '40P01' || code === '23505' || code === '23503';
}

/** A transaction that lost against another one. A key that is in the way at every attempt is another error. */
export function isLostRace(error: unknown): boolean {
  return error instanceof TryAgain || /^40(001|P01)$/.test(causeCodeOf(error));
}

/** The statement waited too long for a lock (`lock_timeout`). */
export function isLockTimeout(error: unknown): boolean {
  return causeCodeOf(error) === '55P03';
}

/** Faults of the database belong to no step of a write: they are tried again, or end the request. */
const databaseFaults: ReadonlySet<string> = new Set([
  'engine',
  'backend_unavailable',
  'disk_full',
  'overloaded',
  'internal',
]);

export function isDatabaseFault(error: unknown): boolean {
  return (
    error instanceof TryAgain ||
    isConcurrency(error) ||
    (error instanceof StoaError && databaseFaults.has(error.code))
  );
}

/**
 * The server is unreachable, starting or stopping, ended an idle transaction, or has too many connections.
 */
export const unavailableCodes =
  /^(ECONN|EPIPE|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|CONNECT|08|25P03|57P|53300)/;

/** How to correct the URL, by the code of the database. */
const refusedConnections: ReadonlyMap<string, string> = new Map([
  ['3D000', 'Create the database with "createdb", or use another name at the end of the URL.'],
  ['28P01', 'Check the user and the password in the URL.'],
  ['28000', 'Check the user in the URL, and pg_hba.conf on the server.'],
]);

/** A standby, a failover that is not finished, or a database that was set to read-only. */
export function readOnlyDatabase(cause?: unknown): StoaError {
  return new StoaError('backend_unavailable', 'PostgreSQL is read-only. Nothing was stored.', {
    fix: 'Use the URL of the primary, or wait until the failover is done.',
    details: { read_only: true },
    cause,
  });
}

/** The error of a call of the driver as an error of Stoa. Other errors are returned as they are. */
export function postgresError(error: unknown): unknown {
  if (error instanceof StoaError || error instanceof TryAgain) return error;
  const code = codeOf(error);
  // Errors of the driver have a code. The others are errors of the transaction's body.
  if (code === '') return error;
  if (code === '25006') return readOnlyDatabase(error);
  if (code === '08P01' && messageOf(error).includes('startup parameter'))
    return new StoaError(
      'invalid_config',
      `The program between this server and PostgreSQL refuses the connection: ${messageOf(error)}.`,
      { fix: 'Set ignore_startup_parameters of PgBouncer, as docs/cluster.md says.', cause: error },
    );
  if (unavailableCodes.test(code)) {
    return new StoaError('backend_unavailable', `PostgreSQL does not answer: ${messageOf(error) || code}.`, {
      fix: 'Check that the server runs and can be reached.',
      cause: error,
    });
  }
  if (code === '57014') {
    return new StoaError('backend_unavailable', `PostgreSQL ended a statement: ${messageOf(error)}.`, {
      fix: 'See in pg_stat_activity what it waits for, or raise statementSecondsMax.',
      cause: error,
    });
  }
  if (code === '53100')
    return new StoaError('disk_full', 'The disk of the PostgreSQL server is full.', { cause: error });
  const refused = refusedConnections.get(code);
  if (refused !== undefined)
    return new StoaError('invalid_config', `PostgreSQL refused the connection: ${messageOf(error)}.`, {
      fix: refused,
      cause: error,
    });
  return new StoaError('engine', `PostgreSQL reported: ${messageOf(error)}.`, { cause: error });
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** The code of the driver's error, also inside an error of Stoa. */
export function causeCodeOf(error: unknown): string {
  return codeOf(error instanceof StoaError ? error.cause : error);
}
