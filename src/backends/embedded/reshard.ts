/** Re-shards a data directory of the embedded backend. */
import { type ReshardOptions, type ReshardReport, reshard } from '../../kernel/reshard.js';
import { embeddedFamilies } from './families.js';
import { directoryIdsOf, embeddedPlacements } from './placements.js';

/** The directory must be closed; the new one is verified before it gets its name. */
export function reshardDirectory(options: Pick<ReshardOptions, 'from' | 'to' | 'shards' | 'engine' | 'onProgress'>): Promise<ReshardReport> {
  return reshard({ ...options, families: embeddedFamilies, placements: embeddedPlacements, directoryOf: directoryIdsOf });
}
