/**
 * Gauges that share one read of the store. Each gauge waits for the read, so that none shows an old number.
 */
import { Gauge, type Registry } from 'prom-client';

/** A number of what was read; with a label, a number for each of its values. */
export type GaugeRow<T> = readonly [
  name: string,
  help: string,
  of: (read: T) => number | Readonly<Record<string, number>>,
  label?: string,
];

/**
 * If the read fails, the gauges keep their numbers: the other metrics are needed most when a database is down.
 */
export function measureTogether<T>(
  registry: Registry,
  read: () => T | Promise<T>,
  onError: (error: unknown) => void,
  rows: readonly GaugeRow<T>[],
): void {
  let reading: Promise<T | undefined> | undefined;
  // All gauges of a scrape start to collect before the first read ends.
  const look = () =>
    (reading ??= Promise.resolve()
      .then(read)
      .catch((error: unknown) => {
        onError(error);
        return undefined;
      })
      .finally(() => (reading = undefined)));
  for (const [name, help, of, label] of rows) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: label === undefined ? [] : [label],
      registers: [registry],
      collect: async () => {
        const facts = await look();
        if (facts === undefined) return;
        const shown = of(facts);
        if (typeof shown === 'number') gauge.set(shown);
        else for (const [value, number] of Object.entries(shown)) gauge.set({ [label ?? '']: value }, number);
      },
    });
  }
}
