/** Gauges that one look at the store fills: each waits for it, so that none shows what the scrape before has read. */
import { Gauge, type Registry } from 'prom-client';

export interface SharedGauges<T> {
  /** Where it fails, the gauges keep what they had: the other numbers are wanted most when a database is away. */
  read: () => Promise<T>;
  onError: (error: unknown) => void;
  gauges: readonly { name: string; help: string; of: (read: T) => number }[];
}

export function measureTogether<T>(registry: Registry, { read, onError, gauges }: SharedGauges<T>): void {
  let reading: Promise<T | undefined> | undefined;
  // All gauges of a scrape begin to collect before the first look is over.
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
