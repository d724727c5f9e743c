/** Tokens in the kernel's first shard: by id, and by user for lists. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../../core/entries-at-most.js';
import { step } from '../step.js';
import type { IdentityPort } from '../../../identity/port.js';
import { tokenChange } from '../../../identity/announcements.js';
import { type TokenRecord, isExpired, tooManyTokens } from '../../../identity/tokens.js';
import { userKey } from '../../../identity/user-key.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { IndexedFamily } from '../indexed-family.js';
import { isKnownUser } from '../registry/users.js';

export const tokenFamilies = {
  /** Token id (10 bytes) → record as JSON. */
  tokens: 'identity/tokens',
  /** User (32 bytes) ‖ token id → nothing. */
  tokensByUser: 'identity/tokens_by_user',
  /** Token id → time of its last use, separate from the record because it changes often. */
  tokenUses: 'identity/token_uses',
} as const;

export const identityFamilies: readonly string[] = Object.values(tokenFamilies);

export const expiryTimer = 'identity.token';

export const tokenRecords = new IndexedFamily<TokenRecord>({
  family: tokenFamilies.tokens,
  keyOf: ({ id }) => Buffer.from(id, 'hex'),
  encode: (record) => Buffer.from(JSON.stringify(record)),
  indexes: [
    {
      family: tokenFamilies.tokensByUser,
      keysOf: ({ user, id }) => Buffer.concat([userKey(user), Buffer.from(id, 'hex')]),
    },
  ],
});

export class DirectoryIdentity implements IdentityPort {
  readonly #kernel: Kernel;
  readonly #onRemoved: (id: string) => void;
  /**
   * Users that were found in this exact spelling, which never changes. It saves a read of 1.5 µs, done twice
   * for a document: 5 % of a GET of it.
   */
  readonly #knownUsers: LRUCache<string, true>;

  /** `onRemoved` is called with each token that was revoked or has expired, when that is durable. */
  constructor(kernel: Kernel, onRemoved: (id: string) => void = () => undefined) {
    this.#kernel = kernel;
    this.#onRemoved = onRemoved;
    this.#knownUsers = new LRUCache(entriesAtMost(kernel.limits.tokensCachedMax));
    kernel.handleTimer(expiryTimer, (tx, reference) => {
      const record = readToken(tx, reference);
      if (record !== undefined && isExpired(record, tx.nowMs)) this.#remove(tx, record, 'token.expired');
    });
  }

  readonly checkUser: IdentityPort['checkUser'] = (user) => {
    if (this.#knownUsers.get(user) === true) return;
    if (isKnownUser(this.#kernel.storeOf(userKey(user)), user)) this.#knownUsers.set(user, true);
  };

  readonly createToken: IdentityPort['createToken'] = (record, perUserMax) =>
    step(this.#kernel.root, (tx) => createToken(tx, record, perUserMax));

  readonly findToken: IdentityPort['findToken'] = async (id) =>
    readToken(this.#kernel.root, Buffer.from(id, 'hex'));

  readonly listTokens: IdentityPort['listTokens'] = async (user, limit, afterId) => {
    const { root } = this.#kernel;
    return tokenIds(root, user, limit, afterId).flatMap((id) => {
      const record = readToken(root, id);
      const use = root.get(tokenFamilies.tokenUses, id);
      return record === undefined
        ? []
        : [{ record, lastUsedAtMs: use === undefined ? undefined : Number(use.toString()) }];
    });
  };

  readonly revokeTokens: IdentityPort['revokeTokens'] = (user, id) =>
    step(this.#kernel.root, (tx) => {
      return tokenIds(tx, user, Infinity, undefined).flatMap((tokenId) => {
        const record = readToken(tx, tokenId);
        if (record === undefined || record.user !== user) return [];
        if (id !== undefined && record.id !== id && record.grantedBy !== id) return [];
        this.#remove(tx, record, 'token.revoked');
        return [record.id];
      });
    });

  /** No other process writes into this directory. */
  readonly isCacheValid: IdentityPort['isCacheValid'] = () => true;

  readonly recordUses: IdentityPort['recordUses'] = (uses) => {
    return step(this.#kernel.root, (tx) => {
      for (const [id, atMs] of uses) {
        const key = Buffer.from(id, 'hex');
        // Nothing is written for a token that was revoked in the meantime.
        if (tx.get(tokenFamilies.tokens, key) !== undefined)
          tx.put(tokenFamilies.tokenUses, key, Buffer.from(String(atMs)));
      }
    });
  };

  #remove(tx: Transaction, record: TokenRecord, kind: 'token.revoked' | 'token.expired'): void {
    removeToken(tx, record, kind);
    tx.onDurable(() => this.#onRemoved(record.id));
  }
}

function createToken(tx: Transaction, record: TokenRecord, perUserMax: number): TokenRecord {
  if (tokenIds(tx, record.user, perUserMax, undefined).length >= perUserMax) throw tooManyTokens(perUserMax);
  addToken(tx, record);
  return record;
}

function addToken(tx: Transaction, record: TokenRecord): void {
  tokenRecords.put(tx, undefined, record);
  if (record.expiresAtMs !== null)
    tx.schedule({ atMs: record.expiresAtMs, kind: expiryTimer, reference: Buffer.from(record.id, 'hex') });
  tx.change(tokenChange('token.created', record));
}

/** Writes a token of a move over one with the same id. */
export function restoreToken(tx: Transaction, record: TokenRecord, lastUsedAtMs: number | null): void {
  const id = Buffer.from(record.id, 'hex');
  const before = readToken(tx, id);
  if (before !== undefined) removeToken(tx, before, 'token.revoked');
  addToken(tx, record);
  if (lastUsedAtMs !== null) tx.put(tokenFamilies.tokenUses, id, Buffer.from(String(lastUsedAtMs)));
}

function removeToken(tx: Transaction, record: TokenRecord, kind: 'token.revoked' | 'token.expired'): void {
  const id = Buffer.from(record.id, 'hex');
  tokenRecords.remove(tx, record);
  tx.delete(tokenFamilies.tokenUses, id);
  if (record.expiresAtMs !== null)
    tx.unschedule({ atMs: record.expiresAtMs, kind: expiryTimer, reference: id });
  tx.change(tokenChange(kind, record));
}

export function readToken(reader: Reader, id: Buffer): TokenRecord | undefined {
  const stored = reader.get(tokenFamilies.tokens, id);
  return stored && decodeToken(stored);
}

/** The family contains nothing else. */
export function decodeToken(row: Buffer): TokenRecord {
  return JSON.parse(row.toString()) as TokenRecord;
}

function tokenIds(reader: Reader, user: string, limit: number, afterId: string | undefined): Buffer[] {
  const prefix = userKey(user);
  const { gte, ...end } = prefixRange(prefix);
  const start =
    afterId === undefined
      ? { ...(gte && { gte }) }
      : { gt: Buffer.concat([prefix, Buffer.from(afterId, 'hex')]) };
  const bounds = Number.isFinite(limit) ? { ...start, ...end, limit } : { ...start, ...end };
  return Array.from(reader.range(tokenFamilies.tokensByUser, bounds), ({ key }) =>
    key.subarray(prefix.length),
  );
}
