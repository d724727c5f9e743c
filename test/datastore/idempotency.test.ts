import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { sharedPostgres } from '../servers/shared.js';

let stoa: Stoa;
const ada = operatorCaller('ada');

beforeAll(async () => {
  const { url } = await sharedPostgres();
  stoa = await openStoa({ data: 'unused', engine: 'memory', datastore: url });
});

afterAll(() => stoa.close());

const keyed = (key: string, fingerprint = 'same') => ({ scope: 'ada', key, fingerprint, seconds: 60 });

test('a repeated batch on a database server is answered again, not done again', async () => {
  const first = await stoa.data.batch(ada, 'once', { set: { a: 1 } }, keyed('k1'));
  const again = await stoa.data.batch(ada, 'once', { set: { a: 1 } }, keyed('k1'));
  expect(again).toEqual(first);
  expect((await stoa.data.getEntry(ada, 'once', 'a'))?.version).toBe(1);
  await expect(stoa.data.batch(ada, 'once', { set: { a: 2 } }, keyed('k1', 'other'))).rejects.toMatchObject({
    code: 'idempotency_mismatch',
  });
});

test('of many at once under one key exactly one is done', async () => {
  const outcomes = await Promise.allSettled(
    Array.from({ length: 10 }, () => stoa.data.batch(ada, 'once', { set: { b: 1 } }, keyed('k2'))),
  );
  expect(outcomes.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(0);
  expect((await stoa.data.getEntry(ada, 'once', 'b'))?.version).toBe(1);
});

test('a refused batch leaves its key free', async () => {
  await expect(stoa.data.batch(ada, 'once', { set: { '': 1 } }, keyed('k3'))).rejects.toMatchObject({
    code: 'invalid_request',
  });
  expect(await stoa.data.batch(ada, 'once', { set: { c: 1 } }, keyed('k3'))).toMatchObject({
    set: { c: { version: 1 } },
  });
});
