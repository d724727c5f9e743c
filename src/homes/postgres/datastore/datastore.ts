/** The data store in PostgreSQL: the port of the data domain. */
import type { Caller } from '../../../core/caller.js';
import { documentDeleted, namespaceCleared } from '../../../datastore/changes.js';
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import type { DocumentRecord, Scope } from '../../../datastore/model.js';
import {
  type BatchResult,
  type DataCapabilities,
  type DataPort,
  type WriteResult,
  succeeded,
} from '../../../datastore/port.js';
import { hasQuota } from '../../../datastore/quota.js';
import { timeOfMs } from '../../../datastore/documents/times.js';
import { wholeUsage } from '../write/kept-answers.js';
import type { KnownUsers } from '../known-users.js';
import { PostgresStep, type RowName } from '../write/step.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { PostgresSql } from '../database/connection.js';
import { AccessWrites } from './access.js';
import { forgetAgents } from './agents.js';
import { documentsOf, mergeCounts } from './counts.js';
import { DocumentReads } from './reads.js';
import { PlainSets, type ScopeWrites, isPlainSet, nameOf } from './plain-sets.js';
import {
  type TransactionWork,
  readDocumentsAhead,
  requireDocumentVersion,
  restoreDocuments,
  writeDocuments,
} from './transaction.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { takeTurn } from '../database/turns.js';
import { namespaceName } from './namespace-name.js';

export interface PostgresDataStoreOptions {
  readonly limits: Limits;
  /** Milliseconds since 1970 by the database's clock. */
  readonly nowMs: () => number;
  readonly users: KnownUsers;
  /** Errors of background work. */
  readonly onError: (error: unknown, about: string) => void;
}

export class PostgresDataStore implements DataPort {
  readonly capabilities: DataCapabilities = {
    backend: 'postgres',
    atomicBatches: true,
    changes: 'same-commit',
    quotas: true,
    valueBytesMax: null,
    accessFlushMs: 1_000,
    reportsAccessVisible: false,
    sharedIds: false,
    listsLag: false,
  };
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;
  readonly #access: AccessWrites;
  readonly #nowMs: () => number;
  readonly #hasQuota: boolean;
  readonly #batchBytesMax: number;
  readonly #users: KnownUsers;
  readonly #onError: PostgresDataStoreOptions['onError'];
  readonly #plainSets: PlainSets;
  readonly #queue = new KeyQueue();
  readonly #reads: DocumentReads;

  constructor(
    sql: PostgresSql,
    writer: PostgresWriter,
    { limits, nowMs, users, onError }: PostgresDataStoreOptions,
  ) {
    this.#sql = sql;
    this.#writer = writer;
    this.#access = new AccessWrites(sql);
    this.#nowMs = nowMs;
    this.#reads = new DocumentReads(sql, nowMs);
    this.#hasQuota = hasQuota(limits);
    this.#batchBytesMax = limits.dataBatchBytesMax;
    this.#users = users;
    this.#onError = onError;
    this.#plainSets = new PlainSets(sql, nowMs);
  }

  readonly get: DataPort['get'] = (scope, key) => this.#reads.get(scope, key);

  readonly getMany: DataPort['getMany'] = (scope, keys, bytesMax) =>
    this.#reads.getMany(scope, keys, { bytesMax });

  readonly getValue: DataPort['getValue'] = (scope, key) => this.get(scope, key);

  readonly write: DataPort['write'] = (scope, batch) => {
    const locks = [...batch.sets, ...batch.deletes].map(({ key }) => lockOf(scope, key));
    const isPlain =
      batch.deletes.length + batch.gets.length === 0 &&
      !this.#hasQuota &&
      this.#users.has(scope.user) &&
      batch.sets.every(isPlainSet);
    return new PostgresStep(
      locks,
      async (work) => ({
        ...(await this.#writeIn(work, scope, batch)),
        read: await this.#readFrom(work, scope, batch.gets),
      }),
      undefined,
      this.#readAhead(
        scope,
        [...batch.sets, ...batch.deletes].map(({ key }) => key),
      ),
      isPlain
        ? {
            write: this.#writePlain,
            item: { scope, writes: batch.sets } satisfies ScopeWrites,
            show: (sets) => ({ sets: sets as WriteResult[], deletes: [], read: [] }),
          }
        : undefined,
    );
  };

  readonly modify: DataPort['modify'] = (scope, key, decide) => {
    const run = async (work: Work): Promise<WriteResult> => {
      const { sets } = await this.#writeIn(work, scope, { key, decide });
      return succeeded(sets[0]);
    };
    // Writers of this process wait in a queue, so that they do not block all connections for one row.
    return new PostgresStep(
      [lockOf(scope, key)],
      run,
      (caller) => this.#queue.run(nameOf(scope, key), () => this.#writer.transact(run, caller)),
      this.#readAhead(scope, [key]),
    );
  };

  readonly requireVersion: DataPort['requireVersion'] = (scope, key, version) =>
    new PostgresStep(
      [lockOf(scope, key)],
      (work) => requireDocumentVersion(work, scope, key, version),
      undefined,
      this.#readAhead(scope, [key]),
    );

  readonly listKeys: DataPort['listKeys'] = (scope, range) => this.#reads.listKeys(scope, range);

  readonly listDocuments: DataPort['listDocuments'] = (scope, range) =>
    this.#reads.listDocuments(scope, range);

  readonly listNamespaces: DataPort['listNamespaces'] = (user, after, limit) =>
    this.#reads.listNamespaces(user, after, limit);

  readonly describeNamespaces: DataPort['describeNamespaces'] = (user, names) =>
    this.#reads.describeNamespaces(user, names);

  readonly clear: DataPort['clear'] = (scope, after, limit) =>
    new PostgresStep([], async (work) => {
      // A document that is made meanwhile would stay, and be listed before this change in the feed.
      await work.rows(lockKeySql('namespaceDocuments'), [namespaceName(scope)]);
      const keys = await work.rows<{ key: string }>(
        `SELECT key FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key > $3
          ORDER BY key LIMIT $4 FOR UPDATE`,
        [scope.user, scope.namespace, after ?? '', limit],
      );
      const [gone] = await work.rows<{ deleted: string }>(
        `WITH gone AS (
            DELETE FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key = ANY($3::text[])
            RETURNING "expiresAt" IS NULL OR "expiresAt" > $4 AS live)
          SELECT count(*) FILTER (WHERE live) AS deleted FROM gone`,
        [scope.user, scope.namespace, keys.map(({ key }) => key), timeOfMs(work.nowMs)],
      );
      const deleted = Number(gone?.deleted ?? 0);
      const through = keys.length === limit ? (keys.at(-1)?.key ?? null) : null;
      if (through === null) await forgetAgents(work, scope);
      if (deleted > 0) work.announce(namespaceCleared(scope, deleted, after, through));
      return { deleted, after: through };
    });

  readonly recordAccess: DataPort['recordAccess'] = (reads) => this.#access.record(reads);

  readonly exportPage: DataPort['exportPage'] = (after, limit) => this.#reads.exportPage(after, limit);

  readonly usage: DataPort['usage'] = (user) => wholeUsage(this.#sql, user, documentsOf);

  readonly restore: DataPort['restore'] = (documents, { isCounted = false } = {}) => {
    const locks = documents.map(({ userId: user, namespace, key }) => lockOf({ user, namespace }, key));
    return [
      new PostgresStep(locks, async (work) => {
        for (const user of new Set(documents.map(({ userId }) => userId)))
          await this.#users.ensure(work, user);
        await restoreDocuments(work, documents, { isCounted });
      }),
    ];
  };

  /** Always empty: the primary key begins with the owner, so owners cannot have the same id. */
  readonly heldByOthers: DataPort['heldByOthers'] = async () => [];

  readonly takeSweepTurn: NonNullable<DataPort['takeSweepTurn']> = (intervalMs) =>
    takeTurn(this.#sql, 'documents', intervalMs);

  readonly sweepExpired: NonNullable<DataPort['sweepExpired']> = async (limit) => {
    const swept = await this.#writer.transact(async (work) => {
      const gone = await work.rows<{ userId: string; namespace: string; key: string }>(
        `DELETE FROM agent_data_store WHERE ctid IN (
            SELECT ctid FROM agent_data_store WHERE "expiresAt" <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
          RETURNING "userId", namespace, key`,
        [this.#now(), limit],
      );
      work.announce(
        ...gone.map(({ userId: user, namespace, key }) => documentDeleted({ user, namespace }, key, true)),
      );
      return gone.length;
    });
    await mergeCounts(this.#sql, null);
    return swept;
  };

  /** Settles unconfirmed read counts. The pool is closed by the home. */
  async close(): Promise<void> {
    await this.#access.settle().catch((error: unknown) => this.#onError(error, 'recording read counts'));
  }

  /** With a quota the user is locked before the documents. */
  #readAhead(scope: Scope, keys: readonly string[]): ((work: Work) => void) | undefined {
    return this.#hasQuota ? undefined : (work) => readDocumentsAhead(work, scope, keys);
  }

  async #writeIn(work: Work, scope: Scope, documents: TransactionWork): Promise<BatchResult> {
    if (!('sets' in documents) || documents.sets.length > 0) await this.#users.ensure(work, scope.user);
    return writeDocuments(work, scope, documents);
  }

  async #readFrom(work: Work, scope: Scope, keys: readonly string[]): Promise<DocumentRecord[]> {
    const found = await this.#reads.getMany(scope, keys, { bytesMax: this.#batchBytesMax, sql: work.sql });
    return found.filter((record) => record !== undefined);
  }

  /** The documents of each item in one statement, which other writes share. */
  readonly #writePlain = async ({ tokenId }: Caller, items: readonly unknown[]): Promise<WriteResult[][]> => {
    // Only `write` makes such items.
    const all = items as readonly ScopeWrites[];
    const results = await this.#plainSets.write(tokenId, all);
    this.#writer.committed();
    return results;
  };

  #now(): string {
    return timeOfMs(this.#nowMs());
  }
}

function lockOf({ user, namespace }: Scope, key: string): RowName {
  return { table: 'documents', key: JSON.stringify([user, namespace, key]) };
}
