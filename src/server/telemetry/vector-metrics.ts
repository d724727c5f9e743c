/** Metrics of the work that gives documents vectors. */
import type { Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { measureTogether } from './shared-gauges.js';

export function measureVectors(registry: Registry, { vectors, onError }: Stoa): void {
  measureTogether(registry, {
    read: () => vectors.measure(),
    onError: (error) => onError(error, 'counting waiting documents for /metrics'),
    gauges: [
      {
        name: 'stoa_embedding_waiting',
        help: 'Documents that wait for a vector.',
        of: ({ waiting }) => waiting,
      },
      {
        name: 'stoa_embedding_oldest_seconds',
        help: 'Age of the oldest document that waits for a vector.',
        of: ({ oldestWaitingSeconds }) => oldestWaitingSeconds,
      },
      {
        name: 'stoa_embedding_embedded',
        help: 'Texts that this server has embedded since its start.',
        of: ({ embedded }) => embedded,
      },
      {
        name: 'stoa_embedding_refused',
        help: 'Texts that the embedder refused since the start of this server.',
        of: ({ refused }) => refused,
      },
      {
        name: 'stoa_embedding_failing',
        help: '1 while the embedder fails, else 0.',
        of: ({ isFailing }) => (isFailing ? 1 : 0),
      },
    ],
  });
}
