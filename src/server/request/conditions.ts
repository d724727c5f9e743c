/**
 * Preconditions of requests: `ETag` is the quoted version; `If-Match` and `If-None-Match` are parsed here.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { StoaError } from '../../core/errors.js';

export interface Conditions {
  /** 0: the record must not exist yet. */
  ifVersion: number | undefined;
  ifExists: boolean;
}

export const unconditional: Conditions = { ifVersion: undefined, ifExists: false };
/** As `entityTag` writes it: versions begin at 1, and "01" is never a tag. */
const versionTag = /^"([1-9]\d{0,14})"$/;

export function entityTag(version: number): string {
  return `"${version}"`;
}

/** The preconditions in the headers of a write. */
export function conditionsOf(headers: IncomingHttpHeaders): Conditions {
  const ifMatch = headers['if-match']?.trim();
  const ifNoneMatch = headers['if-none-match']?.trim();
  if (ifMatch === undefined && ifNoneMatch === undefined) return unconditional;
  if (ifMatch !== undefined && ifNoneMatch !== undefined) {
    throw new StoaError('invalid_request', 'The request has both If-Match and If-None-Match.', {
      fix: 'Send one of them.',
    });
  }
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatch === '*') return { ifVersion: 0, ifExists: false };
    throw new StoaError(
      'invalid_request',
      `If-None-Match is ${ifNoneMatch.slice(0, 100)}. Expected * on a write.`,
      { fix: 'Send "*", or use If-Match with the version that you read.' },
    );
  }
  if (ifMatch === '*') return { ifVersion: undefined, ifExists: true };
  const version = versionTag.exec(ifMatch as string)?.[1];
  if (version !== undefined) return { ifVersion: Number(version), ifExists: false };
  if (/^(W\/)?"[^"]*"$/.test(ifMatch as string)) {
    throw new StoaError(
      'version_conflict',
      `If-Match is ${ifMatch?.slice(0, 100)}, which is not the current version.`,
      { fix: 'Read the record again and send its ETag unchanged.' },
    );
  }
  throw new StoaError(
    'invalid_request',
    `If-Match is ${ifMatch?.slice(0, 100)}. Expected one quoted version like "3", or *.`,
    { fix: 'Send the ETag from your last read, with its quotes.' },
  );
}

/** True if the reader already has this version, so that the answer is 304. */
export function isNotModified(ifNoneMatch: string | undefined, version: number): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch
    .split(',')
    .some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === entityTag(version));
}
