/** Re-shards a data directory of the directory home. */
import { type ReshardOptions, type ReshardReport, reshard } from './kernel/shards/reshard.js';
import { operatorTokenFile } from '../../identity/operator-token.js';
import { keyFileName } from '../../secrets/secrets.js';
import { directoryFamilies } from './families.js';
import { directoryIdsOf, directoryPlacements } from './placements.js';

/**
 * Without the key ring the secrets in the new directory could not be read. With the operator's token its
 * holders keep their access.
 */
const files = [operatorTokenFile, keyFileName];

/** The directory must be closed; the new one is verified before it gets its name. */
export function reshardDirectory(
  options: Pick<ReshardOptions, 'from' | 'to' | 'shards' | 'engine' | 'limits' | 'onProgress'>,
): Promise<ReshardReport> {
  return reshard({
    ...options,
    files,
    families: directoryFamilies,
    placements: directoryPlacements,
    directoryOf: directoryIdsOf,
  });
}
