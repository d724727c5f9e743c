/** Every setting that is not a limit. Its flag, variable and key in the file all follow from its name. */
import { limitDefinitions } from './limits.js';
import { type EngineName, engineNames, storeConfigDefaults } from './store-config.js';
import {
  type SettingType,
  backendUrl,
  list,
  oneOf,
  onOrOff,
  originList,
  orNone,
  serviceUrl,
  text,
  wholeNumber,
} from './setting-types.js';

export interface Setting<Value> {
  readonly type: SettingType<Value>;
  readonly default: Value;
  /** One sentence for help, `stoa config` and the configuration page. */
  readonly about: string;
  /** Never printed. */
  readonly secret?: boolean;
}

const postgresSchemes = ['postgres', 'postgresql'];
const storeSchemes = ['couchdb', 'couchdbs', 'dynamodb', 'firestore'];

const logLevels = ['silent', 'error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

function setting<Value>(
  type: SettingType<Value>,
  fallback: Value,
  about: string,
  secret = false,
): Setting<Value> {
  return { type, default: fallback, about, ...(secret && { secret }) };
}

/** The settings that are not limits, by group. */
export const settingGroups = {
  server: {
    host: setting(
      text,
      '127.0.0.1',
      'Address to listen on. An address that other machines can reach needs TLS or --allow-public.',
    ),
    port: setting(
      wholeNumber(0, 65_535, 'a port number from 0 to 65535'),
      7862,
      'Port to listen on; 0 picks a free port.',
    ),
    tlsCert: setting(orNone(text), null, 'File with the TLS certificate chain in PEM.'),
    tlsKey: setting(orNone(text), null, 'File with the private key of the TLS certificate in PEM.'),
    allowPublic: setting(
      onOrOff,
      false,
      'Listen on a public address without TLS, behind a proxy that adds TLS.',
    ),
    allowedHosts: setting(
      list,
      [],
      'Further host names that requests may use. Loopback and the listening address are always allowed.',
    ),
    corsOrigin: setting(
      originList,
      [],
      "Origins of other websites whose pages may call the server; the server's own pages always can.",
    ),
    trustedProxies: setting(
      list,
      [],
      'Addresses or CIDR ranges of proxies whose forwarding headers are trusted.',
    ),
  },
  storage: {
    data: setting(
      text,
      storeConfigDefaults.data_dir,
      'Data directory: databases, operator token and lock file.',
    ),
    engine: setting<EngineName | null>(
      orNone(oneOf(engineNames)),
      null,
      'Storage engine of a new data directory; lmdb if not set. An existing directory keeps its engine.',
    ),
    shards: setting(
      orNone(wholeNumber(1, limitDefinitions.shardsMax.default)),
      null,
      'Shards of a new data directory; 1 if not set. An existing directory keeps its number.',
    ),
    syncWrites: setting(
      onOrOff,
      storeConfigDefaults.sync_writes,
      'Acknowledge a write only when it is on disk. If false, a crash can lose acknowledged writes.',
    ),
    blockCacheBytes: setting(
      wholeNumber(0, Number.MAX_SAFE_INTEGER, 'a whole number, 0 or more'),
      storeConfigDefaults.block_cache_bytes,
      'Bytes of block cache for rocksdb, for all shards together. lmdb uses the cache of the operating ' +
        'system.',
    ),
    postgres: setting(
      backendUrl(postgresSchemes),
      null,
      'PostgreSQL that keeps everything instead of a data directory, together with --redis.',
    ),
    datastore: setting(
      backendUrl(storeSchemes),
      null,
      'CouchDB, DynamoDB or Firestore that keeps the documents instead of the home.',
    ),
    redis: setting(
      backendUrl(['redis', 'rediss']),
      null,
      'Redis for messages and other data that expires, together with --postgres.',
    ),
  },
  vectors: {
    embedderUrl: setting(
      serviceUrl,
      null,
      "Endpoint in the shape of OpenAI's /v1/embeddings that turns texts into vectors, for searches by meaning.",
    ),
    embedderModel: setting(orNone(text), null, 'Model that the embedder uses.'),
    embedderDimensions: setting(orNone(wholeNumber(1, 4_096)), null, 'Numbers in each vector of the model.'),
    embedderToken: setting(orNone(text), null, 'Bearer token for the embedder.', true),
  },
  rates: {
    rateLimitAllow: setting(list, [], 'Addresses or CIDR ranges without rate limits and blocks.'),
    autoBlock: setting(
      onOrOff,
      true,
      'Block an address for a day after rate limits have refused ten of its requests within an hour.',
    ),
  },
  security: {
    operatorToken: setting(
      orNone(text),
      null,
      "The operator's token with --postgres: 32 or more printable characters. Without it the first " +
        'start makes one.',
      true,
    ),
    secretKeys: setting(
      orNone(text),
      null,
      'Keys that encrypt secrets, instead of the key file: 32 bytes each, in hex or base64, separated ' +
        'by commas. The first key encrypts; all keys decrypt.',
      true,
    ),
    adminAgent: setting(orNone(text), null, 'Id of the messaging agent that may delete any message.'),
    requireMessageSignatures: setting(
      onOrOff,
      false,
      'Accept only RFC 9421 signatures. The four X-AICQ headers do not sign the method and the path.',
    ),
    metricsToken: setting(onOrOff, false, 'Require a token for /metrics, of any user or the operator.'),
  },
  operations: {
    backupDirectory: setting(
      orNone(text),
      null,
      'Directory for scheduled backups. Without it no backups are scheduled.',
    ),
    backupFullHours: setting(wholeNumber(1, 24 * 366), 24, 'Hours between scheduled full backups.'),
    backupIncrementalMinutes: setting(
      wholeNumber(0, 60 * 24 * 366),
      60,
      'Minutes between scheduled incremental backups; 0 makes only full backups.',
    ),
    backupChainsKept: setting(
      wholeNumber(1, 10_000),
      7,
      'Scheduled full backups to keep, each with its incremental backups.',
    ),
    tracing: setting(
      onOrOff,
      false,
      'Make a span of each request with the OpenTelemetry SDK that the process has registered.',
    ),
    logLevel: setting<LogLevel>(oneOf(logLevels), 'info', 'Lowest level that is logged to stderr.'),
  },
} as const;

export const settings = {
  ...settingGroups.server,
  ...settingGroups.storage,
  ...settingGroups.vectors,
  ...settingGroups.rates,
  ...settingGroups.security,
  ...settingGroups.operations,
} as const;

export type SettingName = keyof typeof settings;
export type SettingValues = { readonly [Name in SettingName]: (typeof settings)[Name]['default'] };
// Object.keys forgets the type of the keys.
export const settingNames = Object.keys(settings) as readonly SettingName[];

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
