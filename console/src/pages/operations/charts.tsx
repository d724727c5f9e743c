/** Throughput and latency, from the counters of /metrics. */
import { type Reading, readEveryMs, readingsMax, timeWithin } from '../../live/metrics.js';
import { useWorld } from '../../live/use-world.js';
import { useObservable } from '../../observable.js';
import { Chart, type Point } from '../../ui/chart.js';
import { countText, sizeText } from '../../ui/format.js';

export function Charts() {
  const { metrics } = useWorld();
  const readings = useObservable(metrics.readings);
  const toMs = readings.at(-1)?.atMs ?? Date.now();
  const fromMs = Math.max(toMs - readingsMax * readEveryMs, Math.min(readings[0]?.atMs ?? 0, toMs - 60_000));
  const scale = { fromMs, toMs };
  return (
    <section class="box charts whole-row" aria-label="Charts">
      <Chart title="Requests a second" points={rates(readings, 'requests')} text={rateText} {...scale} />
      <Chart title="Latency p50" points={times(readings, 0.5)} text={timeText} {...scale} />
      <Chart title="Latency p99" points={times(readings, 0.99)} text={timeText} {...scale} />
      <Chart title="Commits a second" points={rates(readings, 'commits')} text={rateText} {...scale} />
      <Chart
        title="Memory"
        points={readings.map(({ atMs, memoryBytes }) => ({ atMs, value: memoryBytes }))}
        text={sizeText}
        {...scale}
      />
    </section>
  );
}

function rateText(value: number): string {
  return value < 10 ? value.toFixed(1) : countText(Math.round(value));
}

function timeText(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toFixed(1)} ms` : `${countText(Math.round(milliseconds))} ms`;
}

/** A restart sets the counters back: such a step is left out. */
function steps(readings: readonly Reading[]): { before: Reading; after: Reading }[] {
  return readings.slice(1).flatMap((after, at) => {
    const before = readings[at] as Reading;
    return after.requests >= before.requests ? [{ before, after }] : [];
  });
}

function rates(readings: readonly Reading[], name: 'requests' | 'commits'): Point[] {
  return steps(readings).map(({ before, after }) => ({
    atMs: after.atMs,
    value: ((after[name] - before[name]) * 1_000) / Math.max(1, after.atMs - before.atMs),
  }));
}

function times(readings: readonly Reading[], share: number): Point[] {
  return steps(readings).flatMap(({ before, after }) => {
    const seconds = timeWithin(before, after, share);
    return seconds === undefined ? [] : [{ atMs: after.atMs, value: seconds * 1_000 }];
  });
}
