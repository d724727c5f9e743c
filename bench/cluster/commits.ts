/** What a commit of three operations costs against a commit of one. */
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { type Row, byTurns, median, rateInFlight } from '../frame.js';
import type { Place } from './cluster.js';

const inFlight = 32;
const keys = 10_000;
const turns = 9;
const milliseconds = 1_000;

export async function commitRows(place: Place): Promise<Row[]> {
  const stoa = await openStoa(place);
  const caller = operatorCaller('bench');
  const commit = (operations: number): Promise<unknown> =>
    stoa.commit.commit(caller, {
      operations: Array.from({ length: operations }, (_, step) => ({
        op: 'data.set' as const,
        namespace: 'commits',
        key: `key-${Math.floor(Math.random() * keys)}-${step}`,
        value: { step, text: 'x'.repeat(200) },
      })),
    });
  const used: Record<number, number[]> = { 1: [], 3: [] };
  const microseconds = async (operations: number): Promise<number> => {
    let commits = 0;
    const before = process.cpuUsage();
    const rate = await rateInFlight(
      inFlight,
      async () => {
        await commit(operations);
        commits += 1;
      },
      milliseconds,
    );
    const { user, system } = process.cpuUsage(before);
    used[operations]?.push((user + system) / commits);
    return 1_000_000 / rate;
  };
  const measured = await byTurns(
    turns,
    () => microseconds(3),
    () => microseconds(1),
  );
  await stoa.close();
  const what = `commit of three operations / of one, ${inFlight} in flight`;
  const target = { atMost: 1.5 };
  // The time on the clock follows the disk; the time of the processor does not.
  const [ours, reference] = [median(used[3] ?? []), median(used[1] ?? [])];
  return [
    { what, ...measured, unit: 'µs', target },
    { what: `${what}, processor time of the server`, ours, reference, unit: 'µs', target },
  ];
}
