/** What a commit of three operations costs against a commit of one. */
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { type Row, byTurns, rateInFlight } from '../frame.js';
import type { Place } from './cluster.js';

const inFlight = 32;
const keys = 10_000;
const turns = 9;
const milliseconds = 1_000;

export async function commitRows(place: Place): Promise<Row[]> {
  const stoa = await openStoa(place);
  const caller = operatorCaller('bench');
  const microseconds = async (operations: number): Promise<number> => {
    const commit = (): Promise<unknown> =>
      stoa.commit.commit(caller, {
        operations: Array.from({ length: operations }, (_, step) => ({
          op: 'data.set' as const,
          namespace: 'commits',
          key: `key-${Math.floor(Math.random() * keys)}-${step}`,
          value: { step, text: 'x'.repeat(200) },
        })),
      });
    return 1_000_000 / (await rateInFlight(inFlight, commit, milliseconds));
  };
  const measured = await byTurns(
    turns,
    () => microseconds(3),
    () => microseconds(1),
  );
  await stoa.close();
  const what = `commit of three operations / of one, ${inFlight} in flight`;
  return [{ what, ...measured, unit: 'µs', target: { atMost: 1.5 } }];
}
