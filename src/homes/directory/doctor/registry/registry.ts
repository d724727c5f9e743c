/** What `stoa doctor` checks in the registry: every index against its records, in both directions. */
import { userKey } from '../../../../identity/user-key.js';
import { type Damage, type ExaminedRow, missingRow, wrongRow } from '../../kernel/inspect/damage.js';
import type { Check, Found } from '../../kernel/inspect/doctor.js';
import { prefixRange } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Kernel } from '../../kernel/kernel.js';
import { timerKey } from '../../kernel/timers/timers.js';
import type { Reader } from '../../kernel/transaction.js';
import { idBytes } from '../../../../registry/ids.js';
import { decodeAgent, encodeUser } from '../../../../registry/layout/codec.js';
import {
  agentKey,
  agentKeyBytes,
  sessionStatusPrefix,
  userKeyBytes,
} from '../../../../registry/layout/keys.js';
import type { AgentMeta, AgentRecord, Lease } from '../../../../registry/model.js';
import { inspectId } from '../directory.js';
import { indexCheck, inspectRows, readable } from '../indexes.js';
import { inspectTimer } from '../timers.js';
import { AgentOwners, countRows, inspectAbsentCount, inspectAgentCount } from './owner.js';
import { sessionChecks } from './sessions.js';
import { userChecks } from './users.js';
import { registryFamilies as families } from '../../registry/families.js';
import { agentRecords, keyOfAgent } from '../../registry/indexes.js';
import { activityTimer, leaseTimer } from '../../registry/timers.js';
import {
  type MetaRow,
  decodeJson,
  decodeMeta,
  encodeJson,
  readAgent,
  writeMeta,
} from '../../registry/rows.js';

/** The checks in the order in which repairs build on each other. */
export function registryChecks(kernel: Kernel): Check[] {
  const owners = new AgentOwners();
  return [
    ...sessionChecks(kernel),
    { family: families.agents, inspect: (row) => inspectAgent(kernel, owners, row) },
    ...[families.agentsByStatus, families.agentsByName, families.agentsByLabel].map((family) =>
      indexCheck(family, 'agent', agentRecords, ({ reader, key }) =>
        readAgent(reader, key.subarray(-agentKeyBytes)),
      ),
    ),
    indexCheck(families.agentsById, 'agent', agentRecords, ({ reader, key, value }) =>
      readAgent(reader, agentKey(value, key)),
    ),
    { family: families.agentMeta, inspect: inspectOfAgent },
    { family: families.leases, inspect: inspectLease },
    ...userChecks(kernel, owners),
  ];
}

function* inspectAgent(kernel: Kernel, owners: AgentOwners, row: ExaminedRow): Generator<Found> {
  const { reader, store, key } = row;
  const user = key.subarray(0, userKeyBytes);
  const record = decodeAgent(row.value);
  if (key.length !== agentKeyBytes || record.user_id + record.agent_id !== key.toString('hex')) {
    yield row.beyondRepair('The ids in the record differ from the ids in its key.');
    return;
  }
  if (kernel.storeOf(user) !== store) yield row.beyondRepair('The agent is stored in the wrong shard.');
  const agent = key.subarray(userKeyBytes);
  if (!reader.get(families.agentsById, agent)?.equals(user)) owners.remember(agent);
  const stored = reader.get(families.agentMeta, key);
  const meta = stored && readable(() => decodeMeta(stored));
  yield* inspectMeta(reader, record, meta);
  yield* inspectId(kernel, record.agent_id, user);
  yield* inspectOwner(reader, record, meta?.user);
  yield* inspectCount(reader, key, user);
}

function* inspectMeta(reader: Reader, record: AgentRecord, stored: MetaRow | undefined): Generator<Found> {
  const agent = idBytes(record.agent_id);
  const activeSessions = yield* countRows(
    reader,
    families.sessionsByStatus,
    sessionStatusPrefix('active', agent),
  );
  if (stored === undefined) {
    yield missingRow(
      families.agentMeta,
      keyOfAgent(record),
      'The meta row of the agent is missing or invalid. Its labels are lost.',
      (tx) => {
        const known = tx.get(families.userNames, idBytes(record.user_id))?.toString();
        const meta = newMeta(record, known ?? record.user_id, tx.nowMs);
        writeMeta(tx, { record, meta, activeSessions });
        agentRecords.move(tx, undefined, { record, meta });
      },
    );
    return;
  }
  yield* inspectRows(reader, agentRecords.rowsOf({ record, meta: stored }), `the agent ${record.agent_id}`);
  const { activeSessions: kept, ...meta } = stored;
  if (kept !== activeSessions)
    yield wrongRow(
      families.agentMeta,
      keyOfAgent(record),
      `The count of active sessions is ${kept}. Expected ${activeSessions}.`,
      (tx) => writeMeta(tx, { record, meta, activeSessions }),
    );
  if (meta.activityTimerAtMs === null) return;
  const timer = { atMs: meta.activityTimerAtMs, kind: activityTimer, reference: agent };
  yield* inspectTimer(reader, timer, `The idle timer of ${record.agent_id} is missing.`);
}

/** With a new version number, so that an old one does not match again. */
function newMeta({ updated_at }: AgentRecord, user: string, nowMs: number): AgentMeta {
  return {
    version: nowMs,
    user,
    labels: {},
    errorMessage: null,
    statusSinceMs: updated_at,
    activeAtMs: updated_at,
    activityTimerAtMs: null,
  };
}

/** `name`: the readable id of the owner, as the agent has it. */
function* inspectOwner(reader: Reader, record: AgentRecord, name: string | undefined): Generator<Damage> {
  const user = idBytes(record.user_id);
  if (reader.get(families.users, user) === undefined) {
    const times = { created_at: record.created_at, last_seen_at: record.created_at };
    const owner = encodeUser({ user_id: record.user_id, email: '', ...times });
    yield missingRow(families.users, user, 'The record of the owner of an agent is missing.', owner);
  }
  const known = reader.get(families.userNames, user);
  if (known !== undefined && userKey(known.toString()).equals(user)) return;
  if (name !== undefined && userKey(name).equals(user))
    yield missingRow(
      families.userNames,
      user,
      'The readable id of a user is missing. It can be restored from an agent of the user.',
      Buffer.from(name),
    );
}

/** The first agent of a user also checks the count of the user's agents. */
function* inspectCount(reader: Reader, key: Buffer, user: Buffer): Generator<Found> {
  const [first] = [...reader.range(families.agents, { ...prefixRange(user), limit: 1 })];
  if (first?.key.equals(key) !== true) return;
  yield* inspectAgentCount(reader, user);
  yield* inspectAbsentCount(reader, user);
}

function* inspectOfAgent(row: ExaminedRow): Generator<Damage> {
  if (row.reader.get(families.agents, row.key) === undefined) yield row.dangling('The agent does not exist.');
}

function* inspectLease(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  const lease = readable(() => decodeJson<Lease>(row.value, 'lease'));
  if (lease === undefined) {
    yield row.surplus('The lease of an agent is not JSON.', 'unreadable');
    return;
  }
  yield* inspectOfAgent(row);
  if (lease.holder === null || reader.get(families.agents, key) === undefined) return;
  const atMs = lease.timerAtMs ?? lease.expiresAtMs;
  const agent = key.subarray(userKeyBytes);
  const timer = { atMs, kind: leaseTimer, reference: agent };
  if (reader.get(kernelFamilies.timers, timerKey(timer)) !== undefined && lease.timerAtMs !== null) return;
  yield missingRow(
    kernelFamilies.timers,
    timerKey(timer),
    `The timer of the lease of ${agent.toString('hex')} is missing.`,
    (tx) => {
      tx.schedule(timer);
      tx.put(families.leases, key, encodeJson({ ...lease, timerAtMs: atMs }));
    },
  );
}
