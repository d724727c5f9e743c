/** Every family of the embedded backend: what a data directory is opened with. */
import { registryFamilies } from './registry-families.js';

export const embeddedFamilies: readonly string[] = Object.values(registryFamilies);
