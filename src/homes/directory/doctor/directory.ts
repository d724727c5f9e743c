/**
 * What `stoa doctor` checks of the directory beside the registry's own part: ids of workspaces and links, and
 * rows that no domain knows.
 */
import { type Check, type Damage, missingRow, surplusRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { directoryIdsOf, directoryPlacements } from '../placements.js';
import { registryFamilies } from '../registry/families.js';
import { bucketOf } from '../workspaces/keys.js';

/** Agents, registry sessions, linked identities, and the four kinds of workspaces. */
const knownForm =
  /^(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|identity:.+|(?:ws|proj|sess|task)_.+)$/s;

export function directoryChecks(kernel: Kernel): Check[] {
  const entered = [registryFamilies.identityLinks, ...Object.values(bucketOf)];
  return [
    ...entered.map((family): Check => ({
      family,
      inspect: (_reader, entry, store) => inspectEntered(kernel, family, entry, store),
    })),
    { family: kernelFamilies.directory, inspect: (_reader, { key }) => inspectForm(key) },
  ];
}

/**
 * With several shards, every record that is looked up by its id alone is in the directory of ids, with its
 * owner.
 */
function* inspectEntered(kernel: Kernel, family: string, entry: Entry, store: Store): Generator<Damage> {
  if (kernel.stores.length === 1) return;
  const owner = directoryPlacements[family]?.(entry, store);
  // Without an owner it belongs to nothing. Its own check reports that.
  if (!Buffer.isBuffer(owner)) return;
  for (const id of directoryIdsOf(family, entry)) {
    const key = Buffer.from(id);
    if (kernel.root.get(kernelFamilies.directory, key)?.equals(owner) === true) continue;
    yield missingRow(
      kernelFamilies.directory,
      key,
      `The id ${id} is missing in the directory of ids.`,
      (tx) => tx.put(kernelFamilies.directory, key, owner),
      kernel.root,
    );
  }
}

function* inspectForm(key: Buffer): Generator<Damage> {
  if (!knownForm.test(key.toString()))
    yield surplusRow(
      kernelFamilies.directory,
      key,
      'wrong',
      'The directory of ids has an id that belongs to no domain.',
    );
}
