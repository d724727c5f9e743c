/** Metrics of the process and of the disk: memory, processor time, event loop, free space, and the build. */
import { statfs } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { version } from '../../version.js';
import { measureTogether } from './shared-gauges.js';

export function measureProcess(registry: Registry, { operations, onError }: Stoa): void {
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
  measureTogether(registry, {
    read: async () => process.memoryUsage(),
    onError: report,
    gauges: [
      { name: 'stoa_process_resident_bytes', help: 'Memory of the process.', of: ({ rss }) => rss },
      {
        name: 'stoa_process_heap_bytes',
        help: 'Memory of JavaScript objects.',
        of: ({ heapUsed }) => heapUsed,
      },
    ],
  });
  const { directory } = operations.facts();
  if (directory !== null) measureDisk(registry, directory, report);
}

function measureDisk(registry: Registry, directory: string, onError: (error: unknown) => void): void {
  measureTogether(registry, {
    read: () => statfs(directory),
    onError,
    gauges: [
      {
        name: 'stoa_disk_free_bytes',
        help: 'Free space on the disk of the data directory.',
        of: ({ bavail, bsize }) => bavail * bsize,
      },
      {
        name: 'stoa_disk_size_bytes',
        help: 'Size of the disk of the data directory.',
        of: ({ blocks, bsize }) => blocks * bsize,
      },
    ],
  });
}
