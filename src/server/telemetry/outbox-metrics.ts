/** Metrics of the outbox of commits: waiting messages, their age, and undeliverable messages. */
import type { Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { measureTogether } from './shared-gauges.js';

export function measureOutbox(registry: Registry, { commit, onError }: Stoa): void {
  measureTogether(registry, {
    read: () => commit.outbox(),
    onError: (error) => onError(error, 'counting the outbox for /metrics'),
    gauges: [
      {
        name: 'stoa_commit_outbox_oldest_seconds',
        help: 'Age of the oldest message of a commit that waits for its delivery.',
        of: ({ oldestWaitingSeconds }) => oldestWaitingSeconds,
      },
      {
        name: 'stoa_commit_outbox_undeliverable',
        help: 'Messages of commits that are undeliverable and still stored.',
        of: ({ undeliverable }) => undeliverable,
      },
      {
        name: 'stoa_commit_outbox_waiting',
        help: 'Messages of commits that wait for their delivery.',
        of: ({ waiting }) => waiting,
      },
    ],
  });
}
