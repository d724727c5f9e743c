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
  gauges: readonly (PlainGauge<T> | LabelledGauge<T>)[];
}

interface PlainGauge<T> {
  name: string;
  help: string;
  label?: undefined;
  of: (read: T) => number;
}

/** A number for each value of a label. */
interface LabelledGauge<T> {
  name: string;
  help: string;
  label: string;
  of: (read: T) => Readonly<Record<string, number>>;
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
  for (const { name, help, label, of } of gauges) {
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
