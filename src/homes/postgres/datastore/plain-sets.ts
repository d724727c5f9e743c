/**
 * Sets that do not need to read the document first. Sets that arrive at the same time share one statement and
 * one row of the feed.
 */
import { byAgent } from '../../../core/change.js';
import { documentSet } from '../../../datastore/changes.js';
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import { documentId } from '../../../datastore/documents/document-id.js';
import { sizeOf } from '../../../datastore/documents/merge-document.js';
import type { Scope } from '../../../datastore/model.js';
import type { DocumentWrite, WriteResult } from '../../../datastore/port.js';
import { timeOfMs } from '../../../datastore/documents/times.js';
import { tokenRemovedError } from '../../../identity/tokens.js';
import { StoaError, messageOf } from '../../../core/errors.js';
import { Grouping } from '../../../core/waiting/grouping.js';
import { shareLocksCte } from '../database/advisory-locks.js';
import { type Parameter, type PostgresSql, query } from '../database/connection.js';
import { isConcurrency } from '../database/errors.js';
import { tokenIsLive } from '../identity/token-check.js';
import { recordAgents } from './agents.js';
import { namespaceNameSql } from './namespace-name.js';
import { valuesList } from './sql.js';

export interface ScopeWrites {
  readonly scope: Scope;
  readonly writes: readonly DocumentWrite[];
}

interface PlainSet {
  readonly scope: Scope;
  readonly write: DocumentWrite;
  /** The token of the caller, or null. */
  readonly tokenId: string | null;
}

/** The sets of one caller that are written all or none. */
type Unit = readonly PlainSet[];

/** PostgreSQL writes two groups of this size at the same time faster than one group of twice the size. */
const writesGroupedMax = 32;
const attemptsMax = 10;

/** True if there is no metadata to merge and no version to compare, and the expiry is given. */
export function isPlainSet({ metadata, ifVersion, expiresAt, index }: DocumentWrite): boolean {
  return metadata === null && ifVersion === null && expiresAt !== undefined && index === undefined;
}

export class PlainSets {
  readonly #sql: PostgresSql;
  readonly #nowMs: () => number;
  readonly #grouped = new Grouping<Unit, WriteResult[]>({
    run: (units) => this.#writeGroup(units),
    itemsMax: writesGroupedMax,
    groupsMax: 3,
    namesOf: (unit) => unit.map(({ scope, write }) => nameOf(scope, write.key)),
  });

  constructor(sql: PostgresSql, nowMs: () => number) {
    this.#sql = sql;
    this.#nowMs = nowMs;
  }

  /** Writes all sets in one statement: all or none. No document may be named twice. */
  async write(tokenId: string | null, all: readonly ScopeWrites[]): Promise<WriteResult[][]> {
    const unit = all.flatMap(({ scope, writes }) => writes.map((write) => ({ scope, write, tokenId })));
    // A large unit would delay the small ones that wait for a group.
    const results =
      unit.length > writesGroupedMax ? await this.#writeLarge(unit) : await this.#grouped.add(unit);
    return partsOf(
      results,
      all.map(({ writes }) => writes.length),
    );
  }

  async #writeLarge(unit: Unit): Promise<WriteResult[]> {
    const results = wholeOrRefusal(await this.#upsert(unit));
    if (results instanceof StoaError) throw results;
    return results;
  }

  /** Independent units in one statement. If the statement fails, each unit gets its own. */
  async #writeGroup(units: readonly Unit[]): Promise<(WriteResult[] | Error)[]> {
    try {
      const results = await this.#upsert(units.flat());
      return partsOf(
        results,
        units.map(({ length }) => length),
      ).map(wholeOrRefusal);
    } catch (error) {
      if (units.length === 1 || (error instanceof StoaError && error.code === 'backend_unavailable'))
        throw error;
      return Promise.all(
        units.map((unit) => this.#upsert(unit).then(wholeOrRefusal, (failure: Error) => failure)),
      );
    }
  }

  /**
   * `mergeDocument` in SQL. Rows are in the order of their keys, so that two statements cannot deadlock. A
   * write whose token was revoked or has expired is not written; its result is the refusal.
   */
  async #upsert(writes: readonly PlainSet[]): Promise<(WriteResult | StoaError)[]> {
    const now = timeOfMs(this.#nowMs());
    const ordered = writes.toSorted((a, b) =>
      compareCodePoints(nameOf(a.scope, a.write.key), nameOf(b.scope, b.write.key)),
    );
    const hasTokens = writes.some(({ tokenId }) => tokenId !== null);
    const parameters = ordered.flatMap(({ scope, write, tokenId }): Parameter[] => [
      documentId(scope.user, scope.namespace, write.key),
      scope.user,
      scope.namespace,
      write.key,
      write.valueJson,
      write.agent,
      now,
      write.expiresAt ?? null,
      // The statement fills in the version.
      JSON.stringify(byAgent(documentSet(scope, write.key, 0), write.agent)),
      ...(hasTokens ? [tokenId] : []),
    ]);
    const rows = await withoutDeadlock(() =>
      query<{ userId: string; namespace: string; key: string; version: string }>(
        this.#sql,
        upsertStatement(ordered.length, hasTokens),
        parameters,
      ),
    );
    const versions = new Map(
      rows.map(({ userId: user, namespace, key, version }) => [nameOf({ user, namespace }, key), version]),
    );
    const agents = ordered.flatMap(({ scope, write }) =>
      write.agent === null || !versions.has(nameOf(scope, write.key)) ? [] : [{ scope, agent: write.agent }],
    );
    await withoutDeadlock(() => recordAgents(this.#sql, agents)).catch(storedPartly);
    return writes.map(({ scope, write, tokenId }) => {
      const version = versions.get(nameOf(scope, write.key));
      if (version === undefined && tokenId !== null) return tokenRemovedError();
      if (version === undefined)
        throw new StoaError('internal', `PostgreSQL returned no row for the key "${write.key}".`);
      return {
        key: write.key,
        version: Number(version),
        sizeBytes: sizeOf(write),
        updatedAt: now,
        created: version === '1',
      };
    });
  }
}

/**
 * The feed row is selected from the changed rows, so its order number is drawn when all of them are locked.
 * The change is a parameter, except for the version, which only the statement knows.
 */
function upsertStatement(rows: number, hasTokens: boolean): string {
  const types = ['text', 'text', 'text', 'text', 'json', 'text', 'timestamptz', 'timestamptz', 'jsonb'];
  const columns = '_id, u, n, k, value, agent, now, expires, change';
  const given = hasTokens
    ? `all_given (${columns}, token) AS (VALUES ${valuesList(rows, [...types, 'text'])}),
    given AS (SELECT ${columns} FROM all_given WHERE token IS NULL OR ${tokenIsLive('token', 'now')})`
    : `given (${columns}) AS (VALUES ${valuesList(rows, types)})`;
  return `WITH ${given},
    ${shareLocksCte('held', 'namespaceDocuments', namespaceNameSql('u', 'n'), 'given')},
    changed AS (
      INSERT INTO agent_data_store AS d (_id, "userId", namespace, key, value,
          "createdByAgent", "updatedByAgent", "lastAccessedByAgent",
          "createdAt", "updatedAt", "lastAccessedAt", "expiresAt")
        SELECT _id, u, n, k, value, agent, agent, agent, now, now, now, expires FROM held CROSS JOIN given WHERE held.locks > 0
        ${onConflict} RETURNING "userId", namespace, key, version),
    announced AS (
      INSERT INTO feed.incoming (changes)
        SELECT json_agg(jsonb_set(given.change, '{version}', to_jsonb(changed.version)))
          FROM changed JOIN given
            ON given.u = changed."userId" AND given.n = changed.namespace AND given.k = changed.key
          HAVING count(*) > 0)
    SELECT "userId", namespace, key, version FROM changed`;
}

/** An expired row is treated as missing: nothing of it is kept. */
const expired = 'd."expiresAt" <= excluded."updatedAt"';
const onConflict = `ON CONFLICT ("userId", namespace, key) DO UPDATE SET
  value = excluded.value,
  metadata = CASE WHEN ${expired} THEN NULL ELSE d.metadata END,
  "createdByAgent" = CASE WHEN ${expired} THEN excluded."createdByAgent" ELSE d."createdByAgent" END,
  "updatedByAgent" = excluded."updatedByAgent",
  "lastAccessedByAgent" = coalesce(excluded."lastAccessedByAgent",
    CASE WHEN ${expired} THEN NULL ELSE d."lastAccessedByAgent" END),
  "accessCount" = CASE WHEN ${expired} THEN 0 ELSE d."accessCount" END,
  "createdAt" = CASE WHEN ${expired} THEN excluded."createdAt" ELSE d."createdAt" END,
  "updatedAt" = excluded."updatedAt",
  "lastAccessedAt" = excluded."lastAccessedAt",
  version = CASE WHEN ${expired} THEN 1 ELSE d.version + 1 END,
  "expiresAt" = excluded."expiresAt",
  indexed = d.indexed OR (${expired}) IS TRUE`;

/** All sets of a unit have the same token, so all of them are written or refused. */
function wholeOrRefusal(results: readonly (WriteResult | StoaError)[]): WriteResult[] | StoaError {
  const written: WriteResult[] = [];
  for (const result of results) {
    if (result instanceof StoaError) return result;
    written.push(result);
  }
  return written;
}

/** The list in parts of the given lengths. */
function partsOf<Item>(items: readonly Item[], lengths: readonly number[]): Item[][] {
  let at = 0;
  return lengths.map((length) => items.slice(at, (at += length)));
}

async function withoutDeadlock<T>(statement: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await statement();
    } catch (error) {
      if (attempt === attemptsMax || !isConcurrency(error)) throw error;
    }
  }
}

/** Names cannot contain control characters, so a line break separates them safely. */
export function nameOf(scope: Scope, key: string): string {
  return `${scope.user}\n${scope.namespace}\n${key}`;
}

/** The documents are stored. The error must not be one after which they are written again. */
function storedPartly(error: unknown): never {
  throw new StoaError(
    'backend_unavailable',
    `The documents were written, but the list of agents in their namespaces was not: ${messageOf(error)}`,
    { fix: 'Read the documents before you write them again.', cause: error },
  );
}
