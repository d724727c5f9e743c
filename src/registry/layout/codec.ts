/**
 * The seed's records as CBOR, byte for byte: definite maps, keys in declared order, integers in their
 * shortest form.
 */
import { Encoder } from 'cbor-x';
import { StoaError, messageOf } from '../../core/errors.js';
import {
  type AgentRecord,
  type AgentSpecRecord,
  type SessionRecord,
  type UserRecord,
  agentStateOf,
  sessionStatusOf,
} from '../model.js';
import { ExactReader, Mismatch } from './exact-reader.js';

const cbor = new Encoder({ useRecords: false, variableMapSize: true });

const hexId = /^[0-9a-f]{64}$/;
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const u32Max = 0xffff_ffff;

export function encodeAgent(agent: AgentRecord): Buffer {
  return encode({
    agent_id: agent.agent_id,
    user_id: agent.user_id,
    name: agent.name,
    status: agent.status,
    spec: {
      cpu_millicores: agent.spec.cpu_millicores,
      memory_mb: agent.spec.memory_mb,
      runtime_version: agent.spec.runtime_version,
    },
    created_at: time(agent.created_at),
    updated_at: time(agent.updated_at),
    last_heartbeat_at: optionalTime(agent.last_heartbeat_at),
  });
}

export function decodeAgent(bytes: Buffer): AgentRecord {
  return decode('agent', bytes, (reader) => {
    reader.map(8);
    return {
      agent_id: reader.field('agent_id').text(hexId),
      user_id: reader.field('user_id').text(hexId),
      name: reader.field('name').text(),
      status: known(reader.field('status'), agentStateOf),
      spec: decodeSpec(reader.field('spec')),
      created_at: reader.field('created_at').number(),
      updated_at: reader.field('updated_at').number(),
      last_heartbeat_at: reader.field('last_heartbeat_at').numberOrNull(),
    };
  });
}

function decodeSpec(reader: ExactReader): AgentSpecRecord {
  reader.map(3);
  return {
    cpu_millicores: reader.field('cpu_millicores').number(u32Max),
    memory_mb: reader.field('memory_mb').number(u32Max),
    runtime_version: reader.field('runtime_version').text(),
  };
}

export function encodeSession(session: SessionRecord): Buffer {
  return encode({
    session_id: session.session_id,
    agent_id: session.agent_id,
    user_id: session.user_id,
    status: session.status,
    created_at: time(session.created_at),
    closed_at: optionalTime(session.closed_at),
  });
}

export function decodeSession(bytes: Buffer): SessionRecord {
  return decode('session', bytes, (reader) => {
    reader.map(6);
    return {
      session_id: reader.field('session_id').text(uuid),
      agent_id: reader.field('agent_id').text(hexId),
      user_id: reader.field('user_id').text(hexId),
      status: known(reader.field('status'), sessionStatusOf),
      created_at: reader.field('created_at').number(),
      closed_at: reader.field('closed_at').numberOrNull(),
    };
  });
}

export function encodeUser(user: UserRecord): Buffer {
  return encode({
    user_id: user.user_id,
    email: user.email,
    created_at: time(user.created_at),
    last_seen_at: time(user.last_seen_at),
  });
}

export function decodeUser(bytes: Buffer): UserRecord {
  return decode('user', bytes, (reader) => {
    reader.map(4);
    return {
      user_id: reader.field('user_id').text(hexId),
      email: reader.field('email').text(),
      created_at: reader.field('created_at').number(),
      last_seen_at: reader.field('last_seen_at').number(),
    };
  });
}

/** A byte that stands for a word. */
function known(reader: ExactReader, wordOf: (byte: number) => string | undefined): number {
  const byte = reader.number();
  if (wordOf(byte) === undefined) throw reader.mismatch();
  return byte;
}

function encode(fields: Record<string, unknown>): Buffer {
  try {
    // The encoder reuses its memory for later records; a stored value must not change.
    return Buffer.from(cbor.encode(fields));
  } catch (error) {
    throw new StoaError('serialization', `A registry record could not be encoded: ${messageOf(error)}.`, {
      cause: error,
    });
  }
}

function decode<Record>(kind: string, bytes: Buffer, read: (reader: ExactReader) => Record): Record {
  const reader = new ExactReader(bytes);
  try {
    const record = read(reader);
    reader.end();
    return record;
  } catch (error) {
    throw error instanceof Mismatch ? invalidRecord(kind, bytes, error.field) : error;
  }
}

function invalidRecord(kind: string, bytes: Buffer, field: string | null): StoaError {
  try {
    cbor.decode(bytes);
  } catch (error) {
    return new StoaError('serialization', `A stored ${kind} is not CBOR: ${messageOf(error)}.`, {
      cause: error,
    });
  }
  return new StoaError(
    'invalid_data',
    field === null
      ? `A stored ${kind} is not a CBOR map with the fields of the layout.`
      : `A stored ${kind} is not encoded as the layout requires, from the field "${field}" on: a name, the order, a type or a value differs.`,
    { details: { field } },
  );
}

/**
 * In its shortest form, as every integer of the layout: the encoder would make a float of a larger number,
 * and 64 bits of any BigInt.
 */
function time(atMs: number): number | bigint {
  if (!Number.isSafeInteger(atMs) || atMs < 0)
    throw new StoaError('serialization', `${atMs} is not a time in milliseconds.`);
  return atMs > u32Max ? BigInt(atMs) : atMs;
}

function optionalTime(atMs: number | null): number | bigint | null {
  return atMs === null ? null : time(atMs);
}
