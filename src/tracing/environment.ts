/** What OpenTelemetry's own variables say about traces: where they go, as whose, how many. */
import { StoaError } from '../core/errors.js';

export interface TracingConfig {
  /** Where batches are posted. */
  url: string;
  headers: Readonly<Record<string, string>>;
  timeoutMs: number;
  gzip: boolean;
  resource: Readonly<Record<string, string>>;
  sampler: Sampler;
  queueMax: number;
  batchMax: number;
  delayMs: number;
}

export interface Sampler {
  /** Whoever calls decides for the whole trace, where it says anything. */
  followsParent: boolean;
  /** The part of the traces that are recorded, of those that begin here. */
  ratio: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

const samplers: Readonly<Record<string, { followsParent: boolean; ratio: number | 'argument' }>> = {
  always_on: { followsParent: false, ratio: 1 },
  always_off: { followsParent: false, ratio: 0 },
  traceidratio: { followsParent: false, ratio: 'argument' },
  parentbased_always_on: { followsParent: true, ratio: 1 },
  parentbased_always_off: { followsParent: true, ratio: 0 },
  parentbased_traceidratio: { followsParent: true, ratio: 'argument' },
};

/** Undefined where the variables switch traces off. What Stoa cannot do is refused. */
export function tracingConfig(environment: Environment, version: string): TracingConfig | undefined {
  const read = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const ofTraces = (name: string): string | undefined =>
    read(`OTEL_EXPORTER_OTLP_TRACES_${name}`) ?? read(`OTEL_EXPORTER_OTLP_${name}`);
  if (read('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || read('OTEL_TRACES_EXPORTER') === 'none')
    return undefined;
  oneOf(
    'OTEL_TRACES_EXPORTER',
    read('OTEL_TRACES_EXPORTER') ?? 'otlp',
    ['otlp'],
    'Stoa sends traces by OTLP; unset it, or set it to otlp.',
  );
  oneOf(
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    ofTraces('PROTOCOL') ?? 'http/json',
    ['http/json'],
    'Stoa sends traces as http/json, to port 4318 of most collectors.',
  );
  const compression = oneOf(
    'OTEL_EXPORTER_OTLP_COMPRESSION',
    ofTraces('COMPRESSION') ?? 'none',
    ['none', 'gzip'],
    'Set it to gzip or none.',
  );
  return {
    url: urlOf(read('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'), read('OTEL_EXPORTER_OTLP_ENDPOINT')),
    headers: pairsOf('OTEL_EXPORTER_OTLP_HEADERS', ofTraces('HEADERS')),
    timeoutMs: numberOf('OTEL_EXPORTER_OTLP_TIMEOUT', ofTraces('TIMEOUT'), 10_000),
    gzip: compression === 'gzip',
    resource: {
      'service.name': 'stoa',
      'service.version': version,
      'telemetry.sdk.name': 'stoa',
      'telemetry.sdk.language': 'nodejs',
      'telemetry.sdk.version': version,
      'process.pid': String(process.pid),
      ...pairsOf('OTEL_RESOURCE_ATTRIBUTES', read('OTEL_RESOURCE_ATTRIBUTES')),
      ...(read('OTEL_SERVICE_NAME') !== undefined && { 'service.name': read('OTEL_SERVICE_NAME') as string }),
    },
    sampler: samplerOf(
      read('OTEL_TRACES_SAMPLER') ?? 'parentbased_always_on',
      read('OTEL_TRACES_SAMPLER_ARG'),
    ),
    queueMax: numberOf('OTEL_BSP_MAX_QUEUE_SIZE', read('OTEL_BSP_MAX_QUEUE_SIZE'), 2_048),
    batchMax: numberOf('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', read('OTEL_BSP_MAX_EXPORT_BATCH_SIZE'), 512),
    delayMs: numberOf('OTEL_BSP_SCHEDULE_DELAY', read('OTEL_BSP_SCHEDULE_DELAY'), 5_000),
  };
}

function samplerOf(name: string, argument: string | undefined): Sampler {
  const known = samplers[name];
  if (known === undefined)
    throw wrong('OTEL_TRACES_SAMPLER', `is "${name}"`, `It is one of ${Object.keys(samplers).join(', ')}.`);
  if (known.ratio !== 'argument') return { followsParent: known.followsParent, ratio: known.ratio };
  const ratio = Number(argument ?? 1);
  if (!(ratio >= 0 && ratio <= 1))
    throw wrong('OTEL_TRACES_SAMPLER_ARG', `is "${argument}"`, 'It is a number from 0 to 1.');
  return { followsParent: known.followsParent, ratio };
}

/** The variable for traces alone is the whole address; the one for all signals is what theirs begin with. */
function urlOf(ofTraces: string | undefined, ofAll: string | undefined): string {
  const url = ofTraces ?? `${(ofAll ?? 'http://localhost:4318').replace(/\/+$/, '')}/v1/traces`;
  if (/^https?:\/\//.test(url) && URL.canParse(url)) return url;
  // The address itself may hold a password.
  throw wrong(
    ofTraces === undefined ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    'is no URL of http or https',
    'It looks like http://localhost:4318.',
  );
}

/** `name=value,name=value`, with values percent-encoded. */
function pairsOf(variable: string, text: string | undefined): Record<string, string> {
  const pairs = (text ?? '')
    .split(',')
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '');
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      // Headers are secrets: what is wrong is told without its text.
      if (at < 1)
        throw wrong(
          variable,
          'is not a list of name=value',
          'Separate pairs by commas, and percent-encode commas within values.',
        );
      try {
        return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())];
      } catch (error) {
        throw wrong(variable, 'has a value that is not percent-encoded text', 'Write % as %25.', error);
      }
    }),
  );
}

function numberOf(variable: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw wrong(variable, `is "${text}"`, 'It is a whole number above 0.');
  return Number(text);
}

function oneOf(variable: string, value: string, choices: readonly string[], fix: string): string {
  if (!choices.includes(value)) throw wrong(variable, `is "${value}"`, fix);
  return value;
}

function wrong(variable: string, what: string, fix: string, cause?: unknown): StoaError {
  return new StoaError('invalid_config', `${variable} ${what}.`, {
    fix,
    ...(cause !== undefined && { cause }),
  });
}
