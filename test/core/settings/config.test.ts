import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stoaOptions } from '../../../src/cli/connection/stoa-options.js';
import { type ConfigSources, loadConfig } from '../../../src/core/settings/config.js';
import { StoaError } from '../../../src/core/errors.js';
import { openStoa, operatorCaller } from '../../../src/index.js';
import {
  fixedLimitNames,
  limitDefinitions,
  limitSettingNames,
  limitsWith,
} from '../../../src/core/settings/limits.js';
import { keyOf, limitVariableOf, settingNames } from '../../../src/core/settings/settings.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-config-'));
});
afterAll(() => rm(directory, { recursive: true }));

async function withFile(content: unknown): Promise<string> {
  const own = await mkdtemp(join(directory, 'case-'));
  await writeFile(
    join(own, 'stoa.config.json'),
    typeof content === 'string' ? content : JSON.stringify(content),
  );
  return own;
}

function refusal(sources: ConfigSources): StoaError {
  try {
    loadConfig({ directory: null, ...sources });
  } catch (error) {
    if (error instanceof StoaError) return error;
    throw error;
  }
  throw new Error('It was not refused.');
}

describe('values', () => {
  test('come from flags over the environment over the file over defaults, each with its origin', async () => {
    const own = await withFile({ port: 1001, host: '127.0.0.2', data: 'from-file', sync_writes: false });
    const { config, rows } = loadConfig({
      flags: { port: '1003' },
      environment: { STOA_PORT: '1002', STOA_DATA: 'from-variable' },
      directory: own,
    });
    expect(config).toMatchObject({
      port: 1003,
      data: 'from-variable',
      host: '127.0.0.2',
      syncWrites: false,
      engine: null,
    });
    const origin = (name: string): string | undefined => rows.find((row) => row.name === name)?.origin;
    expect(origin('port')).toBe('--port');
    expect(origin('data')).toBe('STOA_DATA');
    expect(origin('host')).toBe(join(own, 'stoa.config.json'));
    expect(origin('engine')).toBe('default');
  });

  test('that are limits are overridden by name in the file and in the environment', async () => {
    const own = await withFile({ limits: { agentsPerUserMax: 20, leaseSeconds: 5 } });
    const { config } = loadConfig({ environment: { STOA_LIMIT_LEASE_SECONDS: '7' }, directory: own });
    expect(config.limits).toMatchObject({ agentsPerUserMax: 20, leaseSeconds: 7, labelCharactersMax: 100 });
  });

  test('in an empty variable count as not set', () => {
    expect(loadConfig({ environment: { STOA_PORT: '' }, directory: null }).config.port).toBe(7862);
  });

  test('that are lists are separated by commas', () => {
    const { config } = loadConfig({
      environment: { STOA_TRUSTED_PROXIES: '10.0.0.0/8, 127.0.0.1' },
      directory: null,
    });
    expect(config.trustedProxies).toEqual(['10.0.0.0/8', '127.0.0.1']);
  });

  test('with a password in a URL are printed without it', () => {
    const { rows, config } = loadConfig({
      flags: { postgres: 'postgres://me:hush@db/x', redis: 'redis://cache' },
      directory: null,
    });
    expect(config.postgres).toBe('postgres://me:hush@db/x');
    expect(JSON.stringify(rows)).not.toContain('hush');
  });

  test.each([
    'postgres://me:hu/sh@db/x',
    'postgres://me:12/hush@db/x',
    'mongodb://me:hu/sh@db/x',
    'postgres://me:a b/sh@db',
  ])('that cannot be used are refused without the password: %s', (datastore) => {
    const { message } = refusal({ flags: { datastore } });
    expect(message).toContain('@db');
    expect(message).not.toMatch(/me:|sh@/);
  });
});

describe('unknown names are refused with the name that was likely meant', () => {
  test('in the environment', () => {
    expect(refusal({ environment: { STOA_PROT: '1' } })).toMatchObject({ code: 'invalid_config', exit: 2 });
    expect(refusal({ environment: { STOA_PROT: '1' } }).message).toContain('Did you mean "STOA_PORT"?');
  });

  test('in the environment, for a removed setting', () => {
    expect(refusal({ environment: { STOA_MAX_OPEN_FILES: '100' } }).message).toContain(
      'Unknown setting "STOA_MAX_OPEN_FILES"',
    );
  });

  test('in the file', async () => {
    expect(refusal({ directory: await withFile({ prot: 1 }) }).message).toContain('Did you mean "port"?');
    // "stoa config" reads the same file and would end the same way.
    expect(refusal({ directory: await withFile({ prot: 1 }) }).fix).toContain('docs/configuration.md');
    expect(refusal({ directory: await withFile({ limits: { agentPerUserMax: 1 } }) }).message).toContain(
      'Did you mean "agentsPerUserMax"?',
    );
  });
});

describe('a fixed limit is refused with its value', () => {
  test.each(fixedLimitNames)('%s', async (name) => {
    const value = limitDefinitions[name].default.toLocaleString('en');
    const refused = [
      refusal({ environment: { [limitVariableOf(name)]: '7' } }),
      refusal({ directory: await withFile({ limits: { [name]: 7 } }) }),
    ];
    for (const error of refused) {
      expect(error).toMatchObject({ code: 'invalid_config', exit: 2 });
      expect(error.message).toContain(`cannot be set: ${name} is fixed at ${value}.`);
    }
  });

  test('and is not printed, while every limit that is a setting is', () => {
    const { rows, config } = loadConfig({ directory: null });
    const names = rows.map((row) => row.name);
    expect(names).toEqual([...settingNames.map(keyOf), ...limitSettingNames.map((name) => `limits.${name}`)]);
    expect(config.limits).toEqual(limitsWith());
  });

  test('and code can still lower it', async () => {
    const stoa = await openStoa({
      data: '',
      engine: 'memory',
      limits: { valueBytesMax: 10, metadataBytesMax: 10 },
    });
    const set = (value: string, metadata = {}) =>
      stoa.data.set(operatorCaller(), 'n', 'k', value, { metadata });
    await expect(set('short', { note: 'longer' })).rejects.toMatchObject({
      code: 'too_large',
      message: 'The metadata has 17 bytes of JSON, which exceeds 10 (metadataBytesMax).',
      fix: 'Store large metadata as a separate document.',
    });
    // The operator can raise this one, and the error says so.
    await expect(set('longer than ten')).rejects.toMatchObject({
      message: 'The value has 17 bytes of JSON, which exceeds 10 (valueBytesMax).',
      fix: 'Split the value over several keys, or raise valueBytesMax.',
    });
    await stoa.close();
  });
});

test('an operator decides at most 60 settings', () => {
  expect(settingNames.length + limitSettingNames.length).toBeLessThanOrEqual(60);
});

describe('wrong values are refused by name and origin', () => {
  test.each([
    ['port', '70000'],
    ['port', '80x'],
    ['port', '-1'],
    ['port', ''],
    ['engine', 'bolt'],
    ['shards', '0'],
    ['shards', '257'],
    ['syncWrites', 'maybe'],
    ['postgres', 'mysql://localhost/x'],
    ['postgres', 'postgres'],
    ['datastore', 'postgres://localhost/x'],
    ['redis', 'http://localhost'],
    ['logLevel', 'loud'],
    ['corsOrigin', '*'],
    ['corsOrigin', 'https://app.example.org/'],
  ] as const)('%s = %j', (name, value) => {
    const error = refusal({ flags: { [name]: value } });
    expect(error.code).toBe('invalid_config');
    expect(error.message).toContain(JSON.stringify(value));
    expect(error.message).toContain('(from --');
  });

  test('a limit that is not a number', () => {
    expect(refusal({ environment: { STOA_LIMIT_LEASE_SECONDS: 'soon' } }).message).toContain(
      'STOA_LIMIT_LEASE_SECONDS',
    );
  });

  test.each([
    'leaseSeconds',
    'backendRequestSecondsMax',
    'messageRetentionSeconds',
    'directRetentionSeconds',
    'addressRequestsPerMinuteMax',
  ] as const)('a limit with which nothing would work: %s = 0', async (name) => {
    expect(refusal({ environment: { [limitVariableOf(name)]: '0' } }).message).toContain(
      `limits.${name} must be a whole number`,
    );
    expect(refusal({ directory: await withFile({ limits: { [name]: 0 } }) }).message).toContain(
      `limits.${name}`,
    );
  });

  test.each([
    'streamHeartbeatSeconds',
    'tokenUseSeconds',
    'rateWindowsKeptEverySeconds',
    'searchRepairSeconds',
    'clearStepMax',
    'migrationStepRowsMax',
    'leaseSeconds',
    'bodyBytesMax',
    'requestSecondsMax',
    'transactionsWaitingMax',
    'dataBatchKeysMax',
  ] as const)('a limit in code with which a timer or a step would run for ever: %s = 0', async (name) => {
    expect(() => limitsWith({ [name]: 0 })).toThrow(`limits.${name} must be more than 0`);
    await expect(openStoa({ data: join(directory, 'never'), limits: { [name]: 0 } })).rejects.toMatchObject({
      code: 'invalid_config',
    });
  });

  test('a limit that is longer than a timer can wait', () => {
    expect(refusal({ environment: { STOA_LIMIT_STOP_SECONDS_MAX: '2147484' } }).message).toContain(
      'limits.stopSecondsMax must be a whole number from 0 to 1000000',
    );
    expect(() => limitsWith({ stopSecondsMax: 2_147_484 })).toThrow(
      'limits.stopSecondsMax must be 0 or more and at most 1000000',
    );
  });

  test('a file that is not JSON, not an object, or missing', async () => {
    expect(refusal({ directory: await withFile('{') }).message).toContain('is not JSON');
    expect(refusal({ directory: await withFile('[]') }).message).toContain('one JSON object');
    expect(refusal({ directory: await withFile({ limits: [] }) }).message).toContain('"limits"');
    expect(refusal({ directory, flags: { config: 'nowhere.json' } }).message).toContain('nowhere.json');
  });
});

describe('a public address', () => {
  test.each(['0.0.0.0', '::', '192.168.1.10', 'example.org'])('%s is refused without TLS', (host) => {
    expect(refusal({ flags: { host } }).fix).toContain('--allow-public');
  });

  test('is allowed with TLS, or with the flag and a warning', () => {
    expect(
      loadConfig({ flags: { host: '0.0.0.0', tlsCert: 'c', tlsKey: 'k' }, directory: null }).warnings,
    ).toEqual([]);
    expect(
      loadConfig({ flags: { host: '0.0.0.0', allowPublic: true }, directory: null }).warnings.join(),
    ).toContain('without TLS');
  });

  test.each(['127.0.0.1', '127.1.2.3', '::1', 'localhost'])('%s is not a public address', (host) => {
    expect(loadConfig({ flags: { host }, directory: null }).config.host).toBe(host);
  });
});

test('a setting that weakens durability causes a warning', () => {
  expect(loadConfig({ flags: { syncWrites: 'false' }, directory: null }).warnings.join()).toContain(
    'can lose writes',
  );
  expect(loadConfig({ flags: { engine: 'memory' }, directory: null }).warnings.join()).toContain(
    'stores nothing',
  );
});

test('half a TLS pair, and half of PostgreSQL and Redis, are refused', () => {
  expect(refusal({ flags: { tlsCert: 'cert.pem' } }).message).toContain('tls_key');
  expect(refusal({ flags: { redis: 'redis://localhost' } }).message).toContain('postgres is not');
  expect(refusal({ flags: { postgres: 'postgres://db/x' } }).message).toContain('redis is not');
});

test.each(['postgres://db/x', 'PostgreSQL://db/x'])('%s beside a Redis is the home', (postgres) => {
  const redis = 'redis://localhost';
  const { config } = loadConfig({ flags: { postgres, redis }, directory: null });
  expect(stoaOptions(config)).toMatchObject({ postgres, redis, datastore: null });
});
