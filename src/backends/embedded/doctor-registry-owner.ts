/** What several checks of the registry ask: who owns an agent, and whether a kept count is right. */
import { userKey } from '../../identity/user-key.js';
import { type Damage, wrongRow } from '../../kernel/doctor.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Reader } from '../../kernel/transaction.js';
import { agentKey } from '../../registry/keys.js';
import type { AgentMeta } from '../../registry/model.js';
import { registryFamilies as families } from './registry-families.js';
import { decodeJson, readCount, writeCount } from './registry-rows.js';

/** The owner of an agent that is there, found also where the row that leads to it is lost. */
export function ownerOf(reader: Reader, agent: Buffer): Buffer | undefined {
  const byId = reader.get(families.agentsById, agent);
  if (byId !== undefined && reader.get(families.agents, agentKey(byId, agent)) !== undefined) return byId;
  const meta = reader.get(families.agentMeta, agent);
  if (meta === undefined) return undefined;
  let user: Buffer;
  try {
    user = userKey(decodeJson<AgentMeta>(meta, 'agent meta').user);
  } catch {
    // An unreadable meta leads nowhere; the check of agents writes it anew.
    return undefined;
  }
  return reader.get(families.agents, agentKey(user, agent)) === undefined ? undefined : user;
}

export function* inspectCount(reader: Reader, key: Buffer, counted: number, what: string): Generator<Damage> {
  const kept = readCount(reader, key);
  if (kept !== counted) yield wrongRow(families.counts, key, `The count says ${kept} ${what}; there are ${counted}.`, (tx) => writeCount(tx, key, counted));
}

export function countRows(reader: Reader, family: string, prefix: Buffer): number {
  let count = 0;
  for (const _ of reader.range(family, prefixRange(prefix))) count += 1;
  return count;
}
