/**
 * The keys of the registry's families, all big-endian: the seed's layouts first, then those that Stoa adds.
 */
import type { AgentState, SessionStatus } from '../model.js';
import { agentStateBytes, sessionStatusBytes } from '../model.js';

// The seed's layouts. A user and an agent are 32 bytes, a session 16.

export const userKeyBytes = 32;
export const agentKeyBytes = 64;
export const sessionKeyBytes = 16;

export function agentKey(user: Buffer, agent: Buffer): Buffer {
  return Buffer.concat([user, agent]);
}

export function statusKey(status: AgentState, user: Buffer, agent: Buffer): Buffer {
  return Buffer.concat([statusPrefix(status), user, agent]);
}

export function statusPrefix(status: AgentState): Buffer {
  return Buffer.of(agentStateBytes[status]);
}

export function sessionByAgentKey(agent: Buffer, session: Buffer): Buffer {
  return Buffer.concat([agent, session]);
}

// Stoa's own. Every index of agents ends in user and agent, so that all of them are in one order
// and a list with several filters is the intersection of several ranges.

const end = Buffer.of(0);

/** Names have no control characters: a zero byte ends one. */
export function namePrefix(name: string): Buffer {
  return Buffer.concat([Buffer.from(name), end]);
}

export function nameKey(name: string, user: Buffer, agent: Buffer): Buffer {
  return Buffer.concat([namePrefix(name), user, agent]);
}

/** With a value, the agents that carry exactly it; with null, those that carry the label at all. */
export function labelPrefix(label: string, value: string | null): Buffer {
  if (value === null) return Buffer.concat([Buffer.of(1), Buffer.from(label), end]);
  return Buffer.concat([Buffer.of(2), Buffer.from(label), end, Buffer.from(value), end]);
}

export function labelKey(label: string, value: string | null, user: Buffer, agent: Buffer): Buffer {
  return Buffer.concat([labelPrefix(label, value), user, agent]);
}

export function sessionStatusPrefix(status: SessionStatus, agent: Buffer): Buffer {
  return Buffer.concat([Buffer.of(sessionStatusBytes[status]), agent]);
}

export function sessionByStatusKey(status: SessionStatus, agent: Buffer, session: Buffer): Buffer {
  return Buffer.concat([sessionStatusPrefix(status, agent), session]);
}

/**
 * What a row of `counts` holds, as the first byte of its key. The fence is the highest that an agent had
 * which is deleted.
 */
export const countKinds = { agentsOfUser: 1, fenceOfDeleted: 2, absentOfUser: 3 } as const;

export function agentCountKey(user: Buffer): Buffer {
  return Buffer.concat([Buffer.of(countKinds.agentsOfUser), user]);
}

/** The agents of a user that do not count in the quota. */
export function absentCountKey(user: Buffer): Buffer {
  return Buffer.concat([Buffer.of(countKinds.absentOfUser), user]);
}

export function deletedFenceKey(user: Buffer): Buffer {
  return Buffer.concat([Buffer.of(countKinds.fenceOfDeleted), user]);
}

/** An identity's id as text: a UUID. */
export const identityKeyBytes = 36;

/** The two directions of an identity link, as the first byte of the key. */
export const linkKinds = { byAgent: 1, byIdentity: 2 } as const;

export function linkPrefix(agent: Buffer): Buffer {
  return Buffer.concat([Buffer.of(linkKinds.byAgent), agent]);
}

export function linkByAgentKey(agent: Buffer, identity: string): Buffer {
  return Buffer.concat([linkPrefix(agent), Buffer.from(identity)]);
}

export function linkByIdentityKey(identity: string): Buffer {
  return Buffer.concat([Buffer.of(linkKinds.byIdentity), Buffer.from(identity)]);
}
