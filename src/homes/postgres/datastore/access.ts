/**
 * Read counts of documents in PostgreSQL. Each read is added once, even if the answer to the COMMIT is lost.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AccessRead } from '../../../datastore/port.js';
import { StoaError } from '../../../core/errors.js';
import { type Parameter, type PostgresSql, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { recordAgents } from './agents.js';
import { valuesList } from './sql.js';

/** How often the status of an unfinished transaction is read, and the pause in between. */
const statusReadsMax = 40;
const pauseMs = 50;
const columnTypes = ['text', 'text', 'text', 'bigint', 'text', 'timestamptz'];

export class AccessWrites {
  readonly #sql: PostgresSql;
  /** The reads of a transaction whose outcome is unknown. */
  #unsettled: { commit: string; reads: readonly AccessRead[] } | undefined;

  constructor(sql: PostgresSql) {
    this.#sql = sql;
  }

  async record(reads: readonly AccessRead[]): Promise<void> {
    await this.settle();
    await this.#record(reads);
  }

  /**
   * Reads the outcome of a transaction whose answer was lost, and records its reads again if it was rolled
   * back.
   */
  async settle(): Promise<void> {
    if (this.#unsettled === undefined) return;
    const { commit, reads } = this.#unsettled;
    for (let statusReads = 1; ; statusReads += 1) {
      const [row] = await query<{ status: string | null }>(
        this.#sql,
        'SELECT pg_xact_status($1::text::xid8) AS status',
        [commit],
      );
      if (row?.status !== 'in progress') {
        this.#unsettled = undefined;
        if (row?.status === 'aborted') await this.#record(reads);
        return;
      }
      if (statusReads === statusReadsMax)
        throw new StoaError(
          'backend_unavailable',
          'PostgreSQL has not ended a transaction whose connection was lost.',
        );
      await sleep(pauseMs);
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
              "lastAccessedByAgent" = CASE WHEN v.at >= coalesce(d."lastAccessedAt", '-infinity')
                THEN v.agent ELSE d."lastAccessedByAgent" END,
              "lastAccessedAt" = greatest(d."lastAccessedAt", v.at)
            FROM (VALUES ${valuesList(reads.length, columnTypes)}) AS v (u, n, k, count, agent, at)
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
        const seen = reads.flatMap(({ scope, agents }) => agents.map((agent) => ({ scope, agent })));
        await recordAgents(tx, seen);
      });
    } catch (error) {
      if (commit === undefined || !(error instanceof StoaError) || error.code !== 'backend_unavailable')
        throw error;
      // The transaction may have committed, so the caller must not send these reads again. `settle` finds
      // out.
      this.#unsettled = { commit, reads };
    }
  }
}
