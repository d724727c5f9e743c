/** The data store in PostgreSQL. Calls that come together share statements. */
import { compareCodePoints, afterPrefix } from '../../../datastore/code-point-order.js';
import { documentId } from '../../../datastore/document-id.js';
import { KeyQueue } from '../../../core/waiting/key-queue.js';
import { sizeOf } from '../../../datastore/merge-document.js';
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
  type OutboxGate,
  type StoredValue,
  type WriteResult,
  succeeded,
} from '../../../datastore/port.js';
import { type Usage, hasQuota } from '../../../datastore/quota.js';
import { normaliseTime, timeOfMs } from '../../../datastore/times.js';
import type { Caller } from '../../../core/caller.js';
import { StoaError, messageOf } from '../../../core/errors.js';
import { forgetAnswers, migrateAnswers, wholeUsage } from '../kept-answers.js';
import { PostgresStep, type RowName } from '../step.js';
import type { Work } from '../work.js';
import { PostgresWriter } from '../writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import { invalidCursor } from '../../../core/paging.js';
import { Grouping } from '../../../core/waiting/grouping.js';
import {
  type Parameter,
  type PostgresSql,
  type Queryable,
  boundStatements,
  closePostgres,
  isConcurrency,
  openPostgres,
  query,
} from '../connection.js';
import { AccessWrites } from './access.js';
import { noteAgents } from './agents.js';
import { type CountedNamespace, countedNamespaces, documentsOf, foldCounts } from './counts.js';
import { type DocumentRow, columnsRead, dataMigrations, recordOf, valuesList } from './sql.js';
import { DataOutbox, telling, tellingCleared } from './outbox.js';
import {
  type TransactionWork,
  requireDocumentVersion,
  restoreDocuments,
  writeDocuments,
} from './transaction.js';
import { migrate } from '../migrate.js';

export interface PostgresDataStoreOptions {
  limits: Limits;
  nowMs: () => number;
  prepare?: boolean;
  /** The feed in which every change is announced; without it nothing is. */
  gate?: OutboxGate;
  /** Refuses a caller whose lease has passed on. */
  checkFence?: (caller: Caller) => void;
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
}

interface PendingRead {
  scope: Scope;
  key: string;
}

interface PendingWrite extends PendingRead {
  write: DocumentWrite;
}

/** Rows in one statement: each number of rows is a prepared statement of its own on each connection. */
const readsGroupedMax = 64;
/** A server writes two groups of this size at once in less time than one of twice the size. */
const writesGroupedMax = 32;
/** Rows of counts in one namespace that a list puts together instead of leaving them to the next sweep. */
const countRowsMax = 100;

/** Opens the database and makes the tables where they are missing, unless it is only read. */
export async function openPostgresDataStore(
  url: URL,
  options: PostgresDataStoreOptions,
): Promise<PostgresDataStore> {
  const sql = await openPostgres(url, { limits: options.limits });
  try {
    if (options.prepare !== false) {
      await migrate(sql, 'datastore', dataMigrations);
      await migrateAnswers(sql);
    }
    boundStatements(sql, options.limits);
  } catch (error) {
    await closePostgres(sql, 1);
    throw error;
  }
  const store = new PostgresDataStore(sql, options);
  try {
    await store.start();
  } catch (error) {
    await closePostgres(sql, 1);
    throw error;
  }
  return store;
}

export class PostgresDataStore implements DataPort {
  readonly capabilities: DataCapabilities = {
    backend: 'postgres',
    atomicBatches: true,
    changes: 'outbox',
    quotas: true,
    valueBytesMax: null,
    accessFlushMs: 1_000,
    tellsAccessVisible: false,
    sharedIds: false,
  };
  /** Runs the steps of this port. */
  readonly writer: PostgresWriter;
  readonly #sql: PostgresSql;
  readonly #access: AccessWrites;
  readonly #nowMs: () => number;
  readonly #hasQuota: boolean;
  readonly #onError: (error: unknown) => void;
  /** Null where no feed is told. */
  readonly #outbox: DataOutbox | null;
  readonly #queue = new KeyQueue();
  readonly #reads = new Grouping<PendingRead, DocumentRecord | undefined>({
    run: (reads) => this.#readGroup(reads),
    itemsMax: readsGroupedMax,
    groupsMax: 4,
  });
  readonly #writes = new Grouping<PendingWrite, WriteResult>({
    run: (writes) => this.#writeGroup(writes),
    itemsMax: writesGroupedMax,
    groupsMax: 3,
    nameOf: ({ scope, key }) => nameOf(scope, key),
  });

  constructor(sql: PostgresSql, options: PostgresDataStoreOptions) {
    this.#sql = sql;
    this.#access = new AccessWrites(sql);
    this.#nowMs = options.nowMs;
    this.#hasQuota = hasQuota(options.limits);
    const { gate } = options;
    this.#onError =
      options.onError ??
      ((error) => process.emitWarning(`telling of changes in PostgreSQL: ${messageOf(error)}`));
    this.#outbox = gate === undefined ? null : new DataOutbox({ sql, gate, onError: this.#onError });
    this.writer = new PostgresWriter({
      sql,
      limits: options.limits,
      nowMs: options.nowMs,
      checkFence: options.checkFence ?? (() => undefined),
      documentsOf,
    });
  }

  /** Carries to the feed what an earlier run could not. */
  async start(): Promise<void> {
    await this.#outbox?.start();
  }

  async settleFeed(): Promise<void> {
    await this.#outbox?.empty();
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
      batch.deletes.length + batch.gets.length === 0 && batch.sets.every((write) => this.#isPlain(write));
    return new PostgresStep(
      locks,
      async (work) => ({
        ...(await this.#writeIn(work, scope, batch)),
        read: await this.#readFrom(work, scope, batch.gets),
      }),
      isPlain ? () => this.#writePlain(scope, batch.sets) : undefined,
    );
  }

  modify(scope: Scope, key: string, decide: Decide): PostgresStep<WriteResult> {
    const run = async (work: Work): Promise<WriteResult> => {
      const { sets } = await this.#writeIn(work, scope, { key, decide });
      return succeeded(sets[0]);
    };
    // Writers of this process line up, so that they do not hold every connection waiting for one row.
    return new PostgresStep([lockOf(scope, key)], run, () =>
      this.#queue.run(nameOf(scope, key), () => this.writer.transact(run)),
    );
  }

  requireVersion(scope: Scope, key: string, version: number): PostgresStep<void> {
    return new PostgresStep([lockOf(scope, key)], (work) =>
      requireDocumentVersion(work, scope, key, version),
    );
  }

  /** Brings what has been committed to the feed. The write stands whether this succeeds or not: a sweep brings it later. */
  async #announce(): Promise<void> {
    await this.#outbox?.empty().catch(this.#onError);
  }

  /** Once a transaction, however many of its steps change documents. */
  readonly #announceAfter = (work: Work): void => work.afterCommit(() => this.#announce());

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
    return new PostgresStep(
      [],
      async (work) => {
        const step = await this.#clear(work.sql, scope, after, limit);
        if (step.deleted > 0) work.part(this.#announceAfter);
        return step;
      },
      async () => {
        const step = await this.#withoutDeadlock(() => this.#clear(this.#sql, scope, after, limit));
        if (step.deleted > 0) await this.#announce();
        return step;
      },
    );
  }

  async #clear(sql: Queryable, scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    const keys = await query<{ key: string }>(
      sql,
      'SELECT key FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key > $3 ORDER BY key LIMIT $4',
      [scope.user, scope.namespace, after ?? '', limit],
    );
    const through = keys.length === limit ? (keys.at(-1)?.key ?? null) : null;
    const [gone] = await query<{ deleted: string }>(
      sql,
      `WITH gone AS (DELETE FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key > $3 AND key <= $4 AND key = ANY($5::text[])
          RETURNING "expiresAt" IS NULL OR "expiresAt" > $6 AS live),
        counted AS (SELECT count(*) FILTER (WHERE live) AS deleted FROM gone)
        ${this.#outbox === null ? '' : tellingCleared({ feed: 7, after: 8, through: 9 })} SELECT deleted FROM counted`,
      [
        scope.user,
        scope.namespace,
        after ?? '',
        keys.at(-1)?.key ?? '',
        keys.map(({ key }) => key),
        this.#now(),
        ...(this.#outbox === null ? [] : [this.#outbox.feed, after, through]),
      ],
    );
    if (through === null)
      await query(sql, 'DELETE FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = $2', [
        scope.user,
        scope.namespace,
      ]);
    return { deleted: Number(gone?.deleted ?? 0), after: through };
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

  async usage(user: string): Promise<Usage> {
    return wholeUsage(this.#sql, user, documentsOf);
  }

  restore(documents: readonly DocumentRecord[], { isCounted = false } = {}): PostgresStep<void>[] {
    const locks = documents.map(({ userId: user, namespace, key }) => lockOf({ user, namespace }, key));
    const step = new PostgresStep(locks, async (work) => {
      work.part(this.#announceAfter);
      await restoreDocuments(work, documents, { feed: this.#feed, isCounted });
    });
    return [step];
  }

  /** The primary key begins with the owner. */
  async heldByOthers(): Promise<DocumentRecord[]> {
    return [];
  }

  async sweepExpired(limit: number): Promise<number> {
    const statement = `DELETE FROM agent_data_store WHERE ctid IN (SELECT ctid FROM agent_data_store WHERE "expiresAt" <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)
      RETURNING "userId", namespace, key, version`;
    const rows = await query(this.#sql, ...this.#telling(statement, 'expired', [this.#now(), limit]));
    if (rows.length > 0) await this.#announce();
    await foldCounts(this.#sql, null);
    await forgetAnswers(this.#sql, limit);
    return rows.length;
  }

  async close(): Promise<void> {
    try {
      await this.#access.settle().catch(this.#onError);
      await this.#outbox?.close();
    } finally {
      await closePostgres(this.#sql, 5);
    }
  }

  get #feed(): string | null {
    return this.#outbox?.feed ?? null;
  }

  #writeIn(work: Work, scope: Scope, documents: TransactionWork): Promise<BatchResult> {
    work.part(this.#announceAfter);
    return writeDocuments(work, scope, documents, this.#feed);
  }

  async #readFrom(work: Work, scope: Scope, keys: readonly string[]): Promise<DocumentRecord[]> {
    const found = await this.#readGroup(
      keys.map((key) => ({ scope, key })),
      work.sql,
    );
    return found.filter((record) => record !== undefined);
  }

  /** In one statement, which one set shares with others of the same moment. */
  async #writePlain(scope: Scope, writes: readonly DocumentWrite[]): Promise<DataBatchResult> {
    const [only] = writes;
    const sets =
      only !== undefined && writes.length === 1
        ? [await this.#writes.add({ scope, key: only.key, write: only })]
        : await this.#upsert(writes.map((write) => ({ scope, key: write.key, write })));
    await this.#announce();
    return { sets, deletes: [], read: [] };
  }

  /** The statement with what makes it tell the feed, where there is one. */
  #telling(
    statement: string,
    kind: 'set' | 'expired',
    parameters: readonly Parameter[],
  ): [text: string, parameters: readonly Parameter[]] {
    return this.#outbox === null
      ? [statement, parameters]
      : [telling(statement, kind, parameters.length + 1), [...parameters, this.#outbox.feed]];
  }

  #now(): string {
    return timeOfMs(this.#nowMs());
  }

  /** One statement can merge it: no metadata to merge, no version to compare, the expiry given. */
  #isPlain(write: DocumentWrite): boolean {
    return (
      write.metadata === null && write.ifVersion === null && write.expiresAt !== undefined && !this.#hasQuota
    );
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

  /** Independent writes in one statement. When it fails for a reason of one, each goes alone. */
  async #writeGroup(writes: readonly PendingWrite[]): Promise<(WriteResult | Error)[]> {
    try {
      return await this.#upsert(writes);
    } catch (error) {
      if (writes.length === 1 || (error instanceof StoaError && error.code === 'backend_unavailable'))
        throw error;
      return Promise.all(
        writes.map((write) =>
          this.#upsert([write]).then(
            ([result]) => result as WriteResult,
            (failure: Error) => failure,
          ),
        ),
      );
    }
  }

  /** `mergeDocument` in SQL. Rows go in the order of their keys, so that two statements do not wait for each other. */
  async #upsert(writes: readonly PendingWrite[]): Promise<WriteResult[]> {
    const now = this.#now();
    const ordered = writes.toSorted((a, b) =>
      compareCodePoints(nameOf(a.scope, a.key), nameOf(b.scope, b.key)),
    );
    const agents = ordered.flatMap(({ scope, write }) =>
      write.agent === null ? [] : [{ scope, agent: write.agent }],
    );
    const parameters = ordered.flatMap(({ scope, write }): Parameter[] => [
      documentId(scope.user, scope.namespace, write.key),
      scope.user,
      scope.namespace,
      write.key,
      write.valueJson,
      write.agent,
      write.agent,
      now,
      now,
      now,
      write.expiresAt ?? null,
    ]);
    const rows = await this.#withoutDeadlock(() =>
      query<{ userId: string; namespace: string; key: string; version: string }>(
        this.#sql,
        ...this.#telling(
          `INSERT INTO agent_data_store AS d (_id, "userId", namespace, key, value, "createdByAgent", "lastAccessedByAgent", "createdAt", "updatedAt", "lastAccessedAt", "expiresAt")
            VALUES ${valuesList(ordered.length, ['text', 'text', 'text', 'text', 'json', 'text', 'text', 'timestamptz', 'timestamptz', 'timestamptz', 'timestamptz'])}
            ${onConflict} RETURNING "userId", namespace, key, version`,
          'set',
          parameters,
        ),
      ),
    );
    await noteAgents(this.#sql, agents);
    const found = new Map(
      rows.map((row) => [nameOf({ user: row.userId, namespace: row.namespace }, row.key), row]),
    );
    return writes.map(({ scope, key, write }) => {
      const row = found.get(nameOf(scope, key));
      if (row === undefined)
        throw new StoaError('internal', `PostgreSQL did not answer for the key "${key}".`);
      return {
        key,
        version: Number(row.version),
        sizeBytes: sizeOf(write),
        updatedAt: now,
        created: row.version === '1',
      };
    });
  }

  async #withoutDeadlock<T>(statement: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await statement();
      } catch (error) {
        if (attempt === 10 || !isConcurrency(error)) throw error;
      }
    }
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

/** What an existing row keeps and takes; an expired one counts as none. */
const expired = 'd."expiresAt" <= excluded."updatedAt"';
const onConflict = `ON CONFLICT ("userId", namespace, key) DO UPDATE SET
  value = excluded.value,
  metadata = CASE WHEN ${expired} THEN NULL ELSE d.metadata END,
  "createdByAgent" = CASE WHEN ${expired} THEN excluded."createdByAgent" ELSE d."createdByAgent" END,
  "lastAccessedByAgent" = coalesce(excluded."lastAccessedByAgent", CASE WHEN ${expired} THEN NULL ELSE d."lastAccessedByAgent" END),
  "accessCount" = CASE WHEN ${expired} THEN 0 ELSE d."accessCount" END,
  "createdAt" = CASE WHEN ${expired} THEN excluded."createdAt" ELSE d."createdAt" END,
  "updatedAt" = excluded."updatedAt",
  "lastAccessedAt" = excluded."lastAccessedAt",
  version = CASE WHEN ${expired} THEN 1 ELSE d.version + 1 END,
  "expiresAt" = excluded."expiresAt"`;

function lockOf({ user, namespace }: Scope, key: string): RowName {
  return { table: 'documents', key: JSON.stringify([user, namespace, key]) };
}

/** Names have no control characters, so a line break cannot stand inside one. */
function nameOf(scope: Scope, key: string): string {
  return `${scope.user}\n${scope.namespace}\n${key}`;
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
