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
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import { Places } from '../../../core/waiting/places.js';
import { shareLocksCte } from '../database/advisory-locks.js';
import { type Parameter, type PostgresSql, query } from '../database/connection.js';
import { isConcurrency, isLockTimeout } from '../database/errors.js';
import { tokenIsLive } from '../identity/caller-check.js';
import { groupLockWaitMs } from '../write/group.js';
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

/** What became of a unit: a promise if it is written alone. */
type Written = WriteResult[] | Error | Promise<WriteResult[]>;

/** PostgreSQL writes two groups of this size at the same time faster than one group of twice the size. */
const writesGroupedMax = 32;
/** Of the ten connections of a server: documents that a hanging server keeps locked leave some for reads. */
const aloneMax = 6;
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
    namesOf,
  });
  /** Sets of documents that another transaction keeps locked: for each document, one of them has a connection. */
  readonly #alone = new KeyQueue();
  readonly #alonePlaces = new Places(aloneMax);

  constructor(sql: PostgresSql, nowMs: () => number) {
    this.#sql = sql;
    this.#nowMs = nowMs;
  }

  /** Writes all sets in one statement: all or none. No document may be named twice. */
  async write(tokenId: string | null, all: readonly ScopeWrites[]): Promise<WriteResult[][]> {
    const unit = all.flatMap(({ scope, writes }) => writes.map((write) => ({ scope, write, tokenId })));
    // A large unit would delay the small ones that wait for a group.
    const isLarge = unit.length > writesGroupedMax;
    const results = isLarge ? await this.#writeAlone(unit) : await this.#grouped.add(unit);
    return partsOf(
      results,
      all.map(({ writes }) => writes.length),
    );
  }

  /** Waits for locks as long as a statement may take. */
  #writeAlone(unit: Unit): Promise<WriteResult[]> {
    return this.#alone.runAll(namesOf(unit), async () => {
      const results = wholeOrRefusal(await this.#alonePlaces.run(() => this.#upsert(unit)));
      if (results instanceof StoaError) throw results;
      return results;
    });
  }

  /** The next group does not wait for units that are written alone. */
  async #writeGroup(units: readonly Unit[]): Promise<Written[]> {
    const alone = units.map((unit) => {
      const written = this.#alone.has(namesOf(unit)) ? this.#writeAlone(unit) : undefined;
      // The caller gets the failure too, a moment later.
      written?.catch(() => undefined);
      return written;
    });
    const together = await this.#writeTogether(units.filter((_, index) => alone[index] === undefined));
    // In the order of the units.
    return alone.map((written) => written ?? (together.shift() as Written));
  }

  /**
   * Independent units in one statement. If the statement fails, each unit gets its own: one of them may have to wait
   * for a document that a slow or hanging server has locked.
   */
  async #writeTogether(units: readonly Unit[]): Promise<Written[]> {
    if (units.length === 0) return [];
    try {
      const results = await this.#upsert(units.flat(), groupLockWaitMs);
      return partsOf(
        results,
        units.map(({ length }) => length),
      ).map(wholeOrRefusal);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const isUnknown = error instanceof StoaError && error.code === 'backend_unavailable';
      if (isUnknown || (units.length === 1 && !isLockTimeout(error))) return units.map(() => error);
      return units.map((unit) => this.#writeAlone(unit));
    }
  }

  /**
   * `mergeDocument` in SQL. Rows are in the order of their keys, so that two statements cannot deadlock. A
   * write whose token was revoked or has expired is not written; its result is the refusal.
   */
  async #upsert(writes: readonly PlainSet[], lockWaitMs = 0): Promise<(WriteResult | StoaError)[]> {
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
        upsertStatement(ordered.length, hasTokens, lockWaitMs),
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
 * The change is a parameter, except for the version, which only the statement knows. The longest wait for a lock is set
 * first, for this statement only; 0 removes the limit.
 */
function upsertStatement(rows: number, hasTokens: boolean, lockWaitMs: number): string {
  const types = ['text', 'text', 'text', 'text', 'json', 'text', 'timestamptz', 'timestamptz', 'jsonb'];
  const columns = '_id, u, n, k, value, agent, now, expires, change';
  const given = hasTokens
    ? `all_given (${columns}, token) AS (VALUES ${valuesList(rows, [...types, 'text'])}),
    given AS (SELECT ${columns} FROM all_given WHERE token IS NULL OR ${tokenIsLive('token', 'now')})`
    : `given (${columns}) AS (VALUES ${valuesList(rows, types)})`;
  return `WITH ${given},
    waiting AS MATERIALIZED (SELECT set_config('lock_timeout', '${lockWaitMs}', true)),
    ${shareLocksCte('held', 'namespaceDocuments', namespaceNameSql('u', 'n'), 'waiting CROSS JOIN given')},
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

function namesOf(unit: Unit): string[] {
  return unit.map(({ scope, write }) => nameOf(scope, write.key));
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
