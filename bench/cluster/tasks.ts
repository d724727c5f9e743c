/** Tasks that are created, claimed and completed, against jobs of pg-boss, by one process and by two. */
import { type Row, byTurns } from '../frame.js';
import type { Place } from './cluster.js';
import { type Worker, type WorkerKind, startWorker } from './worker.js';

const turns = 7;
const milliseconds = 2_000;

export async function taskRows(place: Place): Promise<Row[]> {
  // One after the other: pg-boss cannot create queues in two processes at once.
  const start = async (kind: WorkerKind): Promise<Worker[]> => [
    await startWorker(kind, place),
    await startWorker(kind, place),
  ];
  const [ours, theirs] = [await start('stoa-tasks'), await start('pg-boss')];
  try {
    const rows: Row[] = [];
    for (const count of [1, 2]) {
      const rate = async (workers: readonly Worker[]): Promise<number> => {
        const rates = await Promise.all(
          workers.slice(0, count).map((worker) => worker.run<number>(milliseconds)),
        );
        return rates.reduce((sum, each) => sum + each, 0);
      };
      const measured = await byTurns(
        turns,
        () => rate(ours),
        () => rate(theirs),
      );
      rows.push({
        what: `tasks created, claimed and completed, ${count} server(s) / pg-boss`,
        ...measured,
        unit: 'tasks/s',
        target: { atLeast: 2 },
      });
    }
    return rows;
  } finally {
    for (const worker of [...ours, ...theirs]) await worker.stop();
  }
}
