/** Every check of the embedded backend, in the order of repair: what `stoa doctor` runs. */
import type { Check } from '../../kernel/doctor.js';
import type { Kernel } from '../../kernel/kernel.js';
import { dataChecks } from './doctor-datastore.js';
import { identityChecks } from './doctor-identity.js';
import { messagingChecks } from './doctor-messaging.js';
import { registryChecks } from './doctor-registry.js';
import { workspaceChecks } from './doctor-workspaces.js';

export function embeddedChecks(kernel: Kernel): Check[] {
  return [...registryChecks(kernel), ...dataChecks(), ...workspaceChecks, ...identityChecks, ...messagingChecks];
}
