/** Metrics of the process and of the disk: memory, processor time, event loop, free space, and the build. */
import { statfs } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { version } from '../../version.js';
import { measureTogether } from './shared-gauges.js';

export function measureProcess(registry: Registry, { home, onError }: Stoa): void {
  const registers = [registry];
  new Gauge({
    name: 'stoa_build_info',
    help: 'Always one; its labels say which version runs on which Node.',
    labelNames: ['version', 'node', 'platform'],
    registers,
  }).set({ version, node: process.versions.node, platform: `${process.platform}-${process.arch}` }, 1);
  new Gauge({
    name: 'stoa_process_start_time_seconds',
    help: 'When the process started, in seconds since 1970.',
    registers,
  }).set(performance.timeOrigin / 1_000);
  const cpu: Counter<'mode'> = new Counter({
    name: 'stoa_process_cpu_seconds_total',
    help: 'Processor time that the process has used.',
    labelNames: ['mode'],
    registers,
    collect: () => {
      const { user, system } = process.cpuUsage();
      cpu.reset();
      cpu.inc({ mode: 'user' }, user / 1e6);
      cpu.inc({ mode: 'system' }, system / 1e6);
    },
  });
  const busy: Counter = new Counter({
    name: 'stoa_process_event_loop_busy_seconds_total',
    help: 'Time in which the event loop was not idle; its rate is one if the loop never waits.',
    registers,
    collect: () => {
      busy.reset();
      busy.inc(performance.eventLoopUtilization().active / 1_000);
    },
  });
  const report = (error: unknown): void => onError(error, 'counting for /metrics');
  measureTogether(registry, () => process.memoryUsage(), report, [
    ['stoa_process_resident_bytes', 'Memory of the process.', ({ rss }) => rss],
    ['stoa_process_heap_bytes', 'Memory of JavaScript objects.', ({ heapUsed }) => heapUsed],
  ]);
  const { directory } = home.operations.facts();
  if (directory === null) return;
  measureTogether(registry, () => statfs(directory), report, [
    [
      'stoa_disk_free_bytes',
      'Free space on the disk of the data directory.',
      ({ bavail, bsize }) => bavail * bsize,
    ],
    [
      'stoa_disk_size_bytes',
      'Size of the disk of the data directory.',
      ({ blocks, bsize }) => blocks * bsize,
    ],
  ]);
}
