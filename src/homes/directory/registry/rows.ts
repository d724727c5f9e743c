/**
 * The rows of the registry: reads a whole agent, and writes it with its index rows, its meta row and the
 * counts.
 */
import { StoaError, messageOf } from '../../../core/errors.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { decodeAgent, decodeSession } from '../../../registry/layout/codec.js';
import { idBytes } from '../../../registry/ids.js';
import {
  absentCountKey,
  agentCountKey,
  agentKey,
  deletedFenceKey,
  nameKey,
  userKeyBytes,
} from '../../../registry/layout/keys.js';
import { isAbsent } from '../../../registry/lifecycle/presence.js';
import type { AgentMeta, AgentRecord, Lease, SessionRecord, StoredAgent } from '../../../registry/model.js';
import { registryFamilies as families } from './families.js';
import { agentRecords, keyOfAgent } from './indexes.js';

const noBytes = Buffer.alloc(0);

export function encodeJson(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Rows of the families that Stoa adds are JSON that only this backend writes. */
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

/** What the row of `agent_meta` holds: the number of sessions changes together with the rest. */
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

/**
 * Many agents at once, with their records if those are known: neighbouring rows are stored together in each
 * family.
 */
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

/** The agent with this id, or undefined if it does not exist or (with a user) belongs to another user. */
export function findAgent(reader: Reader, user: Buffer | null, agentId: string): StoredAgent | undefined {
  const agent = idBytes(agentId);
  // With the owner, the agent's row is found directly. Without it, the index by id is used.
  const owner = user ?? reader.get(families.agentsById, agent);
  return owner === undefined ? undefined : readAgent(reader, agentKey(owner, agent));
}

/** Writes record, index rows and meta. */
export function writeAgent(tx: Transaction, before: StoredAgent | undefined, after: StoredAgent): void {
  agentRecords.put(tx, before, after);
  writeMeta(tx, after);
  if (before === undefined) addToCount(tx, agentCountKey(idBytes(after.record.user_id)), 1);
  countAbsence(tx, before, after);
}

/** Absent agents are counted, because they do not count in the quota. Every write of an agent calls this. */
export function countAbsence(
  tx: Transaction,
  before: StoredAgent | undefined,
  after: StoredAgent | undefined,
): void {
  const by =
    Number(after !== undefined && isAbsent(after)) - Number(before !== undefined && isAbsent(before));
  const record = (after ?? before)?.record;
  if (by !== 0 && record !== undefined) addToCount(tx, absentCountKey(idBytes(record.user_id)), by);
}

/** The id of the user's agent with this name. */
export function agentNamed(reader: Reader, user: Buffer, name: string): string | undefined {
  const bounds = { ...prefixRange(nameKey(name, user, noBytes)), limit: 1 };
  for (const { key } of reader.range(families.agentsByName, bounds))
    return key.toString('hex', key.length - userKeyBytes);
  return undefined;
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
  agentRecords.remove(tx, agent);
  for (const family of [families.agentMeta, families.leases]) tx.delete(family, key);
  raiseFenceOfDeleted(tx, user, agent.lease?.fence ?? 0);
  addToCount(tx, agentCountKey(user), -1);
  countAbsence(tx, agent, undefined);
}

export function writeLease(tx: Transaction, record: AgentRecord, lease: Lease): void {
  tx.put(families.leases, keyOfAgent(record), encodeJson(lease));
}

/**
 * A fencing number only grows, even after its agent was deleted: an agent with the same id continues from
 * there.
 */
export function raiseFenceOfDeleted(tx: Transaction, user: Buffer, fence: number): void {
  const key = deletedFenceKey(user);
  if (fence > readCount(tx, key)) writeCount(tx, key, fence);
}

/** The highest fencing number of the user's deleted agents, or 0. */
export function fenceOfDeleted(reader: Reader, user: Buffer): number {
  return readCount(reader, deletedFenceKey(user));
}

export function readSession(reader: Reader, session: Buffer): SessionRecord | undefined {
  const stored = reader.get(families.sessions, session);
  return stored === undefined ? undefined : decodeSession(stored);
}

export function readCount(reader: Reader, key: Buffer): number {
  const stored = reader.get(families.counts, key);
  return stored === undefined ? 0 : Number(stored.readBigUInt64BE(0));
}

function addToCount(tx: Transaction, key: Buffer, by: number): number {
  const count = readCount(tx, key) + by;
  if (count < 0)
    throw new StoaError('invalid_data', 'A count of the registry would fall below zero.', {
      fix: 'Run "stoa doctor --repair".',
    });
  writeCount(tx, key, count);
  return count;
}

/** A count of 0 has no row. */
export function writeCount(tx: Transaction, key: Buffer, count: number): void {
  if (count === 0) {
    tx.delete(families.counts, key);
    return;
  }
  const value = Buffer.allocUnsafe(8);
  value.writeBigUInt64BE(BigInt(count));
  tx.put(families.counts, key, value);
}
