/** Every check of the directory home, in the order of repair: what `stoa doctor` runs. */
import type { Check } from '../kernel/inspect/doctor.js';
import { findFamilies } from '../find/rows.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Kernel } from '../kernel/kernel.js';
import { dataChecks } from './datastore.js';
import { vectorChecks } from './vectors.js';
import { directoryChecks } from './directory.js';
import { identityChecks } from './identity.js';
import { kernelChecks } from './kernel.js';
import { linkChecks } from './links.js';
import { lockChecks } from './locks.js';
import { messagingChecks } from './messaging/messaging.js';
import { registryChecks } from './registry/registry.js';
import { workspaceChecks } from './workspaces.js';

export function allChecks(kernel: Kernel): Check[] {
  return [
    ...registryChecks(kernel),
    ...dataChecks(),
    ...vectorChecks,
    ...workspaceChecks(),
    ...lockChecks,
    ...identityChecks,
    ...messagingChecks(kernel),
    ...linkChecks(kernel),
    ...directoryChecks(kernel),
    ...kernelChecks,
  ];
}

/** Families whose rows depend on no other rows, and the reason why the doctor skips them. */
export const unexaminedFamilies: Readonly<Record<string, string>> = {
  [kernelFamilies.meta]:
    'Facts about the store that are not stored elsewhere. They are checked when the directory is opened.',
  [kernelFamilies.changes]:
    'A log. Its records are not stored elsewhere, and each is checked when it is read.',
  [kernelFamilies.intents]:
    'Unfinished writes over two shards. Every start finishes them and deletes the rows.',
  ...Object.fromEntries(
    Object.values(findFamilies).map((family) => [
      family,
      'The search index. Its own examination compares it with the records: src/homes/directory/find/doctor.ts.',
    ]),
  ),
  [kernelFamilies.redo]: 'A log. Its records are not stored elsewhere, and each is checked when it is read.',
};
