/** Documents of stores that return them as JSON objects with the seed's fields. */
import { StoaError } from '../core/errors.js';
import { msOf, normaliseTime } from '../datastore/documents/times.js';
import type { KeySummary, Scope } from '../datastore/model.js';

type Fields = Readonly<Record<string, unknown>>;

/** Two owners can have documents with one id, and CouchDB's collation considers some different texts equal. */
export function isOf(scope: Scope, fields: Fields): boolean {
  return fields['userId'] === scope.user && fields['namespace'] === scope.namespace;
}

export function isLiveDocument({ expiresAt }: Fields, nowMs: number): boolean {
  return typeof expiresAt !== 'string' || msOf(expiresAt) > nowMs;
}

/** Undefined if the size is not stored, and the document itself must be read. */
export function storedSummary({ key, version, sizeBytes, updatedAt }: Fields): KeySummary | undefined {
  if (typeof sizeBytes !== 'number' || typeof updatedAt !== 'string') return undefined;
  return {
    key: String(key),
    version: typeof version === 'number' ? version : 1,
    sizeBytes,
    updatedAt: normaliseTime(updatedAt),
  };
}

/** Names the document in an error about its stored fields. */
export function naming<Result>(document: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof StoaError)) throw error;
    const { code, message, details } = error;
    throw new StoaError(code, `${document}: ${message}`, { cause: error, ...(details && { details }) });
  }
}
