/** Every family of the embedded backend: what a data directory is opened with. */
import { identityFamilies } from './identity.js';

export const embeddedFamilies: readonly string[] = [...identityFamilies];
