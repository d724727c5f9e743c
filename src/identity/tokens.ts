/** Bearer tokens: how they are made, read and compared. Nothing here stores anything. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Scopes } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';

/**
 * `api` is what `stoa token create` makes. `sign_in` is the code of a one-time link, which proves nothing
 * except one sign-in. `console` is the session that the sign-in starts.
 */
type TokenPurpose = 'api' | 'sign_in' | 'console';

/** What is kept of a user's token: everything but the secret. */
export interface TokenRecord {
  id: string;
  user: string;
  name: string;
  purpose: TokenPurpose;
  /** A console session of the operator, who can act for every user. */
  isOperator: boolean;
  /**
   * What the session was made with: the id of a token, or a mark of the operator's token. It ends with that
   * token. Null for tokens of the API.
   */
  grantedBy: string | null;
  /** SHA-256 of the whole token, in hex. */
  hash: string;
  scopes: Scopes;
  createdAtMs: number;
  /** Null: it does not expire. */
  expiresAtMs: number | null;
}

/** Bytes of a token's id, which is written in hex. */
export const tokenIdBytes = 10;

const tokenPattern = /^stoa_([0-9a-f]{20})_[A-Za-z0-9_-]{43}$/;
const operatorTokenPattern = /^stoa_operator_[A-Za-z0-9_-]{43}$/;

/** A new token: an id that finds its record, and 256 random bits that prove it. */
export function newToken(): { id: string; token: string } {
  const id = randomBytes(tokenIdBytes).toString('hex');
  return { id, token: `stoa_${id}_${randomBytes(32).toString('base64url')}` };
}

export function newOperatorToken(): string {
  return `stoa_operator_${randomBytes(32).toString('base64url')}`;
}

export function isOperatorToken(text: string): boolean {
  return operatorTokenPattern.test(text);
}

/** The id part of a user's token, or undefined if the text is not a token. */
export function tokenIdOf(text: string): string | undefined {
  return tokenPattern.exec(text)?.[1];
}

export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** Compares two hashes in a time that does not depend on where they differ. */
export function sameHash(left: string, right: string): boolean {
  const a = Buffer.from(left, 'hex');
  const b = Buffer.from(right, 'hex');
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * Whether two tokens are the same. Compares every character, so that the time does not show where they
 * differ.
 */
export function sameToken(left: string, right: string): boolean {
  if (left.length !== right.length) return false;
  let difference = 0;
  for (let index = 0; index < left.length; index += 1)
    difference |= left.charCodeAt(index) ^ right.charCodeAt(index);
  return difference === 0;
}

/** Names the operator's token without showing its hash: sessions of the operator end when the token is replaced. */
export function operatorMark(operatorTokenHash: string): string {
  return `operator:${hash('sha256', operatorTokenHash, 'hex').slice(0, 20)}`;
}

/** The part of a token that is not secret: `stoa_` and its id, or `stoa_operator`. */
export function publicPart(token: string): string {
  return token.slice(0, token.indexOf('_', 5));
}

/** The same part, from the id of a token. */
export function publicPartOf(tokenId: string): string {
  return `stoa_${tokenId}`;
}

export function isExpired(token: Pick<TokenRecord, 'expiresAtMs'>, nowMs: number): boolean {
  return token.expiresAtMs !== null && token.expiresAtMs <= nowMs;
}

export function tokenRemovedError(): StoaError {
  return new StoaError('unauthenticated', 'The bearer token was revoked or has expired.', {
    fix: 'Make a new one with "stoa token create".',
  });
}

export function tooManyTokens(perUserMax: number): StoaError {
  return limitError('quota_exceeded', {
    subject: 'With this token the user',
    unit: 'valid tokens',
    limit: 'tokensPerUserMax',
    limits: { tokensPerUserMax: perUserMax },
    received: perUserMax + 1,
    advice: 'Revoke a token that is no longer used',
  });
}
