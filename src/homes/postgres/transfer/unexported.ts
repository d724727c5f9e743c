/** Tokens and kept seeds in PostgreSQL: records that a move copies and an export leaves out. */
import type { Sealer } from '../../../secrets/sealer.js';
import { orphan } from '../../../transfer/import/conflicts.js';
import type { KeptSeedLine, TokenLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { insertToken, removeToken, tokenColumns, tokenOf } from '../identity/identity.js';
import { tokenOwnerId } from '../identity/caller-check.js';
import { type Row, numberOrNull } from '../registry/rows.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type SqlReader, type TableKind, TableRecords, pageOfRows, writerAccess } from './records.js';

export interface UnexportedRecordsOptions {
  sql: PostgresSql;
  sealer: Sealer;
  transact: PostgresWriter['transact'];
}

interface SeedRow {
  owner: string;
  agent_id: string;
  sealed_seed: string;
}

export function unexportedRecords({
  sql,
  sealer,
  transact,
}: UnexportedRecordsOptions): [type: string, store: RecordStore][] {
  const access = writerAccess(sql, transact);
  return [
    ['identity.token', new TableRecords(access, tokenTable(sql))],
    ['messaging.seed', new TableRecords(access, seedTable(sql, sealer))],
  ];
}

const tokens = {
  columns: `user_id, ${tokenColumns}`,
  from: 'registry.tokens',
  key: ['user_id', 'token_id'],
};
const seeds = { columns: 'owner, agent_id, sealed_seed', from: 'messaging.kept_agents', key: ['owner'] };

function tokenTable(sql: Queryable): TableKind<TokenLine, SqlReader, Work> {
  return {
    page: (_scope, after, limit) => pageOfRows(sql, tokens, tokenLine, after, limit),
    stored: async ({ sql: on }, { id }) => {
      const [row] = await query<Row>(
        on,
        `SELECT ${tokenColumns} FROM registry.tokens WHERE token_id = $1
          AND user_id = (SELECT user_id FROM registry.owners WHERE id = $2)`,
        [id, tokenOwnerId(id)],
      );
      return row === undefined ? undefined : tokenLine(row);
    },
    put: async (work, { type: _type, lastUsedAtMs, ...record }, isNew) => {
      if (!isNew) await removeToken(work, record.id);
      await insertToken(work, record, lastUsedAtMs);
    },
  };
}

function seedTable(sql: Queryable, sealer: Sealer): TableKind<KeptSeedLine, SqlReader, Work> {
  const line = (row: SeedRow): KeptSeedLine => seedLine(row, sealer);
  return {
    page: (_scope, after, limit) => pageOfRows(sql, seeds, line, after, limit),
    stored: async ({ sql: on }, { owner }) => {
      const [row] = await query<SeedRow>(on, `SELECT ${seeds.columns} FROM ${seeds.from} WHERE owner = $1`, [
        owner,
      ]);
      return row === undefined ? undefined : line(row);
    },
    obstacle: async ({ sql: on }, { identity }) => {
      const found = await query(on, 'SELECT 1 FROM agents WHERE id = $1', [identity]);
      return found.length === 0 ? orphan(`The identity ${identity}`) : null;
    },
    put: async (work, { owner, identity, seed }) => {
      await work.rows(
        `INSERT INTO messaging.kept_agents (owner, agent_id, sealed_seed) VALUES ($1, $2, $3)
          ON CONFLICT (owner) DO UPDATE
            SET agent_id = excluded.agent_id, sealed_seed = excluded.sealed_seed`,
        [owner, identity, sealer.seal(seed, identity)],
      );
    },
  };
}

function seedLine({ owner, agent_id, sealed_seed }: SeedRow, sealer: Sealer): KeptSeedLine {
  return { type: 'messaging.seed', owner, identity: agent_id, seed: sealer.open(sealed_seed, agent_id) };
}

function tokenLine(row: Row): TokenLine {
  return { type: 'identity.token', ...tokenOf(row), lastUsedAtMs: numberOrNull(row, 'last_used_at') };
}
