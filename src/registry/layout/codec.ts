/**
 * The seed's records as CBOR, byte for byte: definite maps, keys in declared order, integers in their
 * shortest form.
 */
import { Encoder } from 'cbor-x';
import { StoaError, messageOf } from '../../core/errors.js';
import {
  type AgentRecord,
  type SessionRecord,
  type UserRecord,
  agentStateOf,
  sessionStatusOf,
} from '../model.js';

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
  const fields = new Fields('agent', decode('agent', bytes));
  const spec = new Fields('agent spec', fields.value('spec'));
  const agent: AgentRecord = {
    agent_id: fields.text('agent_id', hexId),
    user_id: fields.text('user_id', hexId),
    name: fields.text('name'),
    status: fields.byte('status', (byte) => agentStateOf(byte) !== undefined),
    spec: {
      cpu_millicores: spec.u32('cpu_millicores'),
      memory_mb: spec.u32('memory_mb'),
      runtime_version: spec.text('runtime_version'),
    },
    created_at: fields.time('created_at'),
    updated_at: fields.time('updated_at'),
    last_heartbeat_at: fields.optionalTime('last_heartbeat_at'),
  };
  checkExact('agent', bytes, encodeAgent(agent));
  return agent;
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
  const fields = new Fields('session', decode('session', bytes));
  const session: SessionRecord = {
    session_id: fields.text('session_id', uuid),
    agent_id: fields.text('agent_id', hexId),
    user_id: fields.text('user_id', hexId),
    status: fields.byte('status', (byte) => sessionStatusOf(byte) !== undefined),
    created_at: fields.time('created_at'),
    closed_at: fields.optionalTime('closed_at'),
  };
  checkExact('session', bytes, encodeSession(session));
  return session;
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
  const fields = new Fields('user', decode('user', bytes));
  const user: UserRecord = {
    user_id: fields.text('user_id', hexId),
    email: fields.text('email'),
    created_at: fields.time('created_at'),
    last_seen_at: fields.time('last_seen_at'),
  };
  checkExact('user', bytes, encodeUser(user));
  return user;
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

function decode(kind: string, bytes: Buffer): unknown {
  try {
    return cbor.decode(bytes) as unknown;
  } catch (error) {
    throw new StoaError('serialization', `A stored ${kind} is not CBOR: ${messageOf(error)}.`, {
      cause: error,
    });
  }
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

/** Unknown fields, another order, tags or indefinite lengths all show as a difference in bytes. */
function checkExact(kind: string, stored: Buffer, exact: Buffer): void {
  if (!stored.equals(exact))
    throw new StoaError(
      'invalid_data',
      `A stored ${kind} is not encoded as the layout requires: its fields, their order or their types differ.`,
    );
}

class Fields {
  readonly #kind: string;
  readonly #fields: Record<string, unknown>;

  constructor(kind: string, value: unknown) {
    if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) {
      throw new StoaError('invalid_data', `A stored ${kind} is not a CBOR map.`);
    }
    this.#kind = kind;
    // A plain object, as was just seen; its fields are checked one by one below.
    this.#fields = value as Record<string, unknown>;
  }

  value(name: string): unknown {
    return Object.hasOwn(this.#fields, name) ? this.#fields[name] : undefined;
  }

  text(name: string, form?: RegExp): string {
    const value = this.value(name);
    if (typeof value !== 'string' || (form !== undefined && !form.test(value))) throw this.#wrong(name);
    return value;
  }

  u32(name: string): number {
    const value = this.value(name);
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > u32Max)
      throw this.#wrong(name);
    return value;
  }

  byte(name: string, isKnown: (byte: number) => boolean): number {
    const value = this.value(name);
    if (typeof value !== 'number' || !isKnown(value)) throw this.#wrong(name);
    return value;
  }

  time(name: string): number {
    const value = this.value(name);
    const atMs = typeof value === 'bigint' ? Number(value) : value;
    if (typeof atMs !== 'number' || !Number.isSafeInteger(atMs) || atMs < 0) throw this.#wrong(name);
    return atMs;
  }

  optionalTime(name: string): number | null {
    return this.value(name) === null ? null : this.time(name);
  }

  #wrong(name: string): StoaError {
    return new StoaError(
      'invalid_data',
      `The field "${name}" of a stored ${this.#kind} is missing or invalid.`,
      { details: { field: name } },
    );
  }
}
