/** Hostile requests: the server answers, keeps serving others, and loses no acknowledged write. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LimitName, limitDefinitions } from '../../src/core/settings/limits.js';
import { type RunningServer, runningServer } from '../cli/program.js';
import { compiledSources } from '../compiled.js';
import { attack, lostAcknowledgements } from './attack.js';

/** On each engine; `npm run attack` sends more. */
const requests = Number(process.env['ATTACK_REQUESTS'] ?? 2_000);
const seed = Number(process.env['ATTACK_SEED'] ?? 1);
const noLimit = 1_000_000_000;

/** No request reaches a rate limit; records expire during the attack. */
const limits: Partial<Record<LimitName, number>> = {
  ...Object.fromEntries(
    Object.keys(limitDefinitions)
      .filter((name) => /Per(Minute|Hour|User)Max$/.test(name) && !/^(data|mcp|requests)/.test(name))
      .map((name) => [name, noLimit]),
  ),
  messageRetentionSeconds: 3,
  directRetentionSeconds: 3,
  leaseSeconds: 1,
  leaseGraceSeconds: 1,
  taskLeaseSeconds: 1,
  workSessionIdleSeconds: 2,
  idempotencySeconds: 2,
  claimWaitSecondsMax: 1,
  longPollSecondsMax: 1,
};

let directory: string;
const servers: RunningServer[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-attack-'));
});
afterAll(async () => {
  for (const server of servers) await server.end('SIGKILL');
  await rm(directory, { recursive: true, force: true });
});

async function start(engine: string): Promise<RunningServer> {
  const script = fileURLToPath(new URL('server.mjs', import.meta.url));
  const data = join(directory, engine);
  const args = [script, await compiledSources(), engine, data, JSON.stringify(limits)];
  const server = await runningServer(spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] }));
  servers.push(server);
  return server;
}

describe.each(['lmdb', 'rocksdb'] as const)('on %s', (engine) => {
  test('mutated requests cause no fault, no stall, and no loss of what was acknowledged', async () => {
    const server = await start(engine);
    const report = await attack({
      url: server.url,
      operator: server.token,
      pid: server.pid,
      requests,
      seed,
    }).catch((error: unknown) => {
      throw new Error(`The attack ended early: ${String(error)}\n${server.stderr().slice(-3_000)}`, {
        cause: error,
      });
    });
    const { faults, stalls, statuses, longestMs, acknowledged } = report;
    if (process.env['ATTACK_REQUESTS'] !== undefined)
      console.log(engine, {
        requests: report.requests,
        statuses,
        longestMs,
        streams: report.streams,
        acknowledged: acknowledged.size,
        stalls: stalls.length,
      });
    await server.end('SIGKILL');
    const again = await start(engine);
    const lost = await lostAcknowledgements(again.url, report);
    await again.end('SIGTERM');
    expect({ faults, stalls, lost }).toEqual({ faults: [], stalls: [], lost: [] });
    expect(report.streams).toBe(6);
    // Enough of them were valid to pass the checks.
    expect(statuses[200]).toBeGreaterThan(report.requests / 20);
  }, 3_600_000);
});
