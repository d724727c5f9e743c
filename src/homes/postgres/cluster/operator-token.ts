/**
 * The operator's token where many servers share one database: from the environment, or made at the first
 * start and shown once.
 */
import { StoaError } from '../../../core/errors.js';
import { hashToken, newOperatorToken } from '../../../identity/tokens.js';
import type { PostgresSql } from '../database/connection.js';
import { readFact, writeFactOnce } from './facts.js';

export interface OperatorCredentials {
  /** Null where only the hash is known. */
  readonly token: string | null;
  readonly hash: string;
}

/** For a process that serves nobody. The first server makes the token. */
export function noCredentials(): OperatorCredentials {
  return { token: null, hash: hashToken(newOperatorToken()) };
}

const printable = /^[\x21-\x7e]{32,512}$/;

export function checkOperatorToken(given: string): void {
  if (!printable.test(given))
    throw new StoaError(
      'invalid_config',
      given.length < 32 || given.length > 512
        ? `STOA_OPERATOR_TOKEN has ${given.length} characters. It must have 32 to 512.`
        : 'STOA_OPERATOR_TOKEN contains a space or a character outside printable ASCII.',
      { fix: 'Make one with: openssl rand -hex 32' },
    );
}

export async function operatorCredentials(
  sql: PostgresSql,
  given: string | undefined,
): Promise<OperatorCredentials> {
  if (given !== undefined) return { token: given, hash: hashToken(given) };
  const known = await readFact(sql, 'operator_token_hash');
  if (known !== undefined) return { token: null, hash: known };
  const token = newOperatorToken();
  const hash = await writeFactOnce(sql, 'operator_token_hash', hashToken(token));
  // Another server may have made its token first.
  return { token: hash === hashToken(token) ? token : null, hash };
}
