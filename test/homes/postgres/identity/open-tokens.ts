/** Tokens on a real PostgreSQL, with a clock that the test turns. */
import { DatabaseClock } from '../../../../src/homes/postgres/database/database-clock.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { documentsOf } from '../../../../src/homes/postgres/datastore/counts.js';
import {
  type PostgresIdentity,
  openPostgresIdentity,
} from '../../../../src/homes/postgres/identity/identity.js';
import { PostgresWriter } from '../../../../src/homes/postgres/write/writer.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { IdentityService } from '../../../../src/identity/service.js';
import { hashToken, newOperatorToken } from '../../../../src/identity/tokens.js';
import { GatedIdentity, type OpenTokens, type TokenBench } from '../../../identity/token-suite.js';
import { type PostgresRegistryBench, openPostgresRegistryBench } from '../registry/open-registry.js';

export interface PostgresTokenBench extends TokenBench {
  registry: PostgresRegistryBench;
  home: PostgresIdentity;
  writer: PostgresWriter;
}

const tables = ['registry.tokens', 'registry.owners', 'kept_answers', 'feed.incoming'];

export async function openPostgresTokens(
  given: Parameters<OpenTokens>[0] = { tokensCachedMax: 100, tokensPerUserMax: 100 },
  url?: URL,
): Promise<PostgresTokenBench> {
  const limits = limitsWith(given);
  const registry = await openPostgresRegistryBench({ limits, ...(url && { url }) });
  const { sql, clock } = registry;
  const home = await openPostgresIdentity({
    sql,
    databaseClock: new DatabaseClock(sql),
    limits,
    clock: () => clock.nowMs,
    onRemoved: (id) => identity.forget(id),
    onAgentForgotten: () => undefined,
    onMissed: () => identity.forgetAll(),
    onError: () => undefined,
  });
  const port = new GatedIdentity(home);
  const writer = new PostgresWriter({
    sql,
    limits,
    clock: new DatabaseClock(sql, () => clock.nowMs - Date.now()),
    checkFence: async () => undefined,
    checkTables: () => undefined,
    documentsOf,
    onCommitted: () => undefined,
    onError: () => undefined,
  });
  const identity: IdentityService = new IdentityService({
    writer,
    port,
    limits,
    operatorTokenHashes: () => [hashToken(newOperatorToken())],
    nowMs: () => clock.nowMs,
    onError: (error) => {
      throw error;
    },
  });
  return {
    registry,
    home,
    writer,
    identity,
    port,
    clock,
    sweep: () => home.sweep(writer),
    dump: async () =>
      (
        await Promise.all(
          tables.map((table) =>
            query<{ row: string }>(sql, `SELECT row_to_json(t)::text AS row FROM ${table} t`),
          ),
        )
      )
        .flat()
        .map(({ row }) => row)
        .join('\n'),
    close: async () => {
      await home.removals.close();
      await registry.close();
    },
  };
}
