/** The configuration: flags over the environment over the file over defaults, each value with its origin. */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { StoaError, fileReasonOf, jsonFaultOf } from '../errors.js';
import {
  type LimitName,
  type Limits,
  fixedLimitNames,
  limitBoundsOf,
  limitDefinitions,
  limitSettingNames,
  limitsWith,
} from './limits.js';
import { didYouMean } from '../text/nearest.js';
import { withoutPassword } from '../text/printable-url.js';
import { type SettingType, wholeNumber } from './setting-types.js';
import {
  type SettingName,
  type SettingValues,
  flagOf,
  keyOf,
  limitVariableOf,
  settingNames,
  settings,
  variableOf,
} from './settings.js';
import { isMissing } from '../files.js';
import { groupedDigits } from '../text/grouped-digits.js';

export interface Config extends SettingValues {
  readonly limits: Limits;
}

/** Where a value came from: a flag, a variable, the file's path, or `default`. */
export interface ConfigRow {
  name: string;
  value: unknown;
  origin: string;
  about: string;
}

export interface LoadedConfig {
  config: Config;
  rows: ConfigRow[];
  /** Sentences for the log at start about choices that reduce safety. */
  warnings: string[];
}

export interface ConfigSources {
  /** By the setting's name, as text; `config` is the path of the file. */
  flags?: Readonly<Partial<Record<SettingName | 'config', unknown>>>;
  environment?: Readonly<Record<string, string | undefined>>;
  /** Where `stoa.config.json` is looked for; null looks nowhere. */
  directory?: string | null;
}

/** Variables for commands, not for servers: the server to call, the user and the agent. */
export const clientVariables = [
  'STOA_URL',
  'STOA_TOKEN',
  'STOA_USER',
  'STOA_AGENT',
  'STOA_CONFIG',
  'STOA_ROOM_KEY',
] as const;

const fileName = 'stoa.config.json';

/** A configuration file has no shell that expands `~`. */
function fromHome(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(2)) : path;
}

interface Given {
  value: unknown;
  origin: string;
}

/** Reads all sources. An unknown name is an error that suggests the most similar known name. */
export function loadConfig({
  flags = {},
  environment = {},
  directory = '.',
}: ConfigSources = {}): LoadedConfig {
  const file = readConfigFile(flags.config ?? environment['STOA_CONFIG'], directory);
  checkSources(file, environment);

  const fromEnvironment = (variable: string): Given | undefined => {
    const value = environment[variable];
    // An empty variable is how shells and compose files say "not set".
    return value === undefined || value === '' ? undefined : { value, origin: variable };
  };
  const fromFile = (values: Readonly<Record<string, unknown>>, key: string): Given | undefined =>
    values[key] === undefined ? undefined : { value: values[key], origin: file.path };

  const rows: ConfigRow[] = [];
  const values: Record<string, unknown> = {};
  for (const name of settingNames) {
    const { type, about, default: fallback } = settings[name];
    const flag = flags[name] === undefined ? undefined : { value: flags[name], origin: flagOf(name) };
    const given = flag ?? fromEnvironment(variableOf(name)) ?? fromFile(file.settings, keyOf(name));
    values[name] =
      given === undefined
        ? fallback
        : readValue<unknown>(type, keyOf(name), given, (value) => printable(name, value));
    rows.push({
      name: keyOf(name),
      value: printable(name, values[name]),
      origin: given?.origin ?? 'default',
      about,
    });
  }
  const limits: Partial<Record<LimitName, number>> = {};
  for (const name of limitSettingNames) {
    const given = fromEnvironment(limitVariableOf(name)) ?? fromFile(file.limits, name);
    if (given !== undefined) limits[name] = readValue(limitType(name), `limits.${name}`, given);
    rows.push({
      name: `limits.${name}`,
      value: limits[name] ?? limitDefinitions[name].default,
      origin: given?.origin ?? 'default',
      about: limitDefinitions[name].about,
    });
  }
  // The loop above gave every setting a value that its own type has read.
  const settled = values as unknown as SettingValues;
  const config = { ...settled, data: fromHome(settled.data), limits: limitsWith(limits) };
  checkTogether(config);
  return { config, rows, warnings: warningsOf(config) };
}

function checkSources(file: ConfigFile, environment: NonNullable<ConfigSources['environment']>): void {
  const keys = [...settingNames.map(keyOf), 'limits', '$schema'];
  checkNames(Object.keys(file.settings), keys, `a key in ${file.path}`);
  checkNames(Object.keys(file.limits), limitSettingNames, `a limit in ${file.path}`);
  const given = Object.keys(environment).filter((name) => name.startsWith('STOA_'));
  const known = [
    ...settingNames.map(variableOf),
    ...limitSettingNames.map(limitVariableOf),
    ...clientVariables,
  ];
  checkNames(given, known, 'an environment variable');
}

function limitType(name: LimitName): SettingType<number> {
  const { min, max } = limitBoundsOf(name);
  return max === Number.MAX_SAFE_INTEGER
    ? wholeNumber(min, max, `a whole number, ${min} or more`)
    : wholeNumber(min, max);
}

function readValue<Value>(
  type: SettingType<Value>,
  name: string,
  { value, origin }: Given,
  shown = (refused: unknown): unknown => refused,
): Value {
  const read = type.read(value);
  if ('value' in read) return read.value;
  throw new StoaError(
    'invalid_config',
    `${name} ${read.complaint}, got ${JSON.stringify(shown(value))} (from ${origin}).`,
    { details: { setting: name, origin } },
  );
}

/** Rules over more than one setting. */
function checkTogether(config: Config): void {
  if ((config.tlsCert === null) !== (config.tlsKey === null)) {
    throw new StoaError('invalid_config', 'TLS needs both tls_cert and tls_key; only one is set.', {
      fix: 'Set both files, or neither.',
    });
  }
  if (!isLoopback(config.host) && config.tlsCert === null && !config.allowPublic) {
    throw new StoaError(
      'invalid_config',
      `Listening on ${config.host} would send tokens and data over the network unencrypted.`,
      {
        fix: 'Set --tls-cert and --tls-key, use --host 127.0.0.1, or set --allow-public if a proxy adds TLS.',
      },
    );
  }
  const embedder = [config.embedderUrl, config.embedderModel, config.embedderDimensions];
  if (embedder.includes(null) && embedder.some((value) => value !== null)) {
    throw new StoaError(
      'invalid_config',
      'Only some of embedder_url, embedder_model and embedder_dimensions are set.',
      { fix: 'Set all three, or none of them to search by words only.' },
    );
  }
  if ((config.redis === null) !== (config.postgres === null)) {
    const [given, missing] = config.redis === null ? ['postgres', 'redis'] : ['redis', 'postgres'];
    throw new StoaError('invalid_config', `${given} is set and ${missing} is not. They are used together.`, {
      fix: `Set --${missing} to its URL, or leave out --${given} to use a data directory.`,
    });
  }
}

function warningsOf(config: Config): string[] {
  const warnings: string[] = [];
  if (!config.syncWrites)
    warnings.push('sync_writes is off: a crash or power cut can lose writes that were acknowledged.');
  if (config.engine === 'memory')
    warnings.push('The engine "memory" stores nothing on disk: all data is lost when the server ends.');
  if (!isLoopback(config.host) && config.tlsCert === null)
    warnings.push(`Listening on ${config.host} without TLS: a proxy in front of the server must add it.`);
  return warnings;
}

function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true;
  return isIP(host) === 4 && host.startsWith('127.');
}

function checkNames(given: readonly string[], known: readonly string[], kind: string): void {
  const set = new Set(known);
  for (const name of given) {
    if (set.has(name)) continue;
    const fixed = fixedLimitNames.find((limit) => limit === name || limitVariableOf(limit) === name);
    throw new StoaError(
      'invalid_config',
      fixed === undefined
        ? `Unknown setting "${name}", given as ${kind}.${didYouMean(name, known)}`
        : `"${name}", given as ${kind}, cannot be set: ${fixed} is fixed at ${groupedDigits(limitDefinitions[fixed].default)}.`,
      {
        fix:
          `${fixed === undefined ? 'Correct or remove the name' : 'Remove the name'}; ` +
          'docs/configuration.md lists every setting.',
        details: { unknown: name },
      },
    );
  }
}

/** Passwords and keys are replaced, because the values are printed. */
function printable(name: SettingName, value: unknown): unknown {
  if (settings[name].secret === true && value !== null) return '(set)';
  return typeof value === 'string' ? withoutPassword(value) : value;
}

interface ConfigFile {
  path: string;
  settings: Record<string, unknown>;
  limits: Record<string, unknown>;
}

function readConfigFile(given: unknown, directory: string | null): ConfigFile {
  if (directory === null) return { path: fileName, settings: {}, limits: {} };
  const asked = typeof given === 'string' && given !== '';
  const path = asked ? resolve(directory, given) : resolve(directory, fileName);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    if (!asked && isMissing(error)) return { path, settings: {}, limits: {} };
    throw new StoaError(
      'invalid_config',
      `The configuration file ${path} cannot be read: ${fileReasonOf(error)}.`,
      { cause: error },
    );
  }
  const parsed = parseObject(content, path);
  const { limits = {} } = parsed;
  if (typeof limits !== 'object' || limits === null || Array.isArray(limits)) {
    throw new StoaError(
      'invalid_config',
      `"limits" in ${path} must be an object of limit names and numbers.`,
    );
  }
  return { path, settings: parsed, limits: { ...limits } };
}

function parseObject(content: string, path: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch (error) {
    throw new StoaError('invalid_config', `${path} is not JSON: ${jsonFaultOf(error)}.`, {
      cause: error,
      fix: 'Correct the file, or use another with --config.',
    });
  }
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return { ...parsed };
  throw new StoaError('invalid_config', `${path} must contain one JSON object.`);
}
