/** The ids of agents and sessions: how they are made and how they are read. */
import { StoaError } from '../core/errors.js';
import { blake3 } from '../core/ids/blake3.js';
import { uuid7 } from '../core/ids/uuid.js';

const hexDigits = /^[0-9a-f]+$/;
const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const agentIdDigits = 64;
const uuidCharacters = 36;

/** Nanoseconds since 1970 that never repeat within a process, even if the clock stops or is set back. */
export class NanosecondClock {
  #last = 0n;

  next(nowMs: number): bigint {
    const now = BigInt(Math.floor(nowMs)) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
    this.#last = now > this.#last ? now : this.#last + 1n;
    return this.#last;
  }
}

/** BLAKE3 of the owner, the name and the nanoseconds as 128 bits, little end first. */
export function makeAgentId(user: Buffer, name: string, nanoseconds: bigint): string {
  const time = Buffer.alloc(16);
  time.writeBigUInt64LE(BigInt.asUintN(64, nanoseconds), 0);
  time.writeBigUInt64LE(BigInt.asUintN(64, nanoseconds >> 64n), 8);
  return blake3(user, Buffer.from(name), time).toString('hex');
}

/** Ordered by time, so that the sessions of an agent are listed as they were opened. */
export function makeSessionId(nowMs: number): string {
  return uuid7(Math.floor(nowMs));
}

/** Whether a text has the form of an agent id. */
export function isAgentId(text: string): boolean {
  return text.length === agentIdDigits && hexDigits.test(text);
}

/** Whether a text has the form of an id of an agent or of an identity: an agent cannot have such a name. */
export function hasIdForm(text: string): boolean {
  const lower = text.toLowerCase();
  return isAgentId(lower) || uuidForm.test(lower);
}

/** An agent id in lower case. A wrong length and a wrong digit give different error codes. */
export function parseAgentId(text: string): string {
  if (text.length !== agentIdDigits) {
    throw new StoaError(
      'invalid_id_length',
      `The agent id has ${text.length} characters. Expected ${agentIdDigits} hexadecimal digits.`,
      { details: { field: 'agent_id', length: text.length } },
    );
  }
  const lower = text.toLowerCase();
  if (!hexDigits.test(lower)) {
    throw new StoaError(
      'invalid_id_digits',
      `The agent id "${lower}" contains characters other than 0-9 and a-f.`,
      { details: { field: 'agent_id' } },
    );
  }
  return lower;
}

/** A session id in lower case. */
export function parseSessionId(text: string): string {
  if (text.length !== uuidCharacters) {
    throw new StoaError(
      'invalid_id_length',
      `The session id has ${text.length} characters. Expected a UUID of ${uuidCharacters} characters.`,
      { details: { field: 'session_id', length: text.length } },
    );
  }
  const lower = text.toLowerCase();
  if (!uuidForm.test(lower)) {
    throw new StoaError(
      'invalid_id_digits',
      `The session id "${lower}" is not a UUID: hexadecimal digits in groups of 8-4-4-4-12.`,
      { details: { field: 'session_id' } },
    );
  }
  return lower;
}

export function idBytes(hex: string): Buffer {
  return Buffer.from(hex, 'hex');
}

export function sessionBytes(sessionId: string): Buffer {
  return Buffer.from(sessionId.replaceAll('-', ''), 'hex');
}

export function sessionIdOf(bytes: Buffer): string {
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
