/** Hostile requests: the server answers, keeps serving others, and loses no acknowledged write. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StoaOptions } from '../../src/index.js';
import { type LimitName, limitDefinitions } from '../../src/core/settings/limits.js';
import { type RunningServer, runningServer } from '../cli/program.js';
import { compiledSources } from '../compiled.js';
import { sharedHome } from '../servers/shared.js';
import { attack, lostAcknowledgements } from './attack.js';
import { eventually } from '../until.js';

/** On LMDB; `npm run attack` sends more. */
const requests = Number(process.env['ATTACK_REQUESTS'] ?? 1_000);
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

async function start(home: Partial<StoaOptions>): Promise<RunningServer> {
  const script = fileURLToPath(new URL('server.mjs', import.meta.url));
  const args = [script, await compiledSources(), JSON.stringify(home), JSON.stringify(limits)];
  const server = await runningServer(spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] }));
  servers.push(server);
  return server;
}

/** What the doctor finds damaged. */
async function findingsOf({ url, token }: RunningServer): Promise<unknown[]> {
  const answer = await fetch(`${url}/v1/doctor`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
  });
  const { findings } = (await answer.json()) as { findings: unknown[] };
  return findings;
}

interface Attacked {
  name: string;
  home(): Promise<Partial<StoaOptions>>;
  /** How many servers of one Stoa are attacked at once. */
  servers: number;
  requests: number;
}

const attacked: readonly Attacked[] = [
  ...(['lmdb', 'rocksdb'] as const).map((engine) => ({
    name: engine,
    home: async () => ({ engine, data: join(directory, engine) }),
    servers: 1,
    // The engines differ only below the kernel.
    requests: engine === 'lmdb' ? requests : Math.ceil(requests / 4),
  })),
  {
    name: 'two servers on PostgreSQL and Redis',
    home: async () => (await sharedHome()).options,
    servers: 2,
    // A request costs more than twice as much here.
    requests: Math.ceil(requests / 2),
  },
];

describe.each(attacked)('on $name', ({ name, home, servers: count, requests: sent }) => {
  test('mutated requests cause no fault, no stall, no damage, and no loss of what was acknowledged', async () => {
    const place = await home();
    const started = await Promise.all(Array.from({ length: count }, () => start(place)));
    const printed = (): string => started.map((server) => server.stderr().slice(-3_000)).join('\n');
    const report = await attack({
      servers: started,
      operator: started[0]?.token ?? '',
      requests: sent,
      seed,
    }).catch((error: unknown) => {
      throw new Error(`The attack ended early: ${String(error)}\n${printed()}`, { cause: error });
    });
    const { faults, stalls, statuses, longestMs, acknowledged } = report;
    if (process.env['ATTACK_REQUESTS'] !== undefined)
      console.log(name, {
        requests: report.requests,
        statuses,
        longestMs,
        streams: report.streams,
        acknowledged: acknowledged.size,
        stalls: stalls.length,
      });
    for (const server of started) await server.end('SIGKILL');
    const again = await start(place);
    const lost = await lostAcknowledgements(again.url, report);
    expect({ faults, stalls, lost }).toEqual({ faults: [], stalls: [], lost: [] });
    // The search index follows records that expire, a little later.
    await eventually(async () => expect(await findingsOf(again)).toEqual([]), 500);
    await again.end('SIGTERM');
    expect(report.streams).toBe(6);
    // Enough of them were valid to pass the checks.
    expect(statuses[200]).toBeGreaterThan(report.requests / 20);
  }, 3_600_000);
});
