/** What `stoa doctor` checks in the registry: every index against its records, in both directions. */
import { userKey } from '../../../../identity/user-key.js';
import { messageOf } from '../../../../core/errors.js';
import {
  type Check,
  type Damage,
  type Found,
  beyondRepair,
  missingRow,
  surplusRow,
  wrongRow,
} from '../../kernel/inspect/doctor.js';
import { type Entry, prefixRange } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import { timerKey } from '../../kernel/timers/timers.js';
import type { Reader } from '../../kernel/transaction.js';
import { decodeAgent, encodeUser } from '../../../../registry/layout/codec.js';
import {
  agentKey,
  agentKeyBytes,
  sessionStatusPrefix,
  userKeyBytes,
} from '../../../../registry/layout/keys.js';
import type { AgentMeta, AgentRecord, Lease } from '../../../../registry/model.js';
import { inspectIndexRow, inspectRows } from '../indexes.js';
import { AgentOwners, countRows, inspectAbsentCount, inspectAgentCount } from './owner.js';
import { sessionChecks } from './sessions.js';
import { userChecks } from './users.js';
import { registryFamilies as families } from '../../registry/families.js';
import { agentRecords } from '../../registry/indexes.js';
import { activityTimer, leaseTimer } from '../../registry/timers.js';
import { type MetaRow, decodeJson, decodeMeta, encodeJson, writeMeta } from '../../registry/rows.js';

/** The checks in the order in which repairs build on each other. */
export function registryChecks(kernel: Kernel): Check[] {
  const owners = new AgentOwners();
  return [
    ...sessionChecks(kernel),
    {
      family: families.agents,
      inspect: (reader, entry, store) => inspectAgent(kernel, owners, reader, entry, store),
    },
    ...[families.agentsByStatus, families.agentsByName, families.agentsByLabel].map((family) =>
      indexCheck(family, ({ key }) => key.subarray(-agentKeyBytes)),
    ),
    indexCheck(families.agentsById, ({ key, value }) => agentKey(value, key)),
    { family: families.agentMeta, inspect: inspectOfAgent(families.agentMeta) },
    { family: families.leases, inspect: inspectLease },
    ...userChecks(kernel, owners),
  ];
}

/** An agent with a readable record and meta, or the reason why not. */
function readBoth(
  reader: Reader,
  key: Buffer,
): { record: AgentRecord; meta: MetaRow } | 'missing' | 'unreadable' {
  const stored = reader.get(families.agents, key);
  if (stored === undefined) return 'missing';
  const meta = reader.get(families.agentMeta, key);
  if (meta === undefined) return 'unreadable';
  try {
    return { record: decodeAgent(stored), meta: decodeMeta(meta) };
  } catch {
    // The check of the family itself reports what is wrong with the row.
    return 'unreadable';
  }
}

function* inspectAgent(
  kernel: Kernel,
  owners: AgentOwners,
  reader: Reader,
  { key, value }: Entry,
  store: Store,
): Generator<Found> {
  const user = key.subarray(0, 32);
  const agent = key.subarray(32);
  let record: AgentRecord;
  try {
    record = decodeAgent(value);
  } catch (error) {
    yield beyondRepair(families.agents, key, 'unreadable', messageOf(error));
    return;
  }
  if (key.length !== agentKeyBytes || record.user_id + record.agent_id !== key.toString('hex')) {
    yield beyondRepair(
      families.agents,
      key,
      'wrong',
      'The ids in the record differ from the ids in its key.',
    );
    return;
  }
  if (kernel.storeOf(user) !== store)
    yield beyondRepair(families.agents, key, 'wrong', 'The agent is stored in the wrong shard.');
  if (!reader.get(families.agentsById, agent)?.equals(user)) owners.remember(agent);
  yield* inspectMeta(reader, record, key);
  if (
    kernel.stores.length > 1 &&
    !kernel.root.get(kernelFamilies.directory, Buffer.from(record.agent_id))?.equals(user)
  ) {
    const id = Buffer.from(record.agent_id);
    yield missingRow(
      kernelFamilies.directory,
      id,
      'The agent is missing in the directory of ids.',
      (tx) => tx.put(kernelFamilies.directory, id, user),
      kernel.root,
    );
  }
  yield* inspectOwner(reader, record, user, key);
  yield* inspectCount(reader, key, user);
}

function* inspectMeta(reader: Reader, record: AgentRecord, agentKey: Buffer): Generator<Found> {
  const agent = agentKey.subarray(userKeyBytes);
  const both = readBoth(reader, agentKey);
  const activeSessions = yield* countRows(
    reader,
    families.sessionsByStatus,
    sessionStatusPrefix('active', agent),
  );
  if (typeof both === 'string') {
    yield missingRow(
      families.agentMeta,
      agentKey,
      'The meta row of the agent is missing or invalid. Its labels are lost.',
      (tx) => {
        const known =
          tx.get(families.userNames, agentKey.subarray(0, userKeyBytes))?.toString() ?? record.user_id;
        // A new version number, so that an old one does not match again.
        const meta: AgentMeta = {
          version: tx.nowMs,
          user: known,
          labels: {},
          errorMessage: null,
          statusSinceMs: record.updated_at,
          activeAtMs: record.updated_at,
          activityTimerAtMs: null,
        };
        writeMeta(tx, { record, meta, activeSessions });
        agentRecords.move(tx, undefined, { record, meta });
      },
    );
    return;
  }
  yield* inspectRows(reader, agentRecords.rowsOf(both), `the agent ${record.agent_id}`);
  const { activeSessions: kept, ...meta } = both.meta;
  if (kept !== activeSessions) {
    yield wrongRow(
      families.agentMeta,
      agentKey,
      `The count of active sessions is ${kept}. Expected ${activeSessions}.`,
      (tx) => writeMeta(tx, { record, meta, activeSessions }),
    );
  }
  const { activityTimerAtMs } = meta;
  if (activityTimerAtMs === null) return;
  const timer = { atMs: activityTimerAtMs, kind: activityTimer, reference: agent };
  if (reader.get(kernelFamilies.timers, timerKey(timer)) === undefined) {
    yield missingRow(
      kernelFamilies.timers,
      timerKey(timer),
      `The idle timer of ${record.agent_id} is missing.`,
      (tx) => tx.schedule(timer),
    );
  }
}

function* inspectOwner(
  reader: Reader,
  record: AgentRecord,
  user: Buffer,
  agentKey: Buffer,
): Generator<Damage> {
  if (reader.get(families.users, user) === undefined) {
    const times = { created_at: record.created_at, last_seen_at: record.created_at };
    yield missingRow(families.users, user, 'The record of the owner of an agent is missing.', (tx) =>
      tx.put(families.users, user, encodeUser({ user_id: record.user_id, email: '', ...times })),
    );
  }
  const known = reader.get(families.userNames, user);
  if (known !== undefined && userKey(known.toString()).equals(user)) return;
  const both = readBoth(reader, agentKey);
  if (typeof both !== 'string' && userKey(both.meta.user).equals(user)) {
    const name = Buffer.from(both.meta.user);
    yield missingRow(
      families.userNames,
      user,
      'The readable id of a user is missing. It can be restored from an agent of the user.',
      (tx) => tx.put(families.userNames, user, name),
    );
  }
}

/** The first agent of a user also checks the count of the user's agents. */
function* inspectCount(reader: Reader, key: Buffer, user: Buffer): Generator<Found> {
  const [first] = [...reader.range(families.agents, { ...prefixRange(user), limit: 1 })];
  if (first?.key.equals(key) !== true) return;
  yield* inspectAgentCount(reader, user);
  yield* inspectAbsentCount(reader, user);
}

/** Compares each row of an index with the agent that it names. */
function indexCheck(family: string, agentKeyOf: (entry: Entry) => Buffer): Check {
  return {
    family,
    *inspect(reader, entry) {
      const named = agentKeyOf(entry);
      if (named.length !== agentKeyBytes) {
        yield surplusRow(family, entry.key, 'wrong', 'The index row does not name an agent.');
        return;
      }
      const both = readBoth(reader, named);
      if (both === 'unreadable') return;
      const rows = both === 'missing' ? undefined : agentRecords.rowsOf(both);
      yield* inspectIndexRow(family, entry, rows, 'agent');
    },
  };
}

function inspectOfAgent(family: string): (reader: Reader, entry: Entry) => Generator<Found> {
  return function* (reader, { key }) {
    if (reader.get(families.agents, key) === undefined)
      yield surplusRow(family, key, 'dangling', 'The agent does not exist.');
  };
}

function* inspectLease(reader: Reader, entry: Entry): Generator<Found> {
  const { key } = entry;
  let lease: Lease;
  try {
    lease = decodeJson<Lease>(entry.value, 'lease');
  } catch (error) {
    yield { ...surplusRow(families.leases, key, 'wrong', messageOf(error)), kind: 'unreadable' };
    return;
  }
  yield* inspectOfAgent(families.leases)(reader, entry);
  if (lease.holder === null || reader.get(families.agents, key) === undefined) return;
  const atMs = lease.timerAtMs ?? lease.expiresAtMs;
  const agent = key.subarray(userKeyBytes);
  const timer = { atMs, kind: leaseTimer, reference: agent };
  if (reader.get(kernelFamilies.timers, timerKey(timer)) !== undefined && lease.timerAtMs !== null) return;
  const timed = { ...lease, timerAtMs: atMs };
  yield missingRow(
    kernelFamilies.timers,
    timerKey(timer),
    `The timer of the lease of ${agent.toString('hex')} is missing.`,
    (tx) => {
      tx.schedule(timer);
      tx.put(families.leases, key, encodeJson(timed));
    },
  );
}
