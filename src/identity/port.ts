/** What identity needs of storage: reads that answer, and writes as steps. */
import type { Step } from '../core/write.js';
import type { TokenRecord } from './tokens.js';

export interface TokenWithUse {
  record: TokenRecord;
  lastUsedAtMs: number | undefined;
}

/** A home also reports each token that was removed, once that is durable, so that it can be forgotten. */
export interface IdentityPort {
  /**
   * Refuses a second spelling of a known user with `conflict`. Every request asks, so the answer is not a
   * promise if the user is already known.
   */
  checkUser(user: string): void | Promise<void>;
  /** Refuses with `quota_exceeded` beyond `perUserMax` tokens. */
  createToken(record: TokenRecord, perUserMax: number): Step<TokenRecord>;
  findToken(id: string): Promise<TokenRecord | undefined>;
  /** In the order of their ids, after `afterId`. */
  listTokens(user: string, limit: number, afterId: string | undefined): Promise<TokenWithUse[]>;
  /**
   * Removes one token of a user with the console sessions that it granted, or all tokens; answers the ids of
   * the removed tokens.
   */
  revokeTokens(user: string, id: string | undefined): Step<string[]>;
  /** False if notices of removed tokens may have been lost. Cached tokens are then not used. */
  isCacheValid(): boolean;
  recordUses(uses: ReadonlyMap<string, number>): Step<void>;
}
