/** Vectors in PostgreSQL: the port of searches by meaning. */
import { randomUUID } from 'node:crypto';
import type { Limits } from '../../../../core/settings/limits.js';
import type {
  Backlog,
  EmbeddedDocument,
  VectorAnswer,
  VectorPort,
  VectorSearch,
  WaitingDocument,
} from '../../../../find/vectors/port.js';
import { type PostgresSql, query } from '../../database/connection.js';
import type { PostgresWriter } from '../../write/writer.js';
import { readWaiting, settleDocuments } from './backlog.js';
import { compareInDatabase, compareOneByOne, hasPgvector } from './comparing.js';
import { spreadNamespaces } from './whole-namespaces.js';

export interface PostgresVectorsOptions {
  readonly sql: PostgresSql;
  readonly writer: PostgresWriter;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** More than a batch takes, with its retries. A server that ends keeps others waiting no longer than this. */
const leaseExtraSeconds = 60;

export class PostgresVectors implements VectorPort {
  readonly #options: PostgresVectorsOptions;
  readonly #server = randomUUID();
  #hasPgvector: Promise<boolean> | undefined;

  constructor(options: PostgresVectorsOptions) {
    this.#options = options;
  }

  readonly method = async (): Promise<string> =>
    (await this.#pgvector())
      ? 'vectors are compared in the database by pgvector'
      : 'vectors are compared one by one; with the extension pgvector the database compares them';

  async search(search: VectorSearch): Promise<VectorAnswer> {
    const { sql, limits } = this.#options;
    return (await this.#pgvector())
      ? compareInDatabase(sql, search)
      : compareOneByOne(sql, search, limits.vectorsExaminedMax);
  }

  async *owners(): AsyncGenerator<string> {
    for (let after = ''; ;) {
      const [row] = await query<{ owner: string }>(
        this.#options.sql,
        'SELECT owner FROM find.waiting WHERE owner > $1 ORDER BY owner LIMIT 1',
        [after],
      );
      if (row === undefined) return;
      yield row.owner;
      after = row.owner;
    }
  }

  async take(
    owner: string,
    after: string | null,
    limit: number,
  ): Promise<{ documents: readonly WaitingDocument[]; next: string | null } | null> {
    const { sql, limits, nowMs } = this.#options;
    const leased = await query(
      sql,
      `INSERT INTO find.embedding AS e (owner, server, until)
          VALUES ($1, $2, clock_timestamp() + $3::double precision * interval '1 second')
        ON CONFLICT (owner) DO UPDATE SET server = excluded.server, until = excluded.until
          WHERE e.server = excluded.server OR e.until < clock_timestamp() RETURNING 1`,
      [owner, this.#server, 2 * limits.embedSecondsMax + leaseExtraSeconds],
    );
    if (leased.length === 0) return null;
    await spreadNamespaces(sql, owner);
    return readWaiting(sql, owner, { after, limit, nowMs: nowMs() });
  }

  settle(owner: string, documents: readonly EmbeddedDocument[]): Promise<void> {
    return this.#options.writer.transact((work) => settleDocuments(work, owner, documents));
  }

  async release(owner: string): Promise<void> {
    await query(this.#options.sql, 'DELETE FROM find.embedding WHERE owner = $1 AND server = $2', [
      owner,
      this.#server,
    ]);
  }

  async waitAll(): Promise<void> {
    await query(
      this.#options.sql,
      `INSERT INTO find.waiting (owner, collection, id)
        SELECT owner, collection, '' FROM find.namespace_settings WHERE embed`,
    );
  }

  async backlog(): Promise<Backlog> {
    const [row] = await query<{ documents: string; oldest_ms: string | null }>(
      this.#options.sql,
      `SELECT count(*) AS documents, (extract(epoch FROM min(since)) * 1000)::bigint AS oldest_ms FROM find.waiting`,
    );
    const oldest = row?.oldest_ms ?? null;
    return { documents: Number(row?.documents ?? 0), oldestMs: oldest === null ? null : Number(oldest) };
  }

  #pgvector(): Promise<boolean> {
    this.#hasPgvector ??= hasPgvector(this.#options.sql).catch((error: unknown) => {
      this.#hasPgvector = undefined;
      throw error;
    });
    return this.#hasPgvector;
  }
}
