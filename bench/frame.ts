/** What a bench is made of: rows that set one measured rate against another of the same run. */

/** One line of the table. A ratio says more than a rate: it holds on other machines too. */
export interface Row {
  /** What is measured, as the performance page names it. */
  what: string;
  /** Rates (a second) or costs (time); both in the same unit. */
  ours: number;
  reference: number;
  unit: string;
  /** `ours / reference` must reach or stay below this. Without one the row only tells. */
  target?: { atLeast: number } | { atMost: number };
}

export interface Bench {
  name: string;
  /** `directory` is kept between runs: data sets that take long to make belong there. */
  run(directory: string): Promise<Row[]>;
}

/** Whether rows that need a million records are measured too. */
export const isLarge = process.argv.includes('--large');

/** Measures both alternately, so that a busy moment of the machine affects both, and takes the medians. */
export async function byTurns(
  turns: number,
  ours: () => number | Promise<number>,
  reference: () => number | Promise<number>,
): Promise<{ ours: number; reference: number }> {
  const measured: { ours: number[]; reference: number[] } = { ours: [], reference: [] };
  // The first turn warms up and counts for nothing.
  for (let turn = 0; turn <= turns; turn += 1) {
    const [a, b] = turn % 2 === 0 ? [await ours(), await reference()] : await reversed(ours, reference);
    if (turn === 0) continue;
    measured.ours.push(a);
    measured.reference.push(b);
  }
  return { ours: median(measured.ours), reference: median(measured.reference) };
}

async function reversed(
  ours: () => number | Promise<number>,
  reference: () => number | Promise<number>,
): Promise<[number, number]> {
  const b = await reference();
  return [await ours(), b];
}

/** Calls `work` for about `milliseconds`; answers calls a second. */
export function rateOf(work: () => void, milliseconds = 400): number {
  const startedMs = performance.now();
  let calls = 0;
  let passedMs = 0;
  while (passedMs < milliseconds) {
    for (let step = 0; step < 200; step += 1) work();
    calls += 200;
    passedMs = performance.now() - startedMs;
  }
  return (calls / passedMs) * 1000;
}

/** Keeps so many calls in flight for about `milliseconds`; answers calls a second. */
export async function rateInFlight(
  inFlight: number,
  work: () => Promise<unknown>,
  milliseconds = 1000,
): Promise<number> {
  const startedMs = performance.now();
  // The cheaper clock decides about the end: it is read for each call, and the other took longer than some of
  // what is measured.
  const endMs = Date.now() + milliseconds;
  let calls = 0;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (Date.now() < endMs) {
        await work();
        calls += 1;
      }
    }),
  );
  return (calls / (performance.now() - startedMs)) * 1000;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
