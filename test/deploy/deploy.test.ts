/**
 * The files in `deploy/` against the server: a limit or a setting that changes there must change here too.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { limitDefinitions } from '../../src/core/settings/limits.js';
import { settingNames, variableOf } from '../../src/core/settings/settings.js';

const directory = join(import.meta.dirname, '..', '..', 'deploy');
const read = (file: string): string => readFileSync(join(directory, file), 'utf8');

const silenceSecondsMax = Math.max(
  limitDefinitions.claimWaitSecondsMax.default,
  limitDefinitions.streamHeartbeatSeconds.default,
);

it('the configuration of HAProxy is valid', () => {
  expect(
    execFileSync('haproxy', ['-c', '-f', join(directory, 'haproxy.cfg')], {
      encoding: 'utf8',
      stdio: 'pipe',
    }),
  ).toContain('Configuration file is valid');
});

describe('a balancer waits longer than the longest silence of the server:', () => {
  it.each([
    ['haproxy.cfg', /timeout (?:client|server) (\d+)s/g],
    ['nginx.conf', /proxy_(?:read|send)_timeout (\d+)s/g],
  ])('%s', (file, timeouts) => {
    const seconds = [...read(file).matchAll(timeouts)].map(([, found]) => Number(found));
    expect(seconds).toHaveLength(2);
    for (const found of seconds) expect(found).toBeGreaterThan(silenceSecondsMax);
  });
});

describe('a server is given more time to stop than it takes:', () => {
  it.each([
    ['compose.yaml', /stop_grace_period: (\d+)s\n {2}read_only/],
    ['stoa.service', /TimeoutStopSec=(\d+)s/],
    ['kubernetes.yaml', /terminationGracePeriodSeconds: (\d+)/],
  ])('%s', (file, period) => {
    const [, seconds] = period.exec(read(file)) ?? [];
    expect(Number(seconds)).toBeGreaterThan(limitDefinitions.stopSecondsMax.default);
  });
});

it('every variable in a file is a setting', () => {
  const known = new Set(settingNames.map(variableOf));
  for (const file of readdirSync(directory)) {
    const named = new Set(read(file).match(/\bSTOA_[A-Z_]+/g) ?? []);
    expect(
      [...named].filter((name) => !known.has(name)),
      file,
    ).toEqual([]);
  }
});
