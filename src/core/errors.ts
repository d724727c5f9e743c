/** The error class, and the table that maps each code to an HTTP status, a CLI exit status and a title. */

interface ErrorKind {
  /** HTTP status of the answer. */
  readonly status: number;
  /** Exit status of the CLI: 1 failure, 2 usage, 3 auth, 4 not found, 5 conflict, 6 try again. */
  readonly exit: number;
  /** The RFC 9457 title: the same words for every occurrence of the code. */
  readonly title: string;
  /** Whether the same request may succeed later: shortly, or when the server was repaired. */
  readonly passes?: 'shortly' | 'repaired';
}

/** Every code that Stoa returns. The comment of a code says when it is returned. */
export const errorKinds = {
  /** A body, parameter, id or flag does not fit its schema; `details` names the fields. */
  invalid_request: { status: 400, exit: 2, title: 'The request is not valid' },
  /** An id has the wrong length for its kind. */
  invalid_id_length: { status: 400, exit: 2, title: 'The id has the wrong length' },
  /** An id has characters that its kind does not allow. */
  invalid_id_digits: { status: 400, exit: 2, title: 'The id has characters that are not allowed' },
  /** A stored record does not have the shape that its family declares. */
  invalid_data: { status: 500, exit: 1, title: 'Stored data is not valid' },
  /** A stored value could not be decoded, or a value could not be encoded. */
  serialization: { status: 500, exit: 1, title: 'A stored value could not be read or written' },
  /** A list cursor was not made by this server, or belongs to another list. */
  invalid_cursor: { status: 400, exit: 2, title: 'The cursor is not valid' },
  /** The request has no credentials, or invalid ones. */
  unauthenticated: { status: 401, exit: 3, title: 'Credentials are missing or not valid' },
  /** The credentials are valid but do not allow this operation. */
  forbidden: { status: 403, exit: 3, title: 'Not allowed with these credentials' },
  /** The Host or Origin header names a site that this server does not serve. */
  origin_refused: { status: 403, exit: 3, title: 'The Host or Origin is not served here' },
  /** The record does not exist, or belongs to another user. */
  not_found: { status: 404, exit: 4, title: 'Not found' },
  /** The path exists, but not with this method. */
  method_not_allowed: { status: 405, exit: 2, title: 'The method is not allowed here' },
  /** The state of the record does not allow the operation; `details` names both states. */
  conflict: { status: 409, exit: 5, title: 'The current state does not allow this' },
  /** The lifecycle table has no such transition. */
  invalid_transition: { status: 409, exit: 5, title: 'The state table has no such transition' },
  /** A quota is used up. */
  quota_exceeded: { status: 409, exit: 5, title: 'The quota is used up' },
  /** The fencing number is lower than the lease's, or the lease has expired. */
  fenced: { status: 409, exit: 5, title: 'The fencing number is out of date' },
  /** A record with this name or id exists already. */
  already_exists: { status: 409, exit: 5, title: 'The record exists already' },
  /** The `_id` of a document to write belongs to a document of another user or namespace. */
  id_collision: { status: 409, exit: 5, title: 'The id belongs to another document' },
  /** If-Match or ifVersion named a version that is not the current one. */
  version_conflict: { status: 412, exit: 5, title: 'The version is not the current one' },
  /** The change feed no longer has the entries after this position: read the current state again. */
  resync: { status: 410, exit: 6, title: 'The position is too old' },
  /** The body is larger than the limit. */
  too_large: { status: 413, exit: 2, title: 'Too large' },
  /** The client disconnected during long work. No client reads this answer; logs and metrics count it. */
  cancelled: { status: 499, exit: 1, title: 'The client disconnected' },
  /** The complete request did not arrive in time. */
  request_timeout: { status: 408, exit: 6, title: 'The request took too long to arrive' },
  /** The headers of the request are larger than the limit. */
  headers_too_large: { status: 431, exit: 2, title: 'The headers are too large' },
  /** The Content-Type is not one that the route reads. */
  unsupported_media_type: { status: 415, exit: 2, title: 'The content type is not supported' },
  /** The request is well formed, but a value in it is too long or names a record that does not exist. */
  unprocessable: { status: 422, exit: 2, title: 'The request cannot be carried out' },
  /** The Idempotency-Key was used before with another body. */
  idempotency_mismatch: { status: 422, exit: 2, title: 'The Idempotency-Key was used with another body' },
  /** The Idempotency-Key was used before, and its answer contained a secret, which is not stored. */
  idempotency_unrepeatable: {
    status: 409,
    exit: 5,
    title: 'The answer to this Idempotency-Key was not kept',
  },
  /** A rate limit is used up. */
  rate_limited: { status: 429, exit: 6, passes: 'shortly', title: 'Too many requests' },
  /** A fault in Stoa. The log has the details under the request id. */
  internal: { status: 500, exit: 1, passes: 'repaired', title: 'Something went wrong inside the server' },
  /** The storage engine reported a failure that has no better code. */
  engine: { status: 500, exit: 1, passes: 'repaired', title: 'The storage engine reported a failure' },
  /** An optional package that the configuration needs is not installed. */
  missing_package: { status: 500, exit: 1, title: 'A package that the configuration needs is not installed' },
  /** The configured backend cannot do this. */
  unsupported: { status: 501, exit: 1, title: 'The configured backend cannot do this' },
  /** Too many transactions wait for the disk. */
  overloaded: { status: 503, exit: 6, passes: 'shortly', title: 'Too much work is waiting' },
  /** A commit or fsync failed: writes are refused, reads continue. */
  writes_stopped: { status: 503, exit: 6, passes: 'repaired', title: 'Writes are stopped' },
  /** The disk, or the memory of Redis, is full: this write was refused; the next write is attempted again. */
  disk_full: { status: 503, exit: 6, passes: 'repaired', title: 'There is no space left' },
  /** A database server that a backend needs does not answer. */
  backend_unavailable: {
    status: 503,
    exit: 6,
    passes: 'shortly',
    title: 'The database behind this does not answer',
  },
  /** The server or store is closing. */
  closed: { status: 503, exit: 6, passes: 'shortly', title: 'The server is stopping' },
  /** Another process owns the data directory; the message names it. */
  locked: { status: 503, exit: 5, title: 'Another process owns the data directory' },
  /** The data was written by a version of Stoa with another layout, usually a newer one. */
  newer_data: { status: 500, exit: 1, title: 'The data is of another version than this program' },
  /** The data directory is damaged, or does not match the configured engine or shards. */
  damaged_data: { status: 500, exit: 1, title: 'The data directory cannot be used' },
  /** A backup is incomplete, altered or out of order. */
  damaged_backup: { status: 500, exit: 1, title: 'The backup cannot be used' },
  /** A flag, variable or configuration value is unknown or wrong. */
  invalid_config: { status: 500, exit: 2, title: 'The configuration is not valid' },
  /** No server answers at the address. */
  unreachable: { status: 503, exit: 6, passes: 'shortly', title: 'The server does not answer' },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorKinds;

export interface ErrorOptions {
  /** What the reader can do about it. */
  fix?: string;
  /** Structured facts for programs: field names, states, limits. */
  details?: Record<string, unknown>;
  cause?: unknown;
}

/** Every failure that Stoa reports on purpose: a stable code, a sentence, and a fix where there is one. */
export class StoaError extends Error {
  readonly code: ErrorCode;
  readonly fix: string | undefined;
  readonly details: Record<string, unknown> | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'StoaError';
    this.code = code;
    this.fix = options.fix;
    this.details = options.details;
  }

  get status(): number {
    return errorKinds[this.code].status;
  }

  get exit(): number {
    return errorKinds[this.code].exit;
  }

  get title(): string {
    return errorKinds[this.code].title;
  }

  /** Whether the same request may succeed later: shortly, or when the server was repaired. */
  get passes(): ErrorKind['passes'] {
    const kind: ErrorKind = errorKinds[this.code];
    return kind.passes;
  }
}

/** The error of a write whose expected version is not the current one. A version of 0 means: no such record. */
export function versionFailure(what: string, current: number, expected: number): StoaError {
  const now = current === 0 ? 'does not exist' : `has version ${current}`;
  return new StoaError(
    'version_conflict',
    `${what} ${now}; ${expected === 0 ? 'it was expected not to exist' : `version ${expected} was expected`}.`,
    { fix: 'Read the record again, and send the change with its current version.' },
  );
}

/** The message of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/**
 * The reason of a failed call of the file system, for a sentence that names the path itself:
 * `no such file or directory (ENOENT)`. Other errors have their message.
 */
export function fileReasonOf(thrown: unknown): string {
  const message = messageOf(thrown);
  const [, code, reason] = /^(E[A-Z]+): (.+?), \w+(?: '.*')?$/s.exec(message) ?? [];
  return code === undefined ? message : `${reason} (${code})`;
}

/** The complaint of `JSON.parse` without the text that it quotes, which may contain a secret. */
export function jsonFaultOf(thrown: unknown): string {
  return messageOf(thrown).replace(/(^|, )(\.\.\.)?".*$/s, '');
}
