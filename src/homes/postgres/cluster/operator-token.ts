/**
 * The operator's token where many servers share one database: from the environment, or made at the first
 * start and shown once.
 */
import { StoaError } from '../../../core/errors.js';
import { hashToken, newOperatorToken } from '../../../identity/tokens.js';
import type { PostgresSql } from '../database/connection.js';
import { readFact, writeFact, writeFactOnce } from './facts.js';

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

/**
 * A given token is noted as a hash, so that a server without one accepts it too. A token that differs from the
 * noted one replaces it, and `onReplaced` is called: a lost token must be replaceable.
 */
export async function operatorCredentials(
  sql: PostgresSql,
  given: string | undefined,
  onReplaced: (warning: StoaError) => void,
): Promise<OperatorCredentials> {
  if (given !== undefined) {
    const hash = hashToken(given);
    if ((await writeFactOnce(sql, 'operator_token_hash', hash)) !== hash) {
      await writeFact(sql, 'operator_token_hash', hash);
      onReplaced(replaced());
    }
    return { token: given, hash };
  }
  const known = await readFact(sql, 'operator_token_hash');
  if (known !== undefined) return { token: null, hash: known };
  const token = newOperatorToken();
  const hash = await writeFactOnce(sql, 'operator_token_hash', hashToken(token));
  // Another server may have made its token first.
  return { token: hash === hashToken(token) ? token : null, hash };
}

function replaced(): StoaError {
  return new StoaError(
    'invalid_config',
    'STOA_OPERATOR_TOKEN differs from the token that this Stoa had before. The new token replaces it.' +
      ' Servers that still run accept only the token that they were started with.',
    { fix: 'Set the same STOA_OPERATOR_TOKEN on every server, and restart the servers that have another.' },
  );
}
