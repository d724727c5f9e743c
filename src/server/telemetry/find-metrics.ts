/** Metrics of the search index: what waits, its segments, its bytes. */
import type { Registry } from 'prom-client';
import { Paced } from '../../core/waiting/paced.js';
import type { Stoa } from '../../index.js';
import { measureTogether } from './shared-gauges.js';

export function measureFind(registry: Registry, { find, onError }: Stoa): void {
  // Measuring reads the store, so scrapes that follow each other share one measurement.
  const size = new Paced(() => find.port.size());
  measureTogether(registry, {
    read: () => size.read(),
    onError: (error) => onError(error, 'measuring the search index for /metrics'),
    gauges: [
      {
        name: 'stoa_find_waiting',
        help: 'Documents, tasks and messages that wait to be filed into the search index. Searches find them too.',
        of: ({ waiting }) => waiting,
      },
      { name: 'stoa_find_segments', help: 'Segments of the search index.', of: ({ segments }) => segments },
      { name: 'stoa_find_bytes', help: 'Bytes of the search index on disk.', of: ({ bytes }) => bytes },
    ],
  });
}
