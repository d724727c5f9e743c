/**
 * What `stoa doctor` checks between messaging and the registry: an agent lists every identity that speaks for
 * it.
 */
import { userKey } from '../../../identity/user-key.js';
import { type Check, type Damage, missingRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import type { Reader } from '../kernel/transaction.js';
import { decodeAgent } from '../../../registry/layout/codec.js';
import { idBytes } from '../../../registry/ids.js';
import { agentKey, linkByIdentityKey } from '../../../registry/layout/keys.js';
import { type IdentityRow, decodeOrUndefined, families as messaging } from '../messaging/rows.js';
import { registryFamilies as registry } from '../registry/families.js';
import { linkRecords } from '../registry/indexes.js';
import { linkDirectoryId } from '../registry/links/links.js';

export function linkChecks(kernel: Kernel): Check[] {
  return [
    {
      family: messaging.agents,
      inspect: (reader, entry, store) => inspectLinked(kernel, reader, entry, store),
    },
  ];
}

/** An identity with a link must be in the list of its agent, and in the directory of ids. */
function* inspectLinked(kernel: Kernel, reader: Reader, { value }: Entry, store: Store): Generator<Damage> {
  const { id, link, serverKept } = decodeOrUndefined<IdentityRow>(value) ?? {};
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
  const entry = Buffer.from(linkDirectoryId(id));
  if (kernel.stores.length === 1 || reader.get(kernelFamilies.directory, entry)?.equals(owner) === true)
    return;
  yield missingRow(
    kernelFamilies.directory,
    entry,
    `The id ${linkDirectoryId(id)} is missing in the directory of ids.`,
    (tx) => tx.put(kernelFamilies.directory, entry, owner),
  );
}

/**
 * Links of a deleted agent are ignored, even if another agent was created under its id: its identities are
 * refused anyway.
 */
function isGone(reader: Reader, key: Buffer, linkedAtMs: number): boolean {
  const stored = reader.get(registry.agents, key);
  if (stored === undefined) return true;
  try {
    return decodeAgent(stored).created_at > linkedAtMs;
  } catch {
    // The check of agents reports the record itself.
    return true;
  }
}
