/** Every family of a data directory. */
import { dataFamilies } from './datastore/rows.js';
import { findFamilies } from './find/rows.js';
import { vectorFamilies } from './find/vectors/rows.js';
import { lockFamilies } from './locks/rows.js';
import { identityFamilies } from './identity/identity.js';
import { messagingFamilies } from './messaging/rows.js';
import { registryFamilies } from './registry/families.js';
import { workspacesFamilies } from './workspaces/keys.js';

/** Read at random, one agent at a time, because ids are hashes. */
export const directoryScatteredFamilies: readonly string[] = [
  registryFamilies.agents,
  registryFamilies.agentMeta,
  registryFamilies.agentsById,
];

export const directoryFamilies: readonly string[] = [
  ...identityFamilies,
  ...Object.values(dataFamilies),
  ...messagingFamilies,
  ...Object.values(registryFamilies),
  ...workspacesFamilies,
  ...Object.values(findFamilies),
  ...Object.values(vectorFamilies),
  ...Object.values(lockFamilies),
];
