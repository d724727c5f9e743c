/** The data store in PostgreSQL. Calls that come together share statements. */
import type { Caller } from '../../../core/caller.js';
import { documentDeleted, namespaceCleared } from '../../../datastore/changes.js';
import { afterPrefix } from '../../../datastore/documents/code-point-order.js';
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import type { DocumentRecord, KeySummary, NamespaceSummary, Scope } from '../../../datastore/model.js';
import {
  type AccessRead,
  type BatchResult,
  type ClearStep,
  type DataBatch,
  type DataBatchResult,
  type DataCapabilities,
  type DataPort,
  type Decide,
  type DocumentWrite,
  type ExportPage,
  type KeyRange,
  type StoredValue,
  type WriteResult,
  succeeded,
} from '../../../datastore/port.js';
import { type Usage, hasQuota } from '../../../datastore/quota.js';
import { normaliseTime, timeOfMs } from '../../../datastore/documents/times.js';
import { wholeUsage } from '../kept-answers.js';
import type { KnownUsers } from '../known-users.js';
import { PostgresStep, type RowName } from '../step.js';
import type { Work } from '../work.js';
import type { PostgresWriter } from '../writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import { invalidCursor } from '../../../core/paging.js';
import { Grouping } from '../../../core/waiting/grouping.js';
import { type Parameter, type PostgresSql, type Queryable, query } from '../connection.js';
import { AccessWrites } from './access.js';
import { type CountedNamespace, countedNamespaces, documentsOf, foldCounts } from './counts.js';
import { type DocumentRow, columnsRead, dataMigrations, recordOf, valuesList } from './sql.js';
import { PlainSets, isPlainSet, nameOf } from './plain-sets.js';
import {
  type TransactionWork,
  requireDocumentVersion,
  restoreDocuments,
  writeDocuments,
} from './transaction.js';
import { migrate } from '../migrate.js';
import { takeTurn } from '../turns.js';

export interface PostgresDataStoreOptions {
  readonly limits: Limits;
  /** Milliseconds since 1970 by the database's clock. */
  readonly nowMs: () => number;
  readonly users: KnownUsers;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown, about: string) => void;
}

interface PendingRead {
  scope: Scope;
  key: string;
}

/** Rows in one statement: each number of rows is a prepared statement of its own on each connection. */
const readsGroupedMax = 64;
/** Rows of counts in one namespace that a list puts together instead of leaving them to the next sweep. */
const countRowsMax = 100;

/** Makes the tables where they are missing. */
export async function openPostgresDataStore(
  sql: PostgresSql,
  writer: PostgresWriter,
  options: PostgresDataStoreOptions,
): Promise<PostgresDataStore> {
  await migrate(sql, 'datastore', dataMigrations);
  return new PostgresDataStore(sql, writer, options);
}

export class PostgresDataStore implements DataPort {
  readonly capabilities: DataCapabilities = {
    backend: 'postgres',
    atomicBatches: true,
    changes: 'same-commit',
    quotas: true,
    valueBytesMax: null,
    accessFlushMs: 1_000,
    tellsAccessVisible: false,
    sharedIds: false,
  };
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;
  readonly #access: AccessWrites;
  readonly #nowMs: () => number;
  readonly #hasQuota: boolean;
  readonly #users: KnownUsers;
  readonly #onError: PostgresDataStoreOptions['onError'];
  readonly #plainSets: PlainSets;
  readonly #queue = new KeyQueue();
  readonly #reads = new Grouping<PendingRead, DocumentRecord | undefined>({
    run: (reads) => this.#readGroup(reads),
    itemsMax: readsGroupedMax,
    groupsMax: 4,
  });

  constructor(
    sql: PostgresSql,
    writer: PostgresWriter,
    { limits, nowMs, users, onError }: PostgresDataStoreOptions,
  ) {
    this.#sql = sql;
    this.#writer = writer;
    this.#access = new AccessWrites(sql);
    this.#nowMs = nowMs;
    this.#hasQuota = hasQuota(limits);
    this.#users = users;
    this.#onError = onError;
    this.#plainSets = new PlainSets(sql, nowMs);
  }

  get(scope: Scope, key: string): Promise<DocumentRecord | undefined> {
    return this.#reads.add({ scope, key });
  }

  async getMany(scope: Scope, keys: readonly string[]): Promise<(DocumentRecord | undefined)[]> {
    return this.#readGroup(keys.map((key) => ({ scope, key })));
  }

  getValue(scope: Scope, key: string): Promise<StoredValue | undefined> {
    return this.get(scope, key);
  }

  write(scope: Scope, batch: DataBatch): PostgresStep<DataBatchResult> {
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
      isPlain ? (caller) => this.#setPlain(caller, scope, batch.sets) : undefined,
    );
  }

  modify(scope: Scope, key: string, decide: Decide): PostgresStep<WriteResult> {
    const run = async (work: Work): Promise<WriteResult> => {
      const { sets } = await this.#writeIn(work, scope, { key, decide });
      return succeeded(sets[0]);
    };
    // Writers of this process line up, so that they do not hold every connection waiting for one row.
    return new PostgresStep([lockOf(scope, key)], run, (caller) =>
      this.#queue.run(nameOf(scope, key), () => this.#writer.transact(run, caller)),
    );
  }

  requireVersion(scope: Scope, key: string, version: number): PostgresStep<void> {
    return new PostgresStep([lockOf(scope, key)], (work) =>
      requireDocumentVersion(work, scope, key, version),
    );
  }

  async listKeys(scope: Scope, range: KeyRange): Promise<KeySummary[]> {
    const { where, parameters } = this.#range(scope, range);
    const rows = await query<{ key: string; version: string; sizeBytes: number; updatedAt: string }>(
      this.#sql,
      `SELECT key, version, "sizeBytes", "updatedAt" FROM agent_data_store d WHERE ${where} ORDER BY key LIMIT $6`,
      parameters,
    );
    return rows.map((row) => ({
      key: row.key,
      version: Number(row.version),
      sizeBytes: row.sizeBytes,
      updatedAt: normaliseTime(row.updatedAt),
    }));
  }

  async listDocuments(scope: Scope, range: KeyRange): Promise<DocumentRecord[]> {
    const { where, parameters } = this.#range(scope, range);
    return (
      await query<DocumentRow>(
        this.#sql,
        `SELECT ${columnsRead} FROM agent_data_store d WHERE ${where} ORDER BY key LIMIT $6`,
        parameters,
      )
    ).map(recordOf);
  }

  async listNamespaces(user: string, after: string | null, limit: number): Promise<NamespaceSummary[]> {
    return this.#described(
      user,
      await countedNamespaces(this.#sql, user, { after: after ?? '', limit }, this.#now()),
    );
  }

  async describeNamespaces(user: string, names: readonly string[]): Promise<NamespaceSummary[]> {
    return this.#described(
      user,
      await countedNamespaces(this.#sql, user, { names, limit: names.length }, this.#now()),
    );
  }

  async #described(user: string, rows: readonly CountedNamespace[]): Promise<NamespaceSummary[]> {
    if (rows.length === 0) return [];
    if (rows.some((row) => row.rows > countRowsMax)) await foldCounts(this.#sql, user);
    const agents = await query<{ namespace: string; agent: string }>(
      this.#sql,
      'SELECT namespace, agent FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = ANY($2::text[]) ORDER BY namespace, agent',
      [user, rows.map(({ namespace }) => namespace)],
    );
    return rows.map(({ namespace, count, sizeBytes, updatedAt }) => ({
      namespace,
      count,
      sizeBytes,
      agents: agents.filter((row) => row.namespace === namespace).map(({ agent }) => agent),
      updatedAt,
    }));
  }

  clear(scope: Scope, after: string | null, limit: number): PostgresStep<ClearStep> {
    return new PostgresStep([], async (work) => {
      const keys = await work.rows<{ key: string }>(
        'SELECT key FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key > $3 ORDER BY key LIMIT $4 FOR UPDATE',
        [scope.user, scope.namespace, after ?? '', limit],
      );
      const [gone] = await work.rows<{ deleted: string }>(
        `WITH gone AS (DELETE FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key = ANY($3::text[])
            RETURNING "expiresAt" IS NULL OR "expiresAt" > $4 AS live)
          SELECT count(*) FILTER (WHERE live) AS deleted FROM gone`,
        [scope.user, scope.namespace, keys.map(({ key }) => key), timeOfMs(work.nowMs)],
      );
      const deleted = Number(gone?.deleted ?? 0);
      const through = keys.length === limit ? (keys.at(-1)?.key ?? null) : null;
      if (through === null)
        await work.rows('DELETE FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = $2', [
          scope.user,
          scope.namespace,
        ]);
      if (deleted > 0) work.announce(namespaceCleared(scope, deleted, after, through));
      return { deleted, after: through };
    });
  }

  recordAccess(reads: readonly AccessRead[]): Promise<void> {
    return this.#access.record(reads);
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    const position = after === null ? ['', '', ''] : exportPosition(after);
    const rows = await query<DocumentRow>(
      this.#sql,
      `SELECT ${columnsRead} FROM agent_data_store d WHERE ("userId", namespace, key) > ($1, $2, $3) AND ("expiresAt" IS NULL OR "expiresAt" > $4)
        ORDER BY "userId", namespace, key LIMIT $5`,
      [...position, this.#now(), limit],
    );
    const last = rows.length < limit ? undefined : rows.at(-1);
    return {
      documents: rows.map(recordOf),
      after: last === undefined ? null : JSON.stringify([last.userId, last.namespace, last.key]),
    };
  }

  usage(user: string): Promise<Usage> {
    return wholeUsage(this.#sql, user, documentsOf);
  }

  restore(documents: readonly DocumentRecord[], { isCounted = false } = {}): PostgresStep<void>[] {
    const locks = documents.map(({ userId: user, namespace, key }) => lockOf({ user, namespace }, key));
    return [
      new PostgresStep(locks, async (work) => {
        for (const user of new Set(documents.map(({ userId }) => userId)))
          await this.#users.ensure(work, user);
        await restoreDocuments(work, documents, { isCounted });
      }),
    ];
  }

  /** The primary key begins with the owner. */
  async heldByOthers(): Promise<DocumentRecord[]> {
    return [];
  }

  takeSweepTurn(intervalMs: number): Promise<boolean> {
    return takeTurn(this.#sql, 'documents', intervalMs);
  }

  async sweepExpired(limit: number): Promise<number> {
    const swept = await this.#writer.transact(async (work) => {
      const gone = await work.rows<{ userId: string; namespace: string; key: string }>(
        `DELETE FROM agent_data_store WHERE ctid IN (SELECT ctid FROM agent_data_store WHERE "expiresAt" <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
          RETURNING "userId", namespace, key`,
        [this.#now(), limit],
      );
      work.announce(
        ...gone.map(({ userId: user, namespace, key }) => documentDeleted({ user, namespace }, key, true)),
      );
      return gone.length;
    });
    await foldCounts(this.#sql, null);
    return swept;
  }

  /** Hands over what is counted. The pool is its opener's. */
  async close(): Promise<void> {
    await this.#access.settle().catch((error: unknown) => this.#onError(error, 'adding up counted reads'));
  }

  async #writeIn(work: Work, scope: Scope, documents: TransactionWork): Promise<BatchResult> {
    if (!('sets' in documents) || documents.sets.length > 0) await this.#users.ensure(work, scope.user);
    return writeDocuments(work, scope, documents);
  }

  async #readFrom(work: Work, scope: Scope, keys: readonly string[]): Promise<DocumentRecord[]> {
    const found = await this.#readGroup(
      keys.map((key) => ({ scope, key })),
      work.sql,
    );
    return found.filter((record) => record !== undefined);
  }

  async #setPlain(
    { tokenId }: Caller,
    scope: Scope,
    writes: readonly DocumentWrite[],
  ): Promise<DataBatchResult> {
    const sets = await this.#plainSets.write(tokenId, scope, writes);
    this.#writer.committed();
    return { sets, deletes: [], read: [] };
  }

  #now(): string {
    return timeOfMs(this.#nowMs());
  }

  async #readGroup(
    reads: readonly PendingRead[],
    sql: Queryable = this.#sql,
  ): Promise<(DocumentRecord | undefined)[]> {
    if (reads.length === 0) return [];
    const rows = await query<DocumentRow & { at: number }>(
      sql,
      `SELECT v.at, ${columnsRead} FROM (VALUES ${valuesList(reads.length, ['text', 'text', 'text', 'integer'])}) AS v (u, n, k, at)
        CROSS JOIN LATERAL (SELECT * FROM agent_data_store WHERE "userId" = v.u AND namespace = v.n AND key = v.k LIMIT 1) d
        WHERE d."expiresAt" IS NULL OR d."expiresAt" > $${reads.length * 4 + 1}`,
      [
        ...reads.flatMap(({ scope, key }, at): Parameter[] => [scope.user, scope.namespace, key, at]),
        this.#now(),
      ],
    );
    const records = Array<DocumentRecord | undefined>(reads.length).fill(undefined);
    for (const row of rows) records[row.at] = recordOf(row);
    return records;
  }

  #range(scope: Scope, { prefix, after, limit }: KeyRange): { where: string; parameters: Parameter[] } {
    const end = afterPrefix(prefix);
    return {
      where: `"userId" = $1 AND namespace = $2 AND key >= $3 AND key > $4 AND ("expiresAt" IS NULL OR "expiresAt" > $5)${end === null ? '' : ' AND key < $7'}`,
      parameters: [
        scope.user,
        scope.namespace,
        prefix,
        after ?? '',
        this.#now(),
        limit,
        ...(end === null ? [] : [end]),
      ],
    };
  }
}

function lockOf({ user, namespace }: Scope, key: string): RowName {
  return { table: 'documents', key: JSON.stringify([user, namespace, key]) };
}

/** User, namespace and key of the last document. A cursor can be forged. */
function exportPosition(after: string): string[] {
  try {
    const place: unknown = JSON.parse(after);
    if (
      Array.isArray(place) &&
      place.length === 3 &&
      place.every((part) => typeof part === 'string' && !part.includes('\0'))
    )
      return place as string[];
  } catch (error) {
    throw invalidCursor(error);
  }
  throw invalidCursor();
}
