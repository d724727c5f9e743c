/** The shard of each entry of a data directory, for re-sharding. */
import type { Entry } from './kernel/engine.js';
import { type Placement, kernelPlacements } from './kernel/shards/reshard.js';
import type { Reader } from './kernel/transaction.js';
import { decodeSession } from '../../registry/layout/codec.js';
import { idBytes, sessionIdOf } from '../../registry/ids.js';
import { linkKinds, userKeyBytes } from '../../registry/layout/keys.js';
import { dataFamilies } from './datastore/rows.js';
import { findFamilies, messagesPartition, partitionBytes } from './find/rows.js';
import { vectorFamilies } from './find/vectors/rows.js';
import { lockFamilies } from './locks/rows.js';
import { identityFamilies } from './identity/identity.js';
import { messagingFamilies } from './messaging/rows.js';
import { registryFamilies as registry } from './registry/families.js';
import { linkDirectoryId } from './registry/links/links.js';
import { workspaceDirectoryIds, workspacesPlacements } from './workspaces/placements.js';

const inRoot: Placement = () => 'root';
/** The key begins with the user. */
const byUser: Placement = ({ key }) => key.subarray(0, userKeyBytes);
/** An index of agents: its key ends in user and agent. */
const byIndexedUser: Placement = ({ key }) => key.subarray(-2 * userKeyBytes, -userKeyBytes);
/** The key begins with the partition of the search index: a user, or the messages of all rooms. */
const byPartition: Placement = ({ key }) => {
  const partition = key.subarray(0, partitionBytes);
  return partition.equals(messagesPartition) ? 'root' : partition;
};
/** The value is the user. */
const byOwner: Placement = ({ value }) => value;

/** The shard of the agent. An entry of a missing agent stays in shard 00, where `stoa doctor` finds it. */
function withAgent(source: Reader, agent: Buffer | undefined): Buffer | 'root' {
  return (agent === undefined ? undefined : source.get(registry.agentsById, agent)) ?? 'root';
}

const byAgentAt =
  (at: number): Placement =>
  ({ key }, source) =>
    withAgent(source, key.subarray(at, at + userKeyBytes));

const registryPlacements: Readonly<Record<string, Placement>> = {
  [registry.agents]: byUser,
  [registry.agentsByStatus]: byIndexedUser,
  [registry.agentsByName]: byIndexedUser,
  [registry.agentsByLabel]: byIndexedUser,
  [registry.agentsById]: byOwner,
  [registry.agentMeta]: byUser,
  [registry.leases]: byUser,
  [registry.sessions]: ({ value }) => idBytes(decodeSession(value).user_id),
  [registry.sessionsByAgent]: byAgentAt(0),
  [registry.sessionsByStatus]: byAgentAt(1),
  [registry.counts]: ({ key }) => key.subarray(1),
  [registry.users]: byUser,
  [registry.userNames]: byUser,
  [registry.userSettings]: byUser,
  [registry.identityLinks]: ({ key, value }, source) =>
    withAgent(source, key[0] === linkKinds.byIdentity ? value : key.subarray(1, 1 + userKeyBytes)),
};

const everyFamily = (families: Iterable<string>, placement: Placement): Record<string, Placement> =>
  Object.fromEntries(Array.from(families, (family) => [family, placement]));

export const directoryPlacements: Readonly<Record<string, Placement>> = {
  ...kernelPlacements,
  ...everyFamily(identityFamilies, inRoot),
  ...everyFamily(messagingFamilies, inRoot),
  ...everyFamily(Object.values(findFamilies), byPartition),
  ...everyFamily(Object.values(vectorFamilies), byUser),
  ...registryPlacements,
  ...everyFamily(Object.values(dataFamilies), byUser),
  ...everyFamily(Object.values(lockFamilies), byUser),
  ...workspacesPlacements,
};

/** The ids by which an entry is looked up without its user. */
export function directoryIdsOf(family: string, { key }: Entry): readonly string[] {
  if (family === registry.agentsById) return [key.toString('hex')];
  if (family === registry.sessions) return [sessionIdOf(key)];
  if (family === registry.identityLinks && key[0] === linkKinds.byIdentity)
    return [linkDirectoryId(key.toString('utf8', 1))];
  return workspaceDirectoryIds(family, key);
}
