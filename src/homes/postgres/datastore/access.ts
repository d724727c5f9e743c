/** Counted reads in PostgreSQL: added up once, also when the answer to a commit is lost. */
import type { AccessRead } from '../../../datastore/port.js';
import { StoaError } from '../../../core/errors.js';
import { type Parameter, type PostgresSql, query, transaction } from '../connection.js';
import { noteAgents } from './agents.js';
import { valuesList } from './sql.js';

/** Looks at a transaction that the server has not ended yet, and the pause between two. */
const looksMax = 40;
const pauseMs = 50;

export class AccessWrites {
  readonly #sql: PostgresSql;
  /** Reads that were handed over in a transaction of which nobody has heard. */
  #unsure: { commit: string; reads: readonly AccessRead[] } | undefined;

  constructor(sql: PostgresSql) {
    this.#sql = sql;
  }

  async record(reads: readonly AccessRead[]): Promise<void> {
    await this.settle();
    await this.#record(reads);
  }

  /** Asks what became of a transaction whose answer was lost. The server knows for a long time. */
  async settle(): Promise<void> {
    if (this.#unsure === undefined) return;
    const { commit, reads } = this.#unsure;
    for (let looks = 1; ; looks += 1) {
      const [row] = await query<{ status: string | null }>(
        this.#sql,
        'SELECT pg_xact_status($1::text::xid8) AS status',
        [commit],
      );
      if (row?.status !== 'in progress') {
        this.#unsure = undefined;
        if (row?.status === 'aborted') await this.#record(reads);
        return;
      }
      if (looks === looksMax)
        throw new StoaError(
          'backend_unavailable',
          'PostgreSQL has not ended a transaction whose connection is gone.',
        );
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  async #record(reads: readonly AccessRead[]): Promise<void> {
    let commit: string | undefined;
    try {
      await transaction(this.#sql, async (tx) => {
        const [row] = await query<{ id: string }>(tx, 'SELECT pg_current_xact_id()::text AS id');
        commit = row?.id;
        await query(
          tx,
          `UPDATE agent_data_store d SET "accessCount" = d."accessCount" + v.count,
              "lastAccessedByAgent" = CASE WHEN v.at >= coalesce(d."lastAccessedAt", '-infinity') THEN v.agent ELSE d."lastAccessedByAgent" END,
              "lastAccessedAt" = greatest(d."lastAccessedAt", v.at)
            FROM (VALUES ${valuesList(reads.length, ['text', 'text', 'text', 'bigint', 'text', 'timestamptz'])}) AS v (u, n, k, count, agent, at)
            WHERE d."userId" = v.u AND d.namespace = v.n AND d.key = v.k`,
          reads.flatMap(({ scope, key, count, last }): Parameter[] => [
            scope.user,
            scope.namespace,
            key,
            count,
            last?.agent ?? null,
            last?.at ?? null,
          ]),
        );
        await noteAgents(
          tx,
          reads.flatMap(({ scope, agents }) => agents.map((agent) => ({ scope, agent }))),
        );
      });
    } catch (error) {
      if (commit === undefined || !(error instanceof StoaError) || error.code !== 'backend_unavailable')
        throw error;
      // Handed over, for all that whoever counts has to know: they are settled before the next.
      this.#unsure = { commit, reads };
    }
  }
}
