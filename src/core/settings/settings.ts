/** Every setting of Stoa in one table. Its flag, variable and key in the file all follow from its name. */
import { type EngineName, engineNames, storeConfigDefaults } from './store-config.js';
import { hasStrayAt } from '../text/printable-url.js';

/** Reads a value from text (flags, environment) or from JSON (the file); answers what is wrong as a string in `complaint`. */
export interface SettingType<Value> {
  /** For help and documentation: `port number`, `true or false`. */
  readonly about: string;
  read(given: unknown): { value: Value } | { complaint: string };
}

export interface Setting<Value> {
  readonly type: SettingType<Value>;
  readonly default: Value;
  /** One sentence for help, `stoa config` and the configuration page. */
  readonly about: string;
  /** Never printed. */
  readonly secret?: boolean;
}

const text: SettingType<string> = {
  about: 'text',
  read: (given) =>
    typeof given === 'string' && given !== ''
      ? { value: given }
      : { complaint: 'must be text and not empty' },
};

const onOrOff: SettingType<boolean> = {
  about: 'true or false',
  read: (given) => {
    if (given === true || given === 'true' || given === '1') return { value: true };
    if (given === false || given === 'false' || given === '0') return { value: false };
    return { complaint: 'must be true or false' };
  },
};

const list: SettingType<readonly string[]> = {
  about: 'a list, separated by commas',
  read: (given) => {
    const items =
      typeof given === 'string'
        ? given
            .split(',')
            .map((item) => item.trim())
            .filter((item) => item !== '')
        : given;
    if (!Array.isArray(items) || !items.every((item) => typeof item === 'string'))
      return { complaint: 'must be a list of texts' };
    return { value: items };
  },
};

/** A whole number between two bounds. Text must be digits alone: `7862x`, `0x10` and `1e3` are mistakes. */
export function wholeNumber(
  min: number,
  max: number,
  about = `a whole number from ${min} to ${max}`,
): SettingType<number> {
  return {
    about,
    read: (given) => {
      const value = typeof given === 'string' && /^\d{1,16}$/.test(given) ? Number(given) : given;
      if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
        return { complaint: `must be ${about}` };
      return { value };
    },
  };
}

function oneOf<Choice extends string>(choices: readonly Choice[]): SettingType<Choice> {
  const about = choices.join(', ').replace(/, ([^,]*)$/, ' or $1');
  return {
    about,
    read: (given) => {
      const value = choices.find((choice) => choice === given);
      return value === undefined ? { complaint: `must be ${about}` } : { value };
    },
  };
}

function orNone<Value>(type: SettingType<Value>): SettingType<Value | null> {
  return { about: type.about, read: (given) => (given === null ? { value: null } : type.read(given)) };
}

/** Where a domain is kept: `embedded`, or the URL of a database server. */
function backendUrl(schemes: readonly string[]): SettingType<string | null> {
  const about = `${schemes.includes('embedded') ? 'embedded or a URL' : 'a URL'} with the scheme ${schemes.filter((scheme) => scheme !== 'embedded').join(', ')}`;
  return orNone<string>({
    about,
    read: (given) => {
      if (typeof given !== 'string') return { complaint: `must be ${about}` };
      if (given === 'embedded' && schemes.includes('embedded')) return { value: given };
      const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(given)?.[1]?.toLowerCase();
      if (scheme === undefined) return { complaint: `must be ${about}` };
      if (!schemes.includes(scheme))
        return { complaint: `has the scheme "${scheme}", which is not known here; it must be ${about}` };
      if (hasStrayAt(given))
        return {
          complaint: `has an "@" behind the server's name; in a password, / is written %2F, ? is %3F, # is %23 and @ is %40`,
        };
      return URL.canParse(given) ? { value: given } : { complaint: 'is not a URL that can be read' };
    },
  });
}

const postgresSchemes = ['embedded', 'postgres', 'postgresql'];
const datastoreSchemes = [...postgresSchemes, 'couchdb', 'couchdbs', 'dynamodb', 'firestore'];

/** Whether a URL names a PostgreSQL. Schemes may be written in any case. */
export function isPostgres(url: string | null): boolean {
  return url !== null && /^postgres(ql)?:/i.test(url);
}

export const logLevels = ['silent', 'error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

function setting<Value>(
  type: SettingType<Value>,
  fallback: Value,
  about: string,
  secret = false,
): Setting<Value> {
  return { type, default: fallback, about, ...(secret && { secret }) };
}

export const settings = {
  data: setting(
    text,
    storeConfigDefaults.data_dir,
    'Directory that holds everything: databases, operator token, lock.',
  ),
  host: setting(
    text,
    '127.0.0.1',
    'Address to listen on. Other machines reach only a public one, which needs TLS or --allow-public.',
  ),
  port: setting(
    wholeNumber(0, 65_535, 'a port number from 0 to 65535'),
    7862,
    'Port to listen on; 0 takes any free one.',
  ),
  tlsCert: setting(orNone(text), null, 'File with the TLS certificate chain in PEM.'),
  tlsKey: setting(orNone(text), null, 'File with the key of the TLS certificate in PEM.'),
  allowPublic: setting(
    onOrOff,
    false,
    'Listen on a public address without TLS, for use behind a proxy that adds it.',
  ),
  allowedHosts: setting(list, [], 'Host names beyond loopback and the bound address that requests may name.'),
  allowedOrigins: setting(
    list,
    [],
    "Origins of other sites' pages that may call /v1 and /mcp, like https://app.example.org.",
  ),
  engine: setting<EngineName | null>(
    orNone(oneOf(engineNames)),
    null,
    'Storage engine of a new directory; an existing one keeps its own. Without it: lmdb.',
  ),
  shards: setting(
    orNone(wholeNumber(1, 256)),
    null,
    'Shards of a new directory; an existing one keeps its own. Without it: 1.',
  ),
  syncWrites: setting(
    onOrOff,
    storeConfigDefaults.sync_writes,
    'Wait for the disk before a write is acknowledged. Without it a crash can lose acknowledged writes.',
  ),
  maxOpenFiles: setting(
    wholeNumber(16, 1_000_000),
    storeConfigDefaults.max_open_files,
    'Files that the engine may hold open. It changes nothing with the engines of today: lmdb has two files a shard, and the package of rocksdb cannot be told, so that it holds all of its files open.',
  ),
  blockCacheBytes: setting(
    wholeNumber(0, Number.MAX_SAFE_INTEGER),
    storeConfigDefaults.block_cache_bytes,
    'Memory for the block caches of rocksdb, over all shards together; lmdb leaves caching to the operating system.',
  ),
  backend: setting(backendUrl(datastoreSchemes), null, 'Database server for every domain that it can hold.'),
  datastore: setting(backendUrl(datastoreSchemes), null, 'Where the data store is kept; over --backend.'),
  workspaces: setting(backendUrl(postgresSchemes), null, 'Where workspaces are kept; over --backend.'),
  messaging: setting(backendUrl(postgresSchemes), null, 'Where messaging is kept; over --backend.'),
  redis: setting(
    backendUrl(['redis', 'rediss']),
    null,
    'Redis for what expires in messaging, beside PostgreSQL.',
  ),
  trustedProxies: setting(list, [], 'Addresses or CIDR ranges of proxies whose forwarding headers count.'),
  secretKeys: setting(
    orNone(text),
    null,
    'Keys of 32 bytes in hex or base64, separated by commas, that secrets are encrypted with instead of the key file; the first encrypts, all decrypt.',
    true,
  ),
  rateLimitAllow: setting(list, [], 'Addresses or CIDR ranges that are exempt from rate limits and blocks.'),
  autoBlock: setting(
    onOrOff,
    true,
    'Block an address for a day after ten refusals by rate limits within an hour.',
  ),
  adminAgent: setting(orNone(text), null, 'Id of the messaging agent that may delete every message.'),
  requireMessageSignatures: setting(
    onOrOff,
    false,
    'Accept RFC 9421 signatures only: the four X-AICQ headers leave method and path unsigned.',
  ),
  metricsToken: setting(
    onOrOff,
    false,
    'Answer /metrics only to callers with a token, of any user or the operator.',
  ),
  backupDirectory: setting(
    orNone(text),
    null,
    'Directory for backups by the clock; without it there are none.',
  ),
  backupFullHours: setting(wholeNumber(1, 24 * 366), 24, 'Hours between two full backups by the clock.'),
  backupIncrementalMinutes: setting(
    wholeNumber(0, 60 * 24 * 366),
    60,
    'Minutes between two increments by the clock; 0 makes full backups only.',
  ),
  backupChainsKept: setting(
    wholeNumber(1, 10_000),
    7,
    'Full backups by the clock that stay, each with its increments.',
  ),
  tracing: setting(
    onOrOff,
    false,
    'Make a span of each request with the OpenTelemetry SDK that the process has registered.',
  ),
  logLevel: setting<LogLevel>(oneOf(logLevels), 'info', 'Least severe level that is logged to stderr.'),
} as const;

export type SettingName = keyof typeof settings;
export type SettingValues = { readonly [Name in SettingName]: (typeof settings)[Name]['default'] };
export const settingNames = Object.keys(settings) as readonly SettingName[]; // Object.keys forgets the type of the keys.

/** `syncWrites` → `--sync-writes`. */
export function flagOf(name: string): string {
  return `--${words(name).join('-')}`;
}

/** `syncWrites` → `STOA_SYNC_WRITES`. */
export function variableOf(name: string): string {
  return `STOA_${words(name).join('_').toUpperCase()}`;
}

/** `syncWrites` → `sync_writes`, the key in the file. */
export function keyOf(name: string): string {
  return words(name).join('_');
}

/** `agentsPerUserMax` → `STOA_LIMIT_AGENTS_PER_USER_MAX`. */
export function limitVariableOf(name: string): string {
  return `STOA_LIMIT_${words(name).join('_').toUpperCase()}`;
}

function words(name: string): string[] {
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).split(' ');
}
