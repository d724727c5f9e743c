/**
 * Many clients change, rename and delete the same few things at once. The doctor finds nothing, neither meanwhile
 * nor afterwards, and no request fails.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type LimitName, limitDefinitions } from '../../src/core/settings/limits.js';
import { allChecks } from '../../src/homes/directory/doctor/doctor.js';
import { examineAll } from '../../src/homes/directory/kernel/inspect/doctor.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { kernelOf } from '../kernel-of.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';
import { FewThings } from './few-things.js';
import { Random } from './random.js';

/** On LMDB, and half as many elsewhere; `npm run attack` sends more, and `FEW_THINGS_SEED` others. */
const requests = Number(process.env['FEW_THINGS_REQUESTS'] ?? 500);
const seed = Number(process.env['FEW_THINGS_SEED'] ?? 1);
const clients = 12;

let directory: string;
const opened: { stoa: Stoa; app: FastifyInstance }[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-few-'));
});
afterEach(async () => {
  for (const { stoa, app } of opened.splice(0)) {
    await stopApp(app, 5);
    await stoa.close();
  }
});
afterAll(() => rm(directory, { recursive: true, force: true }));

/** No request reaches a rate limit; records expire meanwhile. */
const limits: Partial<Record<LimitName, number>> = {
  ...Object.fromEntries(
    Object.keys(limitDefinitions)
      .filter((name) => /Per(Minute|Hour)Max$/.test(name))
      .map((name) => [name, 1_000_000]),
  ),
  leaseSeconds: 1,
  leaseGraceSeconds: 1,
  idempotencySeconds: 2,
  messageRetentionSeconds: 2,
  directRetentionSeconds: 2,
};

async function serve(place: Partial<StoaOptions>): Promise<{ stoa: Stoa; app: FastifyInstance }> {
  const stoa = await openStoa({ limits, ...place, onError: () => undefined });
  const app = createApp(stoa);
  await app.ready();
  const served = { stoa, app };
  opened.push(served);
  return served;
}

const homes: [name: string, servers: number, requests: number, place: () => Promise<Partial<StoaOptions>>][] =
  [
    ...(['lmdb', 'rocksdb'] as const).map((engine): (typeof homes)[number] => [
      engine,
      1,
      engine === 'lmdb' ? requests : Math.ceil(requests / 2),
      async () => ({ engine, data: join(directory, engine) }),
    ]),
    [
      'two servers on PostgreSQL and Redis',
      2,
      Math.ceil(requests / 2),
      async () => (await sharedHome()).options,
    ],
  ];

describe.each(homes)('on %s', (_name, servers, requestsMax, placeOf) => {
  test('requests about the same few things leave no damage', async () => {
    const place = await placeOf();
    const served: Awaited<ReturnType<typeof serve>>[] = [];
    for (let count = 0; count < servers; count += 1) served.push(await serve(place));
    const first = served[0]?.stoa as Stoa;
    const random = new Random(seed);
    const things = new FewThings(random);
    const { token } = await first.identity.createToken(operatorCaller(), 'ada', {}, null);
    const faults: string[] = [];
    let sent = 0;
    let accepted = 0;
    const client = async (): Promise<void> => {
      while (sent < requestsMax && faults.length < 5) {
        sent += 1;
        const { app } = random.of(served);
        const { method, path, body, headers } = things.next();
        const answer = await app.inject({
          method,
          url: path,
          headers: { authorization: `Bearer ${token}`, ...headers },
          ...(body && { payload: body }),
        });
        if (answer.statusCode < 300) {
          accepted += 1;
          things.learn(answer.body);
        } else if (answer.statusCode >= 500) faults.push(`${method} ${path}: ${answer.body}`);
      }
    };
    const over = Promise.all(Array.from({ length: clients }, client));
    const found: unknown[] = [];
    const state = { isOver: false };
    const doctor = (async () => {
      // In PostgreSQL it sees one moment of each table.
      if (servers > 1) return;
      while (!state.isOver) {
        found.push(...(await findingsOf(first)));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await over;
    state.isOver = true;
    await doctor;
    expect({ faults, found: found.slice(0, 10) }).toEqual({ faults: [], found: [] });
    // Enough of them met something that existed.
    expect(accepted).toBeGreaterThan(requestsMax / 4);
    await eventually(async () => expect((await first.operations.examine(false)).findings).toEqual([]), 500);
  }, 900_000);
});

/** What the doctor finds in the directory, without the search index, which follows later. */
async function findingsOf(stoa: Stoa): Promise<unknown[]> {
  const found: unknown[] = [];
  const kernel = kernelOf(stoa);
  for await (const finding of examineAll(kernel.stores, allChecks(kernel))) found.push(finding);
  return found;
}
