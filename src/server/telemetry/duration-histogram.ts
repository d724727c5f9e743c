/**
 * A histogram without labels that counts with a few additions. The package's histogram costs as much as
 * finding the route.
 */
import {
  Histogram,
  type HistogramConfiguration,
  type MetricObjectWithValues,
  type MetricValueWithName,
} from 'prom-client';

type Exported = MetricObjectWithValues<MetricValueWithName<'le'>>;

export class DurationHistogram extends Histogram<'le'> {
  readonly #facts: { name: string; help: string };
  readonly #bounds: readonly number[];
  /**
   * Counts of the durations up to each bound and above the previous one; the last is for durations above all
   * bounds.
   */
  readonly #counts: Float64Array;
  #sumSeconds = 0;

  constructor(
    configuration: Pick<HistogramConfiguration<'le'>, 'name' | 'help' | 'registers'> & {
      buckets: readonly number[];
    },
  ) {
    super({ ...configuration, buckets: [...configuration.buckets] });
    this.#facts = { name: configuration.name, help: configuration.help };
    this.#bounds = configuration.buckets;
    this.#counts = new Float64Array(this.#bounds.length + 1);
  }

  add(seconds: number): void {
    let place = 0;
    while (place < this.#bounds.length && seconds > (this.#bounds[place] as number)) place += 1;
    this.#counts[place] = (this.#counts[place] as number) + 1;
    this.#sumSeconds += seconds;
  }

  override async get(): Promise<Exported> {
    const { name, help } = this.#facts;
    let upTo = 0;
    const buckets = Array.from(this.#counts, (count, place) => {
      upTo += count;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[place] ?? '+Inf' }, value: upTo };
    });
    const values = [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, value: this.#sumSeconds },
      { metricName: `${name}_count`, labels: {}, value: upTo },
    ];
    // The declared type requires more than the registry reads, and an enumeration that the package does not
    // export.
    return { name, help, type: 'histogram', aggregator: 'sum', values } as unknown as Exported;
  }

  /** The registry calls this method; its declared types do not include it. */
  getForPromString(): Promise<Exported> {
    return this.get();
  }
}
