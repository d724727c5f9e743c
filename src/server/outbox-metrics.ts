/** The outbox of commits, for Prometheus: what waits, how long, and what was given up. */
import { Gauge, type Registry } from 'prom-client';
import type { Stoa } from '../index.js';

export function measureOutbox(registry: Registry, { commit, onError }: Stoa): void {
  const registers = [registry];
  const oldest = new Gauge({ name: 'stoa_commit_outbox_oldest_seconds', help: 'Age of the oldest message of a commit that waits for its delivery.', registers });
  const undeliverable = new Gauge({ name: 'stoa_commit_outbox_undeliverable', help: 'Messages of commits that were given up and are still shown.', registers });
  const waiting: Gauge = new Gauge({
    name: 'stoa_commit_outbox_waiting',
    help: 'Messages of commits that wait for their delivery.',
    registers,
    collect: async (): Promise<void> => {
      try {
        const facts = await commit.outbox();
        waiting.set(facts.waiting);
        oldest.set(facts.oldestWaitingSeconds);
        undeliverable.set(facts.undeliverable);
      } catch (error) {
        // The other numbers are wanted most when a database is away.
        onError(error, 'counting the outbox for /metrics');
      }
    },
  });
}
