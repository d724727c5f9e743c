/** The size and the backlog of the search index in a data directory, as the engine states them. */
import type { IndexSize } from '../../../find/port.js';
import type { Kernel } from '../kernel/kernel.js';
import { findFamilies } from './rows.js';

export function indexSize({ stores }: Kernel): IndexSize {
  const size = { waiting: 0, segments: 0, bytes: 0 };
  for (const { engine } of stores) {
    const { families } = engine.stats();
    size.waiting += families[findFamilies.marks]?.entries ?? 0;
    size.segments += families[findFamilies.segments]?.entries ?? 0;
    for (const family of Object.values(findFamilies)) size.bytes += families[family]?.sizeBytes ?? 0;
  }
  return size;
}
