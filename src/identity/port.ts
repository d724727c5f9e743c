/** What identity needs of storage. */
import type { Idempotency } from '../core/idempotency.js';
import type { TokenRecord } from './tokens.js';

export interface TokenWithUse {
  record: TokenRecord;
  lastUsedAtMs: number | undefined;
}

export interface IdentityPort {
  /** Whether something was written for the user yet. A second spelling of a known user is a `conflict`. */
  isKnownUser(user: string): boolean;
  /** Refuses with `quota_exceeded` beyond `perUserMax` tokens. The secret is not in the record, so that a repeat cannot be answered. */
  createToken(record: TokenRecord, perUserMax: number, idempotency: Idempotency | null): Promise<TokenRecord>;
  findToken(id: string): TokenRecord | undefined;
  /** In the order of their ids, after `afterId`. */
  listTokens(user: string, limit: number, afterId: string | undefined): TokenWithUse[];
  /** Removes one token of a user, or all of them; answers the ids that went. */
  revokeTokens(user: string, id: string | undefined): Promise<string[]>;
  recordUses(uses: ReadonlyMap<string, number>): Promise<void>;
}
