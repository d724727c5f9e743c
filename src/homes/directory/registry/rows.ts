/** The rows of the registry: reading an agent whole, and writing it with every index entry that follows from it. */
import { StoaError, messageOf } from '../../../core/errors.js';
import type { WriteOperation } from '../kernel/engine.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { decodeAgent, decodeSession, encodeAgent, encodeSession } from '../../../registry/codec.js';
import { idBytes, sessionBytes } from '../../../registry/ids.js';
import {
  agentCountKey,
  agentKey,
  deletedFenceKey,
  labelKey,
  nameKey,
  sessionByAgentKey,
  sessionByStatusKey,
  statusKey,
  userKeyBytes,
} from '../../../registry/keys.js';
import {
  type AgentMeta,
  type AgentRecord,
  type Lease,
  type SessionRecord,
  type SessionStatus,
  type StoredAgent,
  sessionStatusOf,
  stateOf,
} from '../../../registry/model.js';
import { registryFamilies as families } from './families.js';

export const noValue = Buffer.alloc(0);

/** A row of an index: the key says it all. */
export interface IndexEntry {
  family: string;
  key: Buffer;
}

export function encodeJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Rows of Stoa's own families are JSON that only this backend writes. */
export function decodeJson<T>(bytes: Buffer, what: string): T {
  try {
    return JSON.parse(bytes.toString()) as T;
  } catch (error) {
    throw new StoaError('serialization', `A stored ${what} is not JSON: ${messageOf(error)}.`, {
      cause: error,
      fix: 'Run "stoa doctor --repair".',
    });
  }
}

/** What the row of `agent_meta` holds: the number of sessions changes where the rest of it does. */
export interface MetaRow extends AgentMeta {
  activeSessions: number;
}

/** The agent under this key of user and agent. */
export function readAgent(reader: Reader, key: Buffer): StoredAgent | undefined {
  const stored = reader.get(families.agents, key);
  return stored === undefined
    ? undefined
    : agentOfRows(key, stored, reader.get(families.agentMeta, key), reader.get(families.leases, key));
}

/** Many at once, with their records where those are known: the rows of neighbours lie together in each family. */
export function readAgents(
  reader: Reader,
  found: readonly { key: Buffer; value?: Buffer }[],
): (StoredAgent | undefined)[] {
  const keys = found.map(({ key }) => key);
  const areKnown = found.every(({ value }) => value !== undefined);
  const stored = areKnown ? found.map(({ value }) => value) : reader.getMany(families.agents, keys);
  const metas = reader.getMany(families.agentMeta, keys);
  const leases = reader.getMany(families.leases, keys);
  return keys.map((key, index) => {
    const agent = stored[index];
    return agent === undefined ? undefined : agentOfRows(key, agent, metas[index], leases[index]);
  });
}

function agentOfRows(
  key: Buffer,
  stored: Buffer,
  metaRow: Buffer | undefined,
  lease: Buffer | undefined,
): StoredAgent {
  if (metaRow === undefined) {
    throw new StoaError(
      'invalid_data',
      `The agent ${key.toString('hex', userKeyBytes)} has no row in ${families.agentMeta}.`,
      { fix: 'Run "stoa doctor --repair".' },
    );
  }
  const { activeSessions, ...meta } = decodeMeta(metaRow);
  return {
    record: decodeAgent(stored),
    meta,
    lease: lease === undefined ? null : decodeJson<Lease>(lease, 'lease'),
    activeSessions,
  };
}

export function decodeMeta(row: Buffer): MetaRow {
  return decodeJson<MetaRow>(row, 'agent meta');
}

/** The key of a record in every family that goes by user and agent. */
export function keyOfAgent({ user_id, agent_id }: Pick<AgentRecord, 'user_id' | 'agent_id'>): Buffer {
  return Buffer.from(user_id + agent_id, 'hex');
}

/** The agent that is found through a row or read from it, or undefined for any other row. */
export function agentIdOfRow({ family, key }: WriteOperation): string | undefined {
  switch (family) {
    case families.agents:
    case families.agentMeta:
    case families.leases:
      return key.toString('hex', userKeyBytes);
    case families.agentsById:
      return key.toString('hex');
    case kernelFamilies.directory:
      return key.toString();
    default:
      return undefined;
  }
}

/** The agent with this id, or undefined where there is none or (with a user) where it is somebody else's. */
export function findAgent(reader: Reader, user: Buffer | null, agentId: string): StoredAgent | undefined {
  const agent = idBytes(agentId);
  // With its owner the agent's own row is found at once; the index is for those who know only the id.
  const owner = user ?? reader.get(families.agentsById, agent);
  return owner === undefined ? undefined : readAgent(reader, agentKey(owner, agent));
}

/** Every index entry that follows from an agent's record and meta. */
export function agentIndexEntries({ record, meta }: Pick<StoredAgent, 'record' | 'meta'>): IndexEntry[] {
  const user = idBytes(record.user_id);
  const agent = idBytes(record.agent_id);
  return [
    { family: families.agentsByStatus, key: statusKey(stateOf(record), user, agent) },
    { family: families.agentsByName, key: nameKey(record.name, user, agent) },
    ...Object.entries(meta.labels).flatMap(([label, value]) => [
      { family: families.agentsByLabel, key: labelKey(label, null, user, agent) },
      { family: families.agentsByLabel, key: labelKey(label, value, user, agent) },
    ]),
  ];
}

/** Writes record and meta, and brings the indexes from what they were to what they must be. */
export function writeAgent(tx: Transaction, before: StoredAgent | undefined, after: StoredAgent): void {
  const user = idBytes(after.record.user_id);
  const agent = idBytes(after.record.agent_id);
  tx.put(families.agents, keyOfAgent(after.record), encodeAgent(after.record));
  writeMeta(tx, after);
  if (before === undefined) {
    tx.put(families.agentsById, agent, user);
    addToCount(tx, agentCountKey(user), 1);
  }
  const wanted = agentIndexEntries(after);
  const present = before === undefined ? [] : agentIndexEntries(before);
  for (const { family, key } of missingFrom(wanted, present)) tx.delete(family, key);
  for (const { family, key } of missingFrom(present, wanted)) tx.put(family, key, noValue);
}

export function writeMeta(
  tx: Transaction,
  { record, meta, activeSessions }: Omit<StoredAgent, 'lease'>,
): void {
  tx.put(families.agentMeta, keyOfAgent(record), encodeJson({ ...meta, activeSessions } satisfies MetaRow));
}

/** Removes everything that `writeAgent` and `writeLease` wrote. */
export function removeAgent(tx: Transaction, agent: StoredAgent): void {
  const user = idBytes(agent.record.user_id);
  const key = keyOfAgent(agent.record);
  for (const family of [families.agents, families.agentMeta, families.leases]) tx.delete(family, key);
  tx.delete(families.agentsById, idBytes(agent.record.agent_id));
  keepFence(tx, user, agent.lease);
  for (const { family, key } of agentIndexEntries(agent)) tx.delete(family, key);
  addToCount(tx, agentCountKey(user), -1);
}

export function writeLease(tx: Transaction, record: AgentRecord, lease: Lease): void {
  tx.put(families.leases, keyOfAgent(record), encodeJson(lease));
}

/** A fencing number only grows, also over the deletion of its agent: one whose id is used again goes on from there. */
function keepFence(tx: Transaction, user: Buffer, lease: Lease | null): void {
  const key = deletedFenceKey(user);
  if (lease !== null && lease.fence > readCount(tx, key)) writeCount(tx, key, lease.fence);
}

/** The highest fencing number of the user's deleted agents, or 0. */
export function fenceOfDeleted(reader: Reader, user: Buffer): number {
  return readCount(reader, deletedFenceKey(user));
}

export function readSession(reader: Reader, session: Buffer): SessionRecord | undefined {
  const stored = reader.get(families.sessions, session);
  return stored === undefined ? undefined : decodeSession(stored);
}

export function sessionIndexEntries(session: SessionRecord): IndexEntry[] {
  const agent = idBytes(session.agent_id);
  const id = sessionBytes(session.session_id);
  // The codec lets no other byte through.
  const status = sessionStatusOf(session.status) as SessionStatus;
  return [
    { family: families.sessionsByAgent, key: sessionByAgentKey(agent, id) },
    { family: families.sessionsByStatus, key: sessionByStatusKey(status, agent, id) },
  ];
}

export function writeSession(tx: Transaction, before: SessionRecord | undefined, after: SessionRecord): void {
  tx.put(families.sessions, sessionBytes(after.session_id), encodeSession(after));
  const wanted = sessionIndexEntries(after);
  const present = before === undefined ? [] : sessionIndexEntries(before);
  for (const { family, key } of missingFrom(wanted, present)) tx.delete(family, key);
  for (const { family, key } of missingFrom(present, wanted)) tx.put(family, key, noValue);
}

export function removeSession(tx: Transaction, session: SessionRecord): void {
  tx.delete(families.sessions, sessionBytes(session.session_id));
  for (const { family, key } of sessionIndexEntries(session)) tx.delete(family, key);
}

export function readCount(reader: Reader, key: Buffer): number {
  const stored = reader.get(families.counts, key);
  return stored === undefined ? 0 : Number(stored.readBigUInt64BE(0));
}

export function addToCount(tx: Transaction, key: Buffer, by: number): number {
  const count = readCount(tx, key) + by;
  if (count < 0)
    throw new StoaError('invalid_data', 'A count of the registry would fall below zero.', {
      fix: 'Run "stoa doctor --repair".',
    });
  writeCount(tx, key, count);
  return count;
}

/** A count of nothing has no row. */
export function writeCount(tx: Transaction, key: Buffer, count: number): void {
  if (count === 0) {
    tx.delete(families.counts, key);
    return;
  }
  const value = Buffer.allocUnsafe(8);
  value.writeBigUInt64BE(BigInt(count));
  tx.put(families.counts, key, value);
}

/** The entries of `entries` that `from` does not have. */
function missingFrom(from: readonly IndexEntry[], entries: readonly IndexEntry[]): IndexEntry[] {
  return entries.filter(
    ({ family, key }) => !from.some((other) => other.family === family && other.key.equals(key)),
  );
}
