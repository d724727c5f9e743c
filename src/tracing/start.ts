/** Traces by OpenTelemetry: loaded only where they are switched on. */
import { version } from '../version.js';
import { tracingConfig } from './environment.js';
import { Exporter } from './exporter.js';
import { Tracer } from './tracer.js';

export { traceStore } from './trace-store.js';

export interface TracingOptions {
  environment: Readonly<Record<string, string | undefined>>;
  onError: (error: unknown, about: string) => void;
}

/** Undefined where OpenTelemetry's own variables switch it off. */
export function startTracing({ environment, onError }: TracingOptions): Tracer | undefined {
  const config = tracingConfig(environment, version);
  if (config === undefined) return undefined;
  const exporter = new Exporter({ config, version, onError });
  return new Tracer({
    sampler: config.sampler,
    onEnd: (span) => exporter.add(span),
    close: () => exporter.close(),
  });
}
