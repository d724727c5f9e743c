/** Conditional requests: `ETag` is the quoted version; `If-Match` and `If-None-Match` are read here. */
import type { IncomingHttpHeaders } from 'node:http';
import { StoaError } from '../core/errors.js';

export interface Conditions {
  /** 0: it must not exist yet. */
  ifVersion: number | undefined;
  ifExists: boolean;
}

export const unconditional: Conditions = { ifVersion: undefined, ifExists: false };
/** As `entityTag` writes it: versions count from 1, and "01" is the tag of nothing. */
const versionTag = /^"([1-9]\d{0,14})"$/;

export function entityTag(version: number): string {
  return `"${version}"`;
}

/** What the headers of a write ask for. */
export function conditionsOf(headers: IncomingHttpHeaders): Conditions {
  const ifMatch = headers['if-match']?.trim();
  const ifNoneMatch = headers['if-none-match']?.trim();
  if (ifMatch === undefined && ifNoneMatch === undefined) return unconditional;
  if (ifMatch !== undefined && ifNoneMatch !== undefined) {
    throw new StoaError('invalid_request', 'If-Match and If-None-Match exclude each other.', {
      fix: 'Send one of them.',
    });
  }
  if (ifNoneMatch !== undefined) {
    if (ifNoneMatch === '*') return { ifVersion: 0, ifExists: false };
    throw new StoaError('invalid_request', 'On a write If-None-Match can only be "*".', {
      fix: 'Use If-Match with the version that you read.',
    });
  }
  if (ifMatch === '*') return { ifVersion: undefined, ifExists: true };
  const version = versionTag.exec(ifMatch as string)?.[1];
  if (version !== undefined) return { ifVersion: Number(version), ifExists: false };
  if (/^(W\/)?"[^"]*"$/.test(ifMatch as string)) {
    throw new StoaError('version_conflict', `${ifMatch} is not the current version.`, {
      fix: 'Read it again and send its ETag as it is.',
    });
  }
  throw new StoaError('invalid_request', 'If-Match takes one quoted version, like "3", or *.', {
    fix: 'Send the ETag of the answer that you read, with its quotes.',
  });
}

/** True when a reader has this version already and 304 is all it needs. */
export function isNotModified(ifNoneMatch: string | undefined, version: number): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch
    .split(',')
    .some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === entityTag(version));
}
