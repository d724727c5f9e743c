/**
 * What `stoa doctor` checks between messaging and the registry: an agent lists every identity that speaks for
 * it.
 */
import { userKey } from '../../../identity/user-key.js';
import { type Damage, type ExaminedRow, missingRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader } from '../kernel/transaction.js';
import { decodeAgent } from '../../../registry/layout/codec.js';
import { idBytes } from '../../../registry/ids.js';
import { agentKey, linkByIdentityKey } from '../../../registry/layout/keys.js';
import { type IdentityRow, decodeOrUndefined, families as messaging } from '../messaging/rows.js';
import { registryFamilies as registry } from '../registry/families.js';
import { linkRecords } from '../registry/indexes.js';
import { inspectId } from './directory.js';
import { readable } from './indexes.js';
import { linkDirectoryId } from '../registry/links/links.js';

export function linkChecks(kernel: Kernel): Check[] {
  return [{ family: messaging.agents, inspect: (row) => inspectLinked(kernel, row) }];
}

/** An identity with a link must be in the list of its agent, and in the directory of ids. */
function* inspectLinked(kernel: Kernel, row: ExaminedRow): Generator<Damage> {
  const { reader, store } = row;
  const { id, link, serverKept } = decodeOrUndefined<IdentityRow>(row.value) ?? {};
  // An identity that the server keeps is found through its agent, not through the registry's list of keys.
  if (id === undefined || link === undefined || link === null || serverKept === true) return;
  if (link.agentId === null) return;
  const owner = userKey(link.user);
  const agent = idBytes(link.agentId);
  const home = kernel.storeOf(owner);
  const there = home === store ? reader : home;
  const byIdentity = linkByIdentityKey(id);
  if (
    there.get(registry.identityLinks, byIdentity) !== undefined ||
    isGone(there, agentKey(owner, agent), link.linkedAtMs)
  )
    return;
  yield missingRow(
    registry.identityLinks,
    byIdentity,
    `The link of the identity ${id} is missing at the agent ${link.agentId}.`,
    (tx) => linkRecords.put(tx, undefined, { agent, identity: id }),
    home,
  );
  yield* inspectId(kernel, linkDirectoryId(id), owner);
}

/**
 * Links of a deleted agent are ignored, even if another agent was created under its id: its identities are
 * refused anyway.
 */
function isGone(reader: Reader, key: Buffer, linkedAtMs: number): boolean {
  const stored = reader.get(registry.agents, key);
  if (stored === undefined) return true;
  // The check of agents reports a record that cannot be read.
  return (readable(() => decodeAgent(stored).created_at) ?? Infinity) > linkedAtMs;
}
