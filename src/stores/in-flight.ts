/** Runs many requests, a limited number at a time. */
import { type AccessRead, PartlyRecorded } from '../datastore/port.js';

/** The results in the order of the items. The first failure ends it, once the running calls have ended. */
export async function mapInFlight<Item, Result>(
  items: readonly Item[],
  width: number,
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const failures: unknown[] = [];
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) {
      if (failures.length > 0) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return results;
}

export function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

/**
 * Counted reads one by one. After the first failure no other is tried: the server is likely to refuse them
 * too.
 */
export async function recordEach(
  reads: readonly AccessRead[],
  width: number,
  record: (read: AccessRead) => Promise<void>,
): Promise<void> {
  const unrecorded: AccessRead[] = [];
  let failure: { cause: unknown } | undefined;
  await mapInFlight(reads, width, async (read) => {
    if (failure === undefined) {
      try {
        await record(read);
        return;
      } catch (error) {
        failure ??= { cause: error };
      }
    }
    unrecorded.push(read);
  });
  if (failure !== undefined) throw new PartlyRecorded(unrecorded, failure.cause);
}
