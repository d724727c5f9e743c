/** Every family of the embedded backend: what a data directory is opened with. */
import { identityFamilies } from './identity.js';
import { registryFamilies } from './registry-families.js';

export const embeddedFamilies: readonly string[] = [...identityFamilies, ...Object.values(registryFamilies)];
