/**
 * Reads of documents and namespaces in PostgreSQL. Reads of single documents that arrive together share a
 * statement.
 */
import { invalidCursor } from '../../../core/paging.js';
import { Grouping } from '../../../core/waiting/grouping.js';
import { afterPrefix } from '../../../datastore/documents/code-point-order.js';
import type { DocumentRecord, KeySummary, NamespaceSummary, Scope } from '../../../datastore/model.js';
import type { ExportPage, KeyRange } from '../../../datastore/port.js';
import { normaliseTime, timeOfMs } from '../../../datastore/documents/times.js';
import { type Parameter, type PostgresSql, type Queryable, query } from '../database/connection.js';
import { type CountedNamespace, countedNamespaces, mergeCounts } from './counts.js';
import { type DocumentRow, columnsRead, recordOf, valuesList } from './sql.js';

interface DocumentName {
  scope: Scope;
  key: string;
}

/** Documents in one statement. Each number of rows is a separate prepared statement on each connection. */
const readsGroupedMax = 64;
/** If a namespace has more count rows than this, a list merges them instead of waiting for the next sweep. */
const countRowsMax = 100;

export class DocumentReads {
  readonly #sql: PostgresSql;
  readonly #nowMs: () => number;
  readonly #grouped = new Grouping<DocumentName, DocumentRecord | undefined>({
    run: (names) => this.#readAll(names, this.#sql),
    itemsMax: readsGroupedMax,
    groupsMax: 4,
  });

  constructor(sql: PostgresSql, nowMs: () => number) {
    this.#sql = sql;
    this.#nowMs = nowMs;
  }

  get(scope: Scope, key: string): Promise<DocumentRecord | undefined> {
    return this.#grouped.add({ scope, key });
  }

  getMany(
    scope: Scope,
    keys: readonly string[],
    { bytesMax, sql = this.#sql }: { bytesMax?: number | undefined; sql?: Queryable } = {},
  ): Promise<(DocumentRecord | undefined)[]> {
    return this.#readAll(
      keys.map((key) => ({ scope, key })),
      sql,
      bytesMax,
    );
  }

  async listKeys(scope: Scope, range: KeyRange): Promise<KeySummary[]> {
    const { where, parameters } = this.#range(scope, range);
    const rows = await query<{ key: string; version: string; sizeBytes: number; updatedAt: string }>(
      this.#sql,
      `SELECT key, version, "sizeBytes", "updatedAt" FROM agent_data_store d
        WHERE ${where} ORDER BY key LIMIT $6`,
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
    const rows = await query<DocumentRow>(
      this.#sql,
      `SELECT ${columnsRead} FROM agent_data_store d WHERE ${where} ORDER BY key LIMIT $6`,
      parameters,
    );
    return rows.map(recordOf);
  }

  async listNamespaces(user: string, after: string | null, limit: number): Promise<NamespaceSummary[]> {
    const counted = await countedNamespaces(this.#sql, user, { after: after ?? '', limit }, this.#now());
    return this.#withAgents(user, counted);
  }

  async describeNamespaces(user: string, names: readonly string[]): Promise<NamespaceSummary[]> {
    const counted = await countedNamespaces(this.#sql, user, { names, limit: names.length }, this.#now());
    return this.#withAgents(user, counted);
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    const position = after === null ? ['', '', ''] : exportPosition(after);
    const rows = await query<DocumentRow>(
      this.#sql,
      `SELECT ${columnsRead} FROM agent_data_store d
        WHERE ("userId", namespace, key) > ($1, $2, $3) AND ("expiresAt" IS NULL OR "expiresAt" > $4)
        ORDER BY "userId", namespace, key LIMIT $5`,
      [...position, this.#now(), limit],
    );
    const last = rows.length < limit ? undefined : rows.at(-1);
    return {
      documents: rows.map(recordOf),
      after: last === undefined ? null : JSON.stringify([last.userId, last.namespace, last.key]),
    };
  }

  async #withAgents(user: string, counted: readonly CountedNamespace[]): Promise<NamespaceSummary[]> {
    if (counted.length === 0) return [];
    if (counted.some(({ rows }) => rows > countRowsMax)) await mergeCounts(this.#sql, user);
    const agents = await query<{ namespace: string; agent: string }>(
      this.#sql,
      `SELECT namespace, agent FROM agent_data_store_agents
        WHERE "userId" = $1 AND namespace = ANY($2::text[]) ORDER BY namespace, agent`,
      [user, counted.map(({ namespace }) => namespace)],
    );
    return counted.map(({ namespace, count, sizeBytes, updatedAt }) => ({
      namespace,
      count,
      sizeBytes,
      agents: agents.filter((row) => row.namespace === namespace).map(({ agent }) => agent),
      updatedAt,
    }));
  }

  async #readAll(
    names: readonly DocumentName[],
    sql: Queryable,
    bytesMax?: number,
  ): Promise<(DocumentRecord | undefined)[]> {
    if (names.length === 0) return [];
    const found = `FROM (VALUES ${valuesList(names.length, ['text', 'text', 'text', 'integer'])}) AS v (u, n, k, at)
        CROSS JOIN LATERAL (
          SELECT * FROM agent_data_store WHERE "userId" = v.u AND namespace = v.n AND key = v.k LIMIT 1) d
        WHERE (d."expiresAt" IS NULL OR d."expiresAt" > $${names.length * 4 + 1})`;
    const rows = await query<DocumentRow & { at: number }>(
      sql,
      bytesMax === undefined
        ? `SELECT v.at, ${columnsRead} ${found}`
        : // The inner statement adds up sizes without reading the values.
          `SELECT d.at, ${columnsRead} FROM (
            SELECT v.at, d.*, sum(d."sizeBytes") OVER (ORDER BY v.at) - d."sizeBytes" AS "bytesBefore" ${found}) d
          WHERE d."bytesBefore" <= $${names.length * 4 + 2}`,
      [
        ...names.flatMap(({ scope, key }, at): Parameter[] => [scope.user, scope.namespace, key, at]),
        this.#now(),
        ...(bytesMax === undefined ? [] : [bytesMax]),
      ],
    );
    const records = Array<DocumentRecord | undefined>(names.length).fill(undefined);
    for (const row of rows) records[row.at] = recordOf(row);
    return records;
  }

  #range(scope: Scope, { prefix, after, limit }: KeyRange): { where: string; parameters: Parameter[] } {
    const end = afterPrefix(prefix);
    return {
      where: `"userId" = $1 AND namespace = $2 AND key >= $3 AND key > $4
        AND ("expiresAt" IS NULL OR "expiresAt" > $5)${end === null ? '' : ' AND key < $7'}`,
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

  #now(): string {
    return timeOfMs(this.#nowMs());
  }
}

/**
 * User, namespace and key of the last document. The cursor comes from a client, so its content is checked.
 */
function exportPosition(after: string): string[] {
  try {
    const parts: unknown = JSON.parse(after);
    if (
      Array.isArray(parts) &&
      parts.length === 3 &&
      parts.every((part) => typeof part === 'string' && !part.includes('\0'))
    )
      return parts as string[];
  } catch (error) {
    throw invalidCursor(error);
  }
  throw invalidCursor();
}
