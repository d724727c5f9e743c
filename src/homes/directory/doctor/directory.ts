/**
 * What `stoa doctor` checks of the directory beside the registry's own part: ids of workspaces and links, and
 * rows that no domain knows.
 */
import { type Damage, type ExaminedRow, missingRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Kernel } from '../kernel/kernel.js';
import { directoryIdsOf, directoryPlacements } from '../placements.js';
import { registryFamilies } from '../registry/families.js';
import { bucketOf } from '../workspaces/keys.js';

/** Agents, registry sessions, linked identities, and the four kinds of workspaces. */
const knownForm =
  /^(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|identity:.+|(?:ws|proj|sess|task)_.+)$/s;

export function directoryChecks(kernel: Kernel): Check[] {
  return [
    ...[registryFamilies.identityLinks, ...Object.values(bucketOf)].map((family): Check => ({
      family,
      inspect: (row) => inspectEntered(kernel, row),
    })),
    { family: kernelFamilies.directory, inspect: inspectForm },
  ];
}

function* inspectEntered(kernel: Kernel, row: ExaminedRow): Generator<Damage> {
  const owner = directoryPlacements[row.family]?.(row, row.store);
  // Without an owner it belongs to nothing. Its own check reports that.
  if (!Buffer.isBuffer(owner)) return;
  for (const id of directoryIdsOf(row.family, row)) yield* inspectId(kernel, id, owner);
}

/**
 * With several shards, every record that is looked up by its id alone is in the directory of ids, with its
 * owner.
 */
export function* inspectId({ stores, root }: Kernel, id: string, owner: Buffer): Generator<Damage> {
  const { directory } = kernelFamilies;
  const key = Buffer.from(id);
  if (stores.length > 1 && root.get(directory, key)?.equals(owner) !== true)
    yield missingRow(directory, key, `The id ${id} is missing in the directory of ids.`, owner, root);
}

function* inspectForm(row: ExaminedRow): Generator<Damage> {
  if (!knownForm.test(row.key.toString()))
    yield row.surplus('The directory of ids has an id that belongs to no domain.');
}
