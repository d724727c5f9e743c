/**
 * One Stoa on three servers while everything fails: `npm test` runs it for seconds, `npm run test:cluster`
 * for ten minutes. CLUSTER_SEED repeats the plan of an earlier run; CLUSTER_BALANCER=nginx uses
 * nginx instead of HAProxy.
 */
import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtProgram, noteServer } from '../servers/shared.js';
import { Caller } from './caller.js';
import { findViolation } from './checker/linearizable.js';
import { documentModel } from './checker/models.js';
import { type Fleet, startFleet } from './fleet.js';
import { countOf, emptyHistory, useDocuments } from './load.js';
import { Random } from './random.js';
import { type RunResult, runLoad } from './run.js';
import { findFaults } from './verdict.js';

const seed = Number(process.env['CLUSTER_SEED'] ?? randomInt(2 ** 31));
const loadSeconds = Number(process.env['CLUSTER_SECONDS'] ?? 12);
const killEverySeconds = 3;
const balancer = process.env['CLUSTER_BALANCER'] === 'nginx' ? 'nginx' : 'haproxy';
const isLong = process.env['CLUSTER_SECONDS'] !== undefined;

let fleet: Fleet;
let result: RunResult;

beforeAll(
  async () => {
    if (isLong) console.log(`CLUSTER_SEED=${seed}`);
    fleet = await startFleet(await builtProgram(), balancer);
    for (const server of fleet.describe) await noteServer(server);
    const startMs = Date.now();
    result = await runLoad(fleet, {
      seed,
      loadSeconds,
      killEverySeconds,
      say: (phase) => {
        if (isLong) console.log(`${Math.round((Date.now() - startMs) / 1_000)} s: ${phase}`);
      },
    });
    if (isLong) console.log(JSON.stringify(result.summary));
  },
  // Reading and checking what a long run stored takes up to as long as the load.
  (2 * loadSeconds + 180) * 1_000,
);

afterAll(async () => {
  await fleet?.stop();
}, 60_000);

it('keeps every promise while servers are killed and PostgreSQL and Redis restart', () => {
  expect(result.faults, `CLUSTER_SEED=${seed}`).toEqual([]);
});

it('has worked in all four domains, and has failed', () => {
  const { summary } = result;
  for (const [what, count] of Object.entries(summary)) expect(count, what).toBeGreaterThan(0);
});

function faultsWith(change: Partial<RunResult['stored']>): string[] {
  return findFaults(result.history, { ...result.stored, ...change }, result.seen);
}

/** A balancer as none should be: every write arrives two times, and the second answer is given. */
const sentTwice: typeof fetch = async (url, request) => {
  if (request?.method === 'PUT') await (await fetch(url, request)).text();
  return fetch(url, request);
};

it('finds a balancer that sends writes a second time', async () => {
  const history = emptyHistory();
  await useDocuments({
    name: 'twice',
    caller: new Caller(fleet.balancerUrl, fleet.token, 'eve', sentTwice),
    history,
    random: new Random(seed),
    isOver: () => countOf(history.documents) >= 30,
  });
  const isBroken = [...history.documents.values()].map(
    (calls) => findViolation(documentModel, calls) !== undefined,
  );
  expect(isBroken).toContain(true);
});

describe('a fault that is planted in the history is found:', () => {
  it('a lost document', () => {
    const accepted = result.history.notes.find(({ outcome }) => outcome === 'accepted')?.name;
    const notes = result.stored.notes.filter((name) => name !== accepted);
    expect(faultsWith({ notes })).toEqual([`Document "${accepted}" was accepted and is lost.`]);
  });

  it('a write that happened twice', () => {
    const [first] = result.stored.messages;
    const messages = [...result.stored.messages, first ?? ''];
    expect(faultsWith({ messages }).join('\n')).toContain('is stored 2 times');
  });

  it('a write that is undone', () => {
    const [[key, { version, value }]] = [...result.stored.registers] as [
      [string, { version: number; value: string }],
    ];
    const registers = new Map(result.stored.registers).set(key, { version: version - 1, value });
    expect(faultsWith({ registers }).join('\n')).toContain(`Document ${key} is not linearizable`);
  });

  it('a task that ended for somebody else', () => {
    const tasks = result.stored.tasks.map((task, index) =>
      index === 0 ? { ...task, output: 'stolen' } : task,
    );
    expect(faultsWith({ tasks }).join('\n')).toContain('which nobody reported');
  });

  it('a torn commit', () => {
    expect(faultsWith({ commits: result.stored.commits.slice(1) }).join('\n')).toContain('is torn');
  });

  it('two changes that one watcher saw in another order', () => {
    const [[name, changes]] = [...result.seen] as [[string, RunResult['stored']['feed']]];
    const [first, second, ...rest] = changes;
    const seen = new Map(result.seen).set(
      name,
      [second, first, ...rest].filter((change) => change !== undefined),
    );
    expect(findFaults(result.history, result.stored, seen)).toHaveLength(1);
  });
});
