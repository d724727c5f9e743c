/** Tokens in PostgreSQL: any number of servers share them. */
import { operatorCaller } from '../../../core/caller.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type Writer, writeOne } from '../../../core/write.js';
import { tokenChange } from '../../../identity/announcements.js';
import type { IdentityPort } from '../../../identity/port.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { type TokenRecord, tooManyTokens } from '../../../identity/tokens.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type PostgresSql, query } from '../database/connection.js';
import type { DatabaseClock } from '../database/database-clock.js';
import { type Row, inMs, numberOrNull, number, text, time } from '../registry/rows.js';
import { Spellings } from '../registry/spellings.js';
import { userIdOf } from '../registry/users.js';
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';
import { Removals } from './removals.js';
import { tokenOwnerId } from './caller-check.js';

export interface PostgresIdentityOptions {
  readonly sql: PostgresSql;
  readonly databaseClock: DatabaseClock;
  readonly limits: Limits;
  /** Called with each token that was revoked or has expired, through this server or another. */
  readonly onRemoved: (id: string) => void;
  /** Called with each agent that was deleted or renamed, or whose lease was released. */
  readonly onAgentForgotten: (agent: ActingAgent) => void;
  /** Called after a connection was lost: tokens may have been removed that this server has not heard of. */
  readonly onMissed: () => void;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown) => void;
  /** Milliseconds since 1970, instead of the database's clock; for tests. */
  readonly clock?: () => number;
}

export const tokenColumns = `token_id, user_name, name, purpose, is_operator, granted_by, hash, can_write, namespaces,
  ${inMs('created_at')}, ${inMs('expires_at')}, ${inMs('last_used_at')}`;

/** The tables are those of the registry: open that one first. */
export async function openPostgresIdentity(options: PostgresIdentityOptions): Promise<PostgresIdentity> {
  const identity = new PostgresIdentity(options);
  await identity.removals.open();
  return identity;
}

export class PostgresIdentity implements IdentityPort {
  readonly removals: Removals;
  readonly #sql: PostgresSql;
  readonly #options: PostgresIdentityOptions;
  readonly #spellings: Spellings;

  constructor(options: PostgresIdentityOptions) {
    this.#sql = options.sql;
    this.#options = options;
    this.#spellings = new Spellings(options.limits.tokensCachedMax);
    this.removals = new Removals(options);
  }

  /** The database was restored. */
  forgetAll(): void {
    this.#spellings.clear();
    this.#options.onMissed();
  }

  readonly isCacheValid: IdentityPort['isCacheValid'] = () => this.removals.isReceiving();

  readonly checkUser: IdentityPort['checkUser'] = (user) => this.#spellings.check(this.#sql, user);

  readonly createToken: IdentityPort['createToken'] = (record, perUserMax) => {
    const userId = userIdOf(record.user);
    return new PostgresStep([{ table: 'users', key: userId }], async (work) => {
      await this.#spellings.check(work.sql, record.user);
      // A user without a write has no row to lock.
      await work.rows(lockKeySql('userTokens'), [userId]);
      const [held] = await work.rows<Row>(
        'SELECT count(*) AS tokens FROM (SELECT 1 FROM registry.tokens WHERE user_id = $1 LIMIT $2) AS found',
        [userId, perUserMax],
      );
      if (held === undefined || number(held, 'tokens') >= perUserMax) throw tooManyTokens(perUserMax);
      await insertToken(work, record, null);
      return record;
    });
  };

  readonly findToken: IdentityPort['findToken'] = async (id) => {
    const [row] = await query<Row>(
      this.#sql,
      `SELECT ${tokenColumns} FROM registry.tokens WHERE token_id = $1
        AND user_id = (SELECT user_id FROM registry.owners WHERE id = $2)`,
      [id, tokenOwnerId(id)],
    );
    return row === undefined ? undefined : tokenOf(row);
  };

  readonly listTokens: IdentityPort['listTokens'] = async (user, limit, afterId) => {
    await this.checkUser(user);
    const rows = await query<Row>(
      this.#sql,
      `SELECT ${tokenColumns} FROM registry.tokens WHERE user_id = $1 AND token_id > $2 ORDER BY token_id
        LIMIT $3`,
      [userIdOf(user), afterId ?? '', limit],
    );
    return rows.map((row) => ({
      record: tokenOf(row),
      lastUsedAtMs: numberOrNull(row, 'last_used_at') ?? undefined,
    }));
  };

  readonly revokeTokens: IdentityPort['revokeTokens'] = (user, id) => {
    const userId = userIdOf(user);
    return new PostgresStep([{ table: 'users', key: userId }], async (work) => {
      const gone = await work.rows<Row>(
        `DELETE FROM registry.tokens WHERE user_id = $1 AND user_name = $2
          AND ($3::text IS NULL OR token_id = $3 OR granted_by = $3) RETURNING ${tokenColumns}`,
        [userId, user, id ?? null],
      );
      return this.#removed(work, gone, 'token.revoked');
    });
  };

  /** A token that was revoked meanwhile leaves nothing behind. */
  readonly recordUses: IdentityPort['recordUses'] = (uses) => {
    // In one order for all servers, so that two of them do not wait for each other.
    const ids = [...uses.keys()].toSorted();
    return new PostgresStep([], async (work) => {
      await work.rows(
        `UPDATE registry.tokens t SET last_used_at = greatest(t.last_used_at, used.at)
          FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS used (id, at, owner)
          WHERE t.token_id = used.id AND t.user_id = (SELECT user_id FROM registry.owners o
            WHERE o.id = used.owner)`,
        [ids, ids.map((id) => time(uses.get(id) ?? 0)), ids.map(tokenOwnerId)],
      );
    });
  };

  /** Removes tokens that have expired, a few in each write. */
  async sweep(writer: Writer, isOver: () => boolean = () => false): Promise<void> {
    const { sweepStepMax } = this.#options.limits;
    const step = new PostgresStep([], async (work) => {
      const gone = await work.rows<Row>(
        `DELETE FROM registry.tokens WHERE (user_id, token_id) IN (SELECT user_id, token_id
          FROM registry.tokens
          WHERE expires_at <= (SELECT coalesce($1::timestamptz, clock_timestamp())) LIMIT $2
            FOR UPDATE SKIP LOCKED) RETURNING ${tokenColumns}`,
        [this.#options.clock === undefined ? null : time(this.#options.clock()), sweepStepMax],
      );
      return this.#removed(work, gone, 'token.expired');
    });
    const caller = operatorCaller();
    while (!isOver() && (await writeOne(writer, { caller }, step)).length === sweepStepMax);
  }

  async #removed(
    work: Work,
    gone: readonly Row[],
    kind: 'token.revoked' | 'token.expired',
  ): Promise<string[]> {
    const records = gone.map(tokenOf);
    const ids = records.map(({ id }) => id);
    if (ids.length === 0) return [];
    await work.rows('DELETE FROM registry.owners WHERE id = ANY($1::text[])', [ids.map(tokenOwnerId)]);
    await this.removals.notify(work, ids);
    work.announce(...records.map((record) => tokenChange(kind, record)));
    // This server forgets them before the answer, not when its own notice comes back.
    work.afterCommit(() => ids.forEach(this.#options.onRemoved));
    return ids;
  }
}

export async function insertToken(
  work: Work,
  record: TokenRecord,
  lastUsedAtMs: number | null,
): Promise<void> {
  const userId = userIdOf(record.user);
  await work.rows('INSERT INTO registry.owners (id, user_id) VALUES ($1, $2)', [
    tokenOwnerId(record.id),
    userId,
  ]);
  await work.rows(
    `INSERT INTO registry.tokens (user_id, token_id, user_name, name, purpose, is_operator, granted_by, hash,
      can_write, namespaces, created_at, expires_at, last_used_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
    [
      userId,
      record.id,
      record.user,
      record.name,
      record.purpose,
      record.isOperator,
      record.grantedBy,
      record.hash,
      record.scopes.write,
      record.scopes.namespaces === null ? null : JSON.stringify(record.scopes.namespaces),
      time(record.createdAtMs),
      time(record.expiresAtMs),
      time(lastUsedAtMs),
    ],
  );
  work.announce(tokenChange('token.created', record));
}

/** Makes room for a token of a move with the same id. */
export async function removeToken(work: Work, id: string): Promise<void> {
  await work.rows(
    `WITH owner AS (DELETE FROM registry.owners WHERE id = $2 RETURNING user_id)
      DELETE FROM registry.tokens t USING owner WHERE t.user_id = owner.user_id AND t.token_id = $1`,
    [id, tokenOwnerId(id)],
  );
}

export function tokenOf(row: Row): TokenRecord {
  return {
    id: text(row, 'token_id'),
    user: text(row, 'user_name'),
    name: text(row, 'name'),
    // The column holds what `insertToken` wrote.
    purpose: text(row, 'purpose') as TokenRecord['purpose'],
    isOperator: row['is_operator'] === true,
    grantedBy: row['granted_by'] === null ? null : text(row, 'granted_by'),
    hash: text(row, 'hash'),
    scopes: {
      write: row['can_write'] === true,
      // The column holds what `createToken` wrote.
      namespaces: row['namespaces'] === null ? null : (JSON.parse(text(row, 'namespaces')) as string[]),
    },
    createdAtMs: number(row, 'created_at'),
    expiresAtMs: numberOrNull(row, 'expires_at'),
  };
}
