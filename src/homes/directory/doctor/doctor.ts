/** Every check of the embedded backend, in the order of repair: what `stoa doctor` runs. */
import type { Check } from '../kernel/inspect/doctor.js';
import { kernelFamilies } from '../kernel/families.js';
import type { Kernel } from '../kernel/kernel.js';
import { dataChecks } from './datastore.js';
import { directoryChecks } from './directory.js';
import { identityChecks } from './identity.js';
import { kernelChecks } from './kernel.js';
import { linkChecks } from './links.js';
import { messagingChecks } from './messaging/messaging.js';
import { registryChecks } from './registry/registry.js';
import { workspaceChecks } from './workspaces.js';

export function embeddedChecks(kernel: Kernel): Check[] {
  return [
    ...registryChecks(kernel),
    ...dataChecks(),
    ...workspaceChecks(),
    ...identityChecks,
    ...messagingChecks(kernel),
    ...linkChecks(kernel),
    ...directoryChecks(kernel),
    ...kernelChecks,
  ];
}

/** Families in which nothing follows from anything else, and why the doctor passes them by. */
export const unexaminedFamilies: Readonly<Record<string, string>> = {
  [kernelFamilies.meta]:
    'Notes of the store about itself, which nothing else repeats; opening the directory checks them.',
  [kernelFamilies.changes]:
    'A log: its records are the only account of what happened, and each is checked when it is read.',
  [kernelFamilies.intents]:
    'What a write over two shards still has to do; every start carries it out and takes the row away.',
  [kernelFamilies.finishedIntents]: 'Marks of intents that were carried out, which every start takes away.',
  [kernelFamilies.redo]:
    'A log: its records are the only account of what happened, and each is checked when it is read.',
};
