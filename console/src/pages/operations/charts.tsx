/** Throughput and latency, from the counters of /metrics read again and again. */
import { useEffect, useState } from 'preact/hooks';
import { type Sample, readMetrics } from '../../metrics.js';
import type { Session } from '../../session.js';
import { fetchText } from '../../stoa.js';
import { Chart, type Point } from '../../ui/chart.js';
import { countText, sizeText } from '../../ui/format.js';

const everyMs = 2_000;
const pointsMax = 150;

interface Reading {
  readonly atMs: number;
  readonly requests: number;
  readonly requestSeconds: number;
  readonly commits: number;
  readonly memory: number;
}

export function Charts({ session }: { session: Session }) {
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      try {
        const samples = readMetrics(await fetchText('/metrics', session, stop.signal));
        setReadings((before) => [...before, readingOf(samples)].slice(-pointsMax));
      } catch {
        // A gap in the line; the state of the connection is shown beside the navigation.
      }
    };
    void read();
    const timer = setInterval(() => document.hidden || void read(), everyMs);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, [session]);
  const toMs = readings.at(-1)?.atMs ?? Date.now();
  const scale = { fromMs: toMs - pointsMax * everyMs, toMs };
  return (
    <section class="box wide charts">
      <Chart title="Requests a second" points={rates(readings, 'requests')} text={rateText} {...scale} />
      <Chart
        title="Mean time of a request"
        points={means(readings)}
        text={(ms) => `${ms.toFixed(1)} ms`}
        {...scale}
      />
      <Chart title="Commits a second" points={rates(readings, 'commits')} text={rateText} {...scale} />
      <Chart
        title="Memory"
        points={readings.map(({ atMs, memory }) => ({ atMs, value: memory }))}
        text={sizeText}
        {...scale}
      />
    </section>
  );
}

function rateText(value: number): string {
  return value < 10 ? value.toFixed(1) : countText(Math.round(value));
}

function readingOf(samples: readonly Sample[]): Reading {
  const sum = (name: string): number =>
    samples.reduce((total, sample) => (sample.name === name ? total + sample.value : total), 0);
  return {
    atMs: Date.now(),
    requests: sum('stoa_http_requests_total'),
    requestSeconds: sum('stoa_http_request_seconds_sum'),
    commits: sum('stoa_commits_total'),
    memory: sum('stoa_process_resident_bytes'),
  };
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

function means(readings: readonly Reading[]): Point[] {
  return steps(readings).map(({ before, after }) => {
    const requests = after.requests - before.requests;
    const seconds = after.requestSeconds - before.requestSeconds;
    return { atMs: after.atMs, value: requests === 0 ? 0 : (seconds * 1_000) / requests };
  });
}
