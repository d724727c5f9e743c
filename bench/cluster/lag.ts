/** How long after a commit through one server a watcher at another server gets the change, under load. */
import type { Row } from '../frame.js';
import type { Place } from './cluster.js';
import { startWorker } from './worker.js';

const loadMs = 10_000;
/** For changes that are on their way when the load ends. */
const restMs = 2_000;
const lagMsMax = 250;

export async function lagRows(place: Place): Promise<Row[]> {
  const [writer, watcher] = [await startWorker('writer', place), await startWorker('watcher', place)];
  try {
    await writer.run(2_000);
    const [acknowledged, seen] = await Promise.all([
      writer.run<Record<string, number>>(loadMs),
      watcher.run<Record<string, number>>(loadMs + restMs),
    ]);
    const lags = Object.entries(acknowledged).map(([change, atMs]) => {
      const seenMs = seen[change];
      if (seenMs === undefined) throw new Error(`The watcher did not get the change ${change}.`);
      // A change may arrive before the writer has its answer.
      return Math.max(0, seenMs - atMs);
    });
    lags.sort((a, b) => a - b);
    const share = (part: number): number => lags[Math.floor(lags.length * part)] ?? 0;
    const load = Math.round(lags.length / (loadMs / 1_000));
    const row = (part: number, name: string): Row => ({
      what: `feed lag from server to server at ${load} writes/s, ${name} / the goal`,
      ours: share(part),
      reference: lagMsMax,
      unit: 'ms',
      target: { atMost: 1 },
    });
    return [row(0.5, 'median'), row(0.99, 'p99')];
  } finally {
    await watcher.stop();
    await writer.stop();
  }
}
