/**
 * The operator's token where many servers share one database: from the environment, or made at the first
 * start and shown once.
 */
import { StoaError } from '../../../core/errors.js';
import { hashToken, newOperatorToken } from '../../../identity/tokens.js';
import { type PostgresSql, query } from '../database/connection.js';
import { tokenNotice } from '../identity/removals.js';
import { readFact, writeFactOnce } from './facts.js';

export interface OperatorCredentials {
  /** Null if only the hash is known. */
  readonly token: string | null;
}

/** For a process that is not a server. The first server makes the token. */
export const noCredentials: OperatorCredentials = { token: null };

/** The hash of the token that is valid now. Without a token, a hash that no token has. */
export async function operatorTokenHash(sql: PostgresSql): Promise<string> {
  return (await readFact(sql, 'operator_token_hash')) ?? '';
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
 * A given token is noted as a hash, so that a server without one accepts it too. A token that differs from
 * the noted one replaces it, and `onReplaced` is called: a lost token must be replaceable.
 */
export async function operatorCredentials(
  sql: PostgresSql,
  given: string | undefined,
  onReplaced: (warning: StoaError) => void,
): Promise<OperatorCredentials> {
  if (given !== undefined) {
    const hash = hashToken(given);
    if ((await writeFactOnce(sql, 'operator_token_hash', hash)) !== hash) {
      await replaceHash(sql, hash);
      onReplaced(replaced());
    }
    return { token: given };
  }
  if ((await readFact(sql, 'operator_token_hash')) !== undefined) return noCredentials;
  const token = newOperatorToken();
  const hash = await writeFactOnce(sql, 'operator_token_hash', hashToken(token));
  // Another server may have made its token first.
  return { token: hash === hashToken(token) ? token : null };
}

/** The notice is in the same statement: a server that is killed here leaves no other with the old token in memory. */
async function replaceHash(sql: PostgresSql, hash: string): Promise<void> {
  await query(
    sql,
    `WITH stored AS (UPDATE cluster.facts SET value = $1 WHERE name = 'operator_token_hash' RETURNING 1)
      SELECT pg_notify($2, $3) FROM stored`,
    [hash, tokenNotice.channel, tokenNotice.operatorReplaced],
  );
}

function replaced(): StoaError {
  return new StoaError(
    'invalid_config',
    'STOA_OPERATOR_TOKEN differs from the token that this Stoa had before. The new token replaces it on all' +
      ' servers. A server that is started with the old one replaces it again.',
    { fix: 'Set the same STOA_OPERATOR_TOKEN on every server before its next start.' },
  );
}
