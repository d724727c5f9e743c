/** Walks over a range of rows in slices, so that other requests run in between. */
import { Slices } from '../../../core/waiting/yielding.js';
import type { Entry, RangeOptions } from './engine.js';
import type { Reader } from './transaction.js';

type Bounds = Pick<RangeOptions, 'gte' | 'gt' | 'lt'>;

/**
 * Calls `visit` with each row until it returns false. A pause begins the range again after the last row, so
 * the rows after it are those of that later moment.
 */
export async function walk(
  reader: Reader,
  family: string,
  bounds: Bounds,
  visit: (entry: Entry) => boolean,
): Promise<void> {
  const slices = new Slices();
  const { lt } = bounds;
  for (let part: Bounds | undefined = bounds; part !== undefined;) {
    let pause: Promise<void> | undefined;
    const entries: Iterable<Entry> = reader.range(family, part);
    part = undefined;
    for (const entry of entries) {
      if (!visit(entry)) return;
      pause = slices.pause();
      if (pause === undefined) continue;
      part = { gt: entry.key, ...(lt !== undefined && { lt }) };
      break;
    }
    await pause;
  }
}
