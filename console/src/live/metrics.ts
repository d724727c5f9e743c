/**
 * The counters of /metrics, read again and again while the operator is signed in, so that the charts have a past when their
 * page opens.
 */
import { type Sample, readMetrics } from '../metrics.js';
import { Observable } from '../observable.js';
import { type View, fetchText } from '../stoa.js';

export interface Reading {
  readonly atMs: number;
  readonly requests: number;
  /** Requests by the longest time that they took, in seconds: each count includes the ones before it. */
  readonly within: readonly { readonly seconds: number; readonly count: number }[];
  readonly commits: number;
  readonly memoryBytes: number;
  readonly disk: Disk | undefined;
}

export interface Disk {
  readonly freeBytes: number;
  readonly sizeBytes: number;
}

export const readEveryMs = 4_000;
const secondReadMs = 1_000;
export const readingsMax = 225;

export class Metrics {
  readonly readings = new Observable<readonly Reading[]>([]);
  readonly #stop = new AbortController();
  readonly #view: View;
  #timer: ReturnType<typeof setInterval> | undefined;
  #secondTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(view: View) {
    this.#view = view;
  }

  /** Users have no metrics. */
  start(): void {
    if (!this.#view.isOperator) return;
    void this.#read();
    // A rate needs two readings: the second one comes soon.
    this.#secondTimer = setTimeout(() => void this.#read(), secondReadMs);
    this.#timer = setInterval(() => document.hidden || void this.#read(), readEveryMs);
  }

  stop(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#secondTimer);
    this.#stop.abort();
  }

  async #read(): Promise<void> {
    try {
      const text = await fetchText('/metrics', this.#view.session, this.#stop.signal);
      this.readings.set([...this.readings.value, readingOf(readMetrics(text))].slice(-readingsMax));
    } catch {
      // A gap in the lines; the state of the connection is shown beside the navigation.
    }
  }
}

function readingOf(samples: readonly Sample[]): Reading {
  const sum = (name: string): number =>
    samples.reduce((total, sample) => (sample.name === name ? total + sample.value : total), 0);
  const sizeBytes = sum('stoa_disk_size_bytes');
  return {
    atMs: Date.now(),
    requests: sum('stoa_http_requests_total'),
    within: samples
      .filter(({ name }) => name === 'stoa_http_request_seconds_bucket')
      .map(({ labels, value }) => ({
        seconds: labels['le'] === '+Inf' ? Infinity : Number(labels['le']),
        count: value,
      })),
    commits: sum('stoa_commits_total'),
    memoryBytes: sum('stoa_process_resident_bytes'),
    // A home without a disk of its own does not report one.
    disk: sizeBytes === 0 ? undefined : { freeBytes: sum('stoa_disk_free_bytes'), sizeBytes },
  };
}

/** The time within which a share of the requests between two readings ended. Undefined if there was no request. */
export function timeWithin(before: Reading, after: Reading, share: number): number | undefined {
  const counts = after.within.map(({ seconds, count }, at) => ({
    seconds,
    count: count - (before.within[at]?.count ?? 0),
  }));
  const wanted = (counts.at(-1)?.count ?? 0) * share;
  const at = counts.findIndex(({ count }) => count >= wanted);
  const found = counts[at];
  if (found === undefined || wanted <= 0) return undefined;
  const below = counts[at - 1] ?? { seconds: 0, count: 0 };
  if (found.seconds === Infinity) return below.seconds;
  // Within a bucket the requests are taken as evenly spread.
  const part = (wanted - below.count) / Math.max(1, found.count - below.count);
  return below.seconds + (found.seconds - below.seconds) * part;
}
