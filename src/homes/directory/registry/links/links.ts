/** The links between messaging identities and agents of the registry. */
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { agentChange } from '../../../../registry/announcements.js';
import { idBytes } from '../../../../registry/ids.js';
import { linkByIdentityKey, linkPrefix } from '../../../../registry/layout/keys.js';
import type { StoredAgent } from '../../../../registry/model.js';
import { identityTaken } from '../../../../registry/refusals.js';
import { registryFamilies as families } from '../families.js';
import { linkRecords } from '../indexes.js';
import { findAgent } from '../rows.js';

/** The name of an identity in the directory of ids. */
export function linkDirectoryId(identity: string): string {
  return `identity:${identity}`;
}

/** Linking again to the same agent is not an error. An identity speaks for one agent. */
export function linkIdentity(tx: Transaction, agent: StoredAgent, identity: string): void {
  const id = idBytes(agent.record.agent_id);
  const linked = tx.get(families.identityLinks, linkByIdentityKey(identity));
  if (linked !== undefined && linked.equals(id)) return;
  if (linked !== undefined) throw identityTaken(identity);
  linkRecords.put(tx, undefined, { agent: id, identity });
  tx.change(agentChange('agent.linked', agent, { identity }));
}

export function unlinkIdentity(tx: Transaction, agent: StoredAgent, identity: string): void {
  linkRecords.remove(tx, { agent: idBytes(agent.record.agent_id), identity });
  tx.change(agentChange('agent.unlinked', agent, { identity }));
}

export function linkedAgent(reader: Reader, identity: string): StoredAgent | undefined {
  const agent = reader.get(families.identityLinks, linkByIdentityKey(identity));
  return agent === undefined ? undefined : findAgent(reader, null, agent.toString('hex'));
}

/** The identities that speak for an agent, as bytes, in order. */
export function* linkedIdentities(
  reader: Reader,
  agent: Buffer,
  after: Buffer | null,
): Generator<Buffer, void> {
  const prefix = linkPrefix(agent);
  const bounds = prefixRange(prefix);
  if (after !== null) Object.assign(bounds, { gte: undefined, gt: Buffer.concat([prefix, after]) });
  for (const { key } of reader.range(families.identityLinks, bounds)) yield key.subarray(prefix.length);
}

/** Removes every link of an agent that is deleted, and returns the identities. */
export function removeLinks(tx: Transaction, agent: Buffer): string[] {
  const identities = Array.from(linkedIdentities(tx, agent, null), String);
  for (const identity of identities) linkRecords.remove(tx, { agent, identity });
  return identities;
}
