import { readFileSync } from 'node:fs';
import { Encoder } from 'cbor-x';
import { describe, expect, it } from 'vitest';
import { blake3 } from '../../../src/core/ids/blake3.js';
import { userKey } from '../../../src/identity/user-key.js';
import {
  decodeAgent,
  decodeSession,
  decodeUser,
  encodeAgent,
  encodeSession,
  encodeUser,
} from '../../../src/registry/layout/codec.js';
import {
  makeAgentId,
  makeSessionId,
  NanosecondClock,
  parseAgentId,
  parseSessionId,
} from '../../../src/registry/ids.js';
import type { AgentRecord, SessionRecord, UserRecord } from '../../../src/registry/model.js';

interface Vectors {
  inputs: Record<string, unknown> & { user_id: string; session_id: string };
  records: Record<string, { len: number; cbor_hex: string }>;
  blake3: Record<string, string>;
}

const vectors = JSON.parse(
  readFileSync(new URL('../../vectors/registry-cbor.json', import.meta.url), 'utf8'),
) as Vectors;
const agentId = 'b0eb0adc4c9a5cf4daed7ec7b5f033b085590ae339a920af277e56272bde5af6';
const userId = vectors.inputs.user_id;

const agent: AgentRecord = {
  agent_id: agentId,
  user_id: userId,
  name: 'test-agent',
  status: 2,
  spec: { cpu_millicores: 500, memory_mb: 512, runtime_version: 'latest' },
  created_at: 1_768_473_000_000,
  updated_at: 1_768_473_300_123,
  last_heartbeat_at: null,
};
const session: SessionRecord = {
  session_id: vectors.inputs.session_id,
  agent_id: agentId,
  user_id: userId,
  status: 1,
  created_at: 1_768_473_900_000,
  closed_at: null,
};
const user: UserRecord = {
  user_id: userId,
  email: 'test@example.com',
  created_at: 1_768_473_000_000,
  last_seen_at: 1_768_473_000_000,
};

function vector(name: string): Buffer {
  const found = Object.entries(vectors.records).find(([key]) => key.startsWith(name));
  if (found === undefined) throw new Error(`no vector ${name}`);
  expect(found[1].cbor_hex.length / 2).toBe(found[1].len);
  return Buffer.from(found[1].cbor_hex, 'hex');
}

describe('the stored records', () => {
  it('are byte for byte those of the seed', () => {
    expect(encodeAgent(agent).toString('hex')).toBe(vector('agent').toString('hex'));
    expect(encodeSession(session).toString('hex')).toBe(vector('session').toString('hex'));
    expect(encodeUser(user).toString('hex')).toBe(vector('user').toString('hex'));
  });

  it('read back as they were written', () => {
    expect(decodeAgent(vector('agent'))).toEqual(agent);
    expect(decodeSession(vector('session'))).toEqual(session);
    expect(decodeUser(vector('user'))).toEqual(user);
    const beaten = { ...agent, last_heartbeat_at: 5 };
    expect(decodeAgent(encodeAgent(beaten))).toEqual(beaten);
  });

  it.each([
    [0, '00'],
    [23, '17'],
    [24, '1818'],
    [256, '190100'],
    [65_536, '1a00010000'],
    [4_294_967_295, '1affffffff'],
    [4_294_967_296, '1b0000000100000000'],
    [Number.MAX_SAFE_INTEGER, '1b001fffffffffffff'],
  ])('have the time %i in its shortest form, as where a clock begins in 1970', (closed_at, hex) => {
    const closed = { ...session, closed_at };
    expect(encodeSession(closed).toString('hex')).toBe(vector('session').toString('hex').replace(/f6$/, hex));
    expect(decodeSession(encodeSession(closed))).toEqual(closed);
  });

  it('keep the bytes of earlier records when later ones are encoded', () => {
    const first = encodeAgent(agent);
    for (let index = 0; index < 200; index += 1) encodeAgent({ ...agent, name: 'x'.repeat(index) });
    expect(first.equals(vector('agent'))).toBe(true);
  });

  it('are a serialization error where they are not CBOR', () => {
    for (const bytes of [
      Buffer.alloc(0),
      vector('agent').subarray(0, 100),
      Buffer.concat([vector('agent'), Buffer.of(0)]),
    ]) {
      expect(() => decodeAgent(bytes)).toThrow(expect.objectContaining({ code: 'serialization' }));
    }
  });

  it('with another shape are invalid_data', () => {
    const cbor = new Encoder({ useRecords: false, variableMapSize: true });
    const fields = { ...agent, created_at: BigInt(agent.created_at), updated_at: BigInt(agent.updated_at) };
    const wrong: unknown[] = [
      [],
      'agent',
      null,
      { ...fields, status: 8 },
      { ...fields, status: 'running' },
      { ...fields, agent_id: agentId.toUpperCase() },
      { ...fields, created_at: 5n },
      { ...fields, created_at: 5.5 },
      { ...fields, created_at: -5 },
      { ...fields, created_at: 2n ** 53n },
      { ...fields, spec: null },
      { ...fields, surplus: 1 },
      Object.fromEntries(Object.entries(fields).toReversed()),
      Object.fromEntries(Object.entries(fields).filter(([name]) => name !== 'last_heartbeat_at')),
    ];
    for (const value of wrong)
      expect(() => decodeAgent(cbor.encode(value))).toThrow(
        expect.objectContaining({ code: 'invalid_data' }),
      );
    const indefinite = Buffer.concat([Buffer.of(0xbf), vector('agent').subarray(1), Buffer.of(0xff)]);
    expect(() => decodeAgent(indefinite)).toThrow(expect.objectContaining({ code: 'invalid_data' }));
  });

  it('with a text that is not UTF-8, or a length in a longer form, are invalid_data', () => {
    const bytes = vector('agent');
    const name = bytes.indexOf('test-agent');
    const [before, after] = [bytes.subarray(0, name - 1), bytes.subarray(name + 10)];
    const renamed = (head: number[], text: Buffer) => Buffer.concat([before, Buffer.from(head), text, after]);
    expect(decodeAgent(renamed([0x63], Buffer.from('\ufffd'))).name).toBe('\ufffd');
    for (const wrong of [
      renamed([0x63], Buffer.of(0xff, 0xff, 0xff)),
      renamed([0x78, 10], Buffer.from('test-agent')),
      renamed([0x79, 0, 10], Buffer.from('test-agent')),
    ])
      expect(() => decodeAgent(wrong)).toThrow(expect.objectContaining({ code: 'invalid_data' }));
  });

  it('refuse an invalid time', () => {
    expect(() => encodeAgent({ ...agent, created_at: -1 })).toThrow(
      expect.objectContaining({ code: 'serialization' }),
    );
    expect(() => encodeAgent({ ...agent, created_at: Number.NaN })).toThrow(
      expect.objectContaining({ code: 'serialization' }),
    );
  });
});

describe('ids', () => {
  it('follow the published BLAKE3 values', () => {
    const facts = Object.values(vectors.blake3);
    expect(userKey('550e8400-e29b-41d4-a716-446655440000').toString('hex')).toBe(facts[0]);
    expect(blake3(Buffer.from(userId, 'hex')).toString('hex')).toBe(facts[1]);
  });

  it('of agents hash owner, name and nanoseconds as 128 bits, little-endian', () => {
    const time = Buffer.alloc(16);
    time.writeBigUInt64LE(1_768_473_000_000_000_042n);
    const expected = blake3(Buffer.from(userId, 'hex'), Buffer.from('scout'), time).toString('hex');
    expect(makeAgentId(Buffer.from(userId, 'hex'), 'scout', 1_768_473_000_000_000_042n)).toBe(expected);
  });

  it('of agents do not repeat while the clock stands still', () => {
    const clock = new NanosecondClock();
    expect(new Set(Array.from({ length: 1_000 }, () => clock.next(1_000))).size).toBe(1_000);
  });

  it('of sessions are UUIDs of version 7, ordered by time', () => {
    const earlier = makeSessionId(1_768_473_000_000);
    const later = makeSessionId(1_768_473_000_001);
    expect(earlier).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(earlier < later).toBe(true);
  });

  it('in upper case are lowered; a wrong length and a wrong digit have separate errors', () => {
    expect(parseAgentId(agentId.toUpperCase())).toBe(agentId);
    expect(parseSessionId(session.session_id.toUpperCase())).toBe(session.session_id);
    expect(() => parseAgentId(agentId.slice(1))).toThrow(
      expect.objectContaining({ code: 'invalid_id_length' }),
    );
    expect(() => parseAgentId(`${agentId.slice(1)}g`)).toThrow(
      expect.objectContaining({ code: 'invalid_id_digits' }),
    );
    expect(() => parseSessionId('x')).toThrow(expect.objectContaining({ code: 'invalid_id_length' }));
    expect(() => parseSessionId('550e8400xe29b-41d4-a716-446655440000')).toThrow(
      expect.objectContaining({ code: 'invalid_id_digits' }),
    );
  });
});
