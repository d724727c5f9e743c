/** Messaging on PostgreSQL and Redis: one step is one write, after a check of the lease. */
import { expect, it } from 'vitest';
import { RedisStep, RedisWriter } from '../../../../src/homes/postgres/messaging/writer.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { StoaError } from '../../../../src/core/errors.js';

const caller = operatorCaller('ada');

it('runs one step, shows its result and acts after it', async () => {
  const acted: number[] = [];
  const writer = new RedisWriter(() => undefined);
  const step = new RedisStep(async () => 1).map((one) => one + 1).after((two) => acted.push(two));
  expect(await writer.write({ caller }, [step])).toEqual([2]);
  expect(acted).toEqual([2]);
});

it('refuses what needs a transaction before anything happens', async () => {
  let ran = 0;
  const writer = new RedisWriter(() => undefined);
  const step = new RedisStep(async () => {
    ran += 1;
  });
  const idempotency = { scope: 'ada', key: 'k', fingerprint: 'f', seconds: 60 };
  for (const late of [
    writer.write({ caller }, [step, step]),
    writer.write({ caller, checks: [step] }, [step]),
    writer.write({ caller, idempotency }, [step]),
  ])
    await expect(late).rejects.toMatchObject({ code: 'unsupported' });
  expect(ran).toBe(0);
});

it('does not run the step of a caller whose lease passed to another holder', async () => {
  let ran = 0;
  const writer = new RedisWriter(() => {
    throw new StoaError('fenced', 'The lease has passed on.');
  });
  const step = new RedisStep(async () => (ran += 1));
  await expect(writer.write({ caller }, [step])).rejects.toMatchObject({ code: 'fenced' });
  expect(ran).toBe(0);
});
