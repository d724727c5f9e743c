/** Every family of the embedded backend: what a data directory is opened with. */
import { kernelFamilies } from './kernel/families.js';
import { dataFamilies } from './datastore/rows.js';
import { identityFamilies } from './identity/identity.js';
import { families as messaging, messagingFamilies } from './messaging/rows.js';
import { registryFamilies } from './registry/families.js';
import { buckets, workspacesFamilies } from './workspaces/keys.js';

/** Read at random, an agent at a time: its ids are hashes. */
export const embeddedScatteredFamilies: readonly string[] = [
  registryFamilies.agents,
  registryFamilies.agentMeta,
  registryFamilies.agentsById,
];

/**
 * The owner of a task, the state of a room and its expiry: a few small rows that every claim and every post
 * reads.
 */
export const embeddedHotFamilies: readonly string[] = [
  buckets.workspaces,
  buckets.projects,
  buckets.sessions,
  messaging.rooms,
  messaging.totals,
  kernelFamilies.timers,
];

export const embeddedFamilies: readonly string[] = [
  ...identityFamilies,
  ...Object.values(dataFamilies),
  ...messagingFamilies,
  ...Object.values(registryFamilies),
  ...workspacesFamilies,
];
