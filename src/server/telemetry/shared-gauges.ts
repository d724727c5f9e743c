/**
 * Gauges that share one read of the store. Each gauge waits for the read, so that none shows an old number.
 */
import { Gauge, type Registry } from 'prom-client';

export interface SharedGauges<T> {
  /**
   * If it fails, the gauges keep their numbers: the other metrics are needed most when a database is down.
   */
  read: () => Promise<T>;
  onError: (error: unknown) => void;
  gauges: readonly { name: string; help: string; of: (read: T) => number }[];
}

export function measureTogether<T>(registry: Registry, { read, onError, gauges }: SharedGauges<T>): void {
  let reading: Promise<T | undefined> | undefined;
  // All gauges of a scrape start to collect before the first read ends.
  const look = () =>
    (reading ??= read()
      .catch((error: unknown) => {
        onError(error);
        return undefined;
      })
      .finally(() => (reading = undefined)));
  for (const { name, help, of } of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: async () => {
        const facts = await look();
        if (facts !== undefined) gauge.set(of(facts));
      },
    });
  }
}
