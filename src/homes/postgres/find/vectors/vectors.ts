/** Vectors in PostgreSQL: the port of searches by meaning. */
import { randomUUID } from 'node:crypto';
import type { Limits } from '../../../../core/settings/limits.js';
import type { VectorPort, VectorSearch } from '../../../../find/vectors/port.js';
import { type PostgresSql, query } from '../../database/connection.js';
import { takeTurn } from '../../database/turns.js';
import type { PostgresWriter } from '../../write/writer.js';
import { readWaiting, settleDocuments } from './backlog.js';
import { compareInDatabase, compareOneByOne, whyNoPgvector } from './comparing.js';
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
  #whyNoPgvector: Promise<string | null> | undefined;
  /** Undefined: this server has no embedder, or has not adopted its space yet. */
  #space: string | undefined;

  constructor(options: PostgresVectorsOptions) {
    this.#options = options;
  }

  readonly method: VectorPort['method'] = async () => {
    const reason = await this.#pgvector();
    return reason === null
      ? 'vectors are compared in the database by pgvector'
      : `vectors are compared one by one: ${reason}`;
  };

  readonly search: VectorPort['search'] = async (search) => {
    const { sql, limits } = this.#options;
    // Before the vectors are read: what waits then is not among them.
    const hasAll = await this.#hasAllVectors(search);
    const answer =
      (await this.#pgvector()) === null
        ? await compareInDatabase(sql, search)
        : await compareOneByOne(sql, search, limits.vectorsExaminedMax);
    return { ...answer, isComplete: answer.isComplete && hasAll };
  };

  /** Servers with an embedder of another space would take no documents, so each space has its own turns. */
  readonly takeTurn: NonNullable<VectorPort['takeTurn']> = (canEmbed, intervalMs) =>
    takeTurn(this.#options.sql, canEmbed ? `vectors of ${this.#space}` : 'vectors', intervalMs);

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

  readonly take: VectorPort['take'] = async (owner, after, limit) => {
    const { sql, limits, nowMs } = this.#options;
    if (this.#space !== undefined && (await readSpace(sql)) !== this.#space) return null;
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
  };

  readonly settle: VectorPort['settle'] = (owner, documents) =>
    this.#options.writer.transact((work) => settleDocuments(work, owner, documents));

  readonly release: VectorPort['release'] = async (owner) => {
    await query(this.#options.sql, 'DELETE FROM find.embedding WHERE owner = $1 AND server = $2', [
      owner,
      this.#server,
    ]);
  };

  readonly adopt: VectorPort['adopt'] = async (space) => {
    await query(
      this.#options.sql,
      `WITH adopted AS (INSERT INTO find.vector_space AS v (space) VALUES ($1)
          ON CONFLICT (single) DO UPDATE SET space = excluded.space WHERE v.space <> excluded.space RETURNING 1)
        INSERT INTO find.waiting (owner, collection, id)
          SELECT s.owner, s.collection, '' FROM find.namespace_settings s, adopted WHERE s.embed`,
      [space],
    );
    this.#space = space;
  };

  readonly backlog: VectorPort['backlog'] = async () => {
    const [row] = await query<{ documents: string; oldest_ms: string | null }>(
      this.#options.sql,
      `SELECT count(*) AS documents, (extract(epoch FROM min(since)) * 1000)::bigint AS oldest_ms FROM find.waiting`,
    );
    const oldest = row?.oldest_ms ?? null;
    return { documents: Number(row?.documents ?? 0), oldestMs: oldest === null ? null : Number(oldest) };
  };

  async #hasAllVectors({ user, namespaces, space }: VectorSearch): Promise<boolean> {
    const rows = await query(
      this.#options.sql,
      `SELECT 1 FROM find.vector_space WHERE space = $3 AND NOT EXISTS
        (SELECT FROM find.waiting WHERE owner = $1 AND ($2::text[] IS NULL OR collection = ANY($2::text[])))`,
      [user, namespaces, space],
    );
    return rows.length > 0;
  }

  #pgvector(): Promise<string | null> {
    this.#whyNoPgvector ??= whyNoPgvector(this.#options.sql).catch((error: unknown) => {
      this.#whyNoPgvector = undefined;
      throw error;
    });
    return this.#whyNoPgvector;
  }
}

async function readSpace(sql: PostgresSql): Promise<string | undefined> {
  const [row] = await query<{ space: string }>(sql, 'SELECT space FROM find.vector_space');
  return row?.space;
}
