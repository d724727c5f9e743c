import { kernelOf } from '../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MemoryDataStore } from '../../src/stores/memory/datastore.js';
import { operatorCaller } from '../../src/core/caller.js';
import type { BatchResult, WriteBatch } from '../../src/datastore/port.js';
import type { Scope } from '../../src/datastore/model.js';
import { DataService } from '../../src/datastore/service.js';
import { storeDocuments } from '../../src/datastore/document-store/documents.js';
import { StoaError } from '../../src/core/errors.js';
import { DirectoryStoreNotes } from '../../src/homes/directory/store-notes.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import { sharedHome } from '../servers/shared.js';

const ada = operatorCaller('ada', 'writer');

const keyed = (key: string, fingerprint = 'same') => ({ scope: 'ada', key, fingerprint, seconds: 60 });

const directory = { data: 'unused', engine: 'memory' } as const;
const places: Readonly<Record<string, () => Promise<StoaOptions>>> = {
  'the directory': async () => directory,
  PostgreSQL: async () => (await sharedHome()).options,
  'a store beside the directory': async () => ({ ...directory, datastore: 'memory://' }),
};

describe.each(Object.entries(places))('in %s', (name, placeOf) => {
  let stoa: Stoa;
  const user = operatorCaller(`user-${process.pid}-${name}`, 'writer');

  const open = async (limits: Partial<Limits> = {}): Promise<Stoa> =>
    openStoa({ ...(await placeOf()), limits });

  beforeAll(async () => {
    stoa = await open();
  });
  afterAll(() => stoa.close());

  test('a repeated batch gets the first answer, including its reads, and does not run again', async () => {
    const request = { set: { a: 1 }, delete: ['gone'], get: ['a', 'missing'] };
    const first = await stoa.data.batch(user, 'once', request, keyed(`${name} k1`));
    expect(first).toEqual({ set: { a: { version: 1 } }, values: { a: 1 }, deleted: 0 });
    await stoa.data.set(user, 'once', 'a', 'later');
    expect(await stoa.data.batch(user, 'once', request, keyed(`${name} k1`))).toEqual(first);
    expect((await stoa.data.getEntry(user, 'once', 'a'))?.version).toBe(2);
    await expect(
      stoa.data.batch(user, 'once', { set: { a: 2 } }, keyed(`${name} k1`, 'other')),
    ).rejects.toMatchObject({ code: 'idempotency_mismatch' });
  });

  test('ten requests at once under one key get one answer', async () => {
    const idempotency = keyed(`${name} k2`);
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => stoa.data.increment(user, 'once', 'count', 1, { idempotency })),
    );
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(answers[0]).toMatchObject({ value: 1, version: 1 });
    expect(await stoa.data.get(user, 'once', 'count')).toBe(1);
  });

  test('a refused write changes nothing and does not use up its key', async () => {
    const idempotency = keyed(`${name} k3`);
    await expect(stoa.data.set(user, 'once', 'c', 1, { ifVersion: 7, idempotency })).rejects.toMatchObject({
      code: 'version_conflict',
    });
    expect(await stoa.data.get(user, 'once', 'c')).toBeUndefined();
    expect(await stoa.data.set(user, 'once', 'c', 1, { idempotency })).toMatchObject({ version: 1 });
  });

  test('a repeated deletion returns the first answer, and a new document keeps its read counts', async () => {
    const idempotency = keyed(`${name} k4`);
    await stoa.data.set(user, 'once', 'd', 1);
    expect(await stoa.data.delete(user, 'once', 'd', { idempotency })).toBe(true);
    await stoa.data.set(user, 'once', 'd', 2);
    await stoa.data.get(user, 'once', 'd');
    expect(await stoa.data.delete(user, 'once', 'd', { idempotency })).toBe(true);
    expect((await stoa.data.getEntry(user, 'once', 'd'))?.accessCount).toBe(1);
  });
});

describe.each(['the directory', 'PostgreSQL'])('what is kept in %s', (name) => {
  const open = async (limits: Partial<Limits>): Promise<Stoa> =>
    openStoa({ ...(await places[name]?.()), limits });
  const user = operatorCaller(`kept-${process.pid}-${name}`);

  test('an answer over the limit refuses the request before anything is written', async () => {
    const stoa = await open({ idempotencyAnswerBytesMax: 2_000 });
    await stoa.data.set(user, 'n', 'list', ['x'.repeat(3_000)]);
    await expect(
      stoa.data.append(user, 'n', 'list', [1], { idempotency: keyed(`${name} large`) }),
    ).rejects.toMatchObject({ code: 'too_large', details: { idempotencyAnswerBytesMax: 2_000 } });
    expect((await stoa.data.getEntry(user, 'n', 'list'))?.version).toBe(1);
    await stoa.close();
  });

  test("answers count against their user's bytes, for the answer and for later documents", async () => {
    const stoa = await open({ dataBytesPerUserMax: 10_000 });
    const owner = operatorCaller(`${user.user}-quota`);
    await stoa.data.set(owner, 'n', 'list', 'x'.repeat(4_000));
    const read = { set: { small: 1 }, get: ['list'] };
    await stoa.data.batch(owner, 'n', read, keyed(`${name} one`));
    expect((await stoa.data.port.usage(owner.user)).sizeBytes).toBeGreaterThan(8_000);
    await expect(stoa.data.batch(owner, 'n', read, keyed(`${name} two`))).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
    expect((await stoa.data.getEntry(owner, 'n', 'small'))?.version).toBe(1);
    await expect(stoa.data.set(owner, 'n', 'more', 'x'.repeat(2_000))).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
    await stoa.close();
  });
});

describe('in a store beside the directory', () => {
  /** It stops answering after it has written. */
  class Failing extends MemoryDataStore {
    fails = false;

    override async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
      const result = await super.write(scope, batch);
      if (this.fails) throw new StoaError('backend_unavailable', 'The answer was lost.');
      return result;
    }
  }

  test('a request whose outcome is not known is refused when it comes again, also after a restart', async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-unknown-'));
    const options = { data, engine: 'lmdb' as const };
    const store = new Failing({ limits: limitsWith() });
    const serviceIn = (stoa: Stoa): DataService => {
      const { limits } = stoa;
      const notes = new DirectoryStoreNotes(kernelOf(stoa));
      return new DataService({ ...storeDocuments(store, limits, { notes }), limits });
    };
    const first = await openStoa(options);
    store.fails = true;
    const idempotency = keyed('unknown');
    await expect(serviceIn(first).increment(ada, 'n', 'count', 1, { idempotency })).rejects.toMatchObject({
      code: 'backend_unavailable',
    });
    store.fails = false;
    await first.close();
    const second = await openStoa(options);
    await expect(serviceIn(second).increment(ada, 'n', 'count', 1, { idempotency })).rejects.toMatchObject({
      code: 'idempotency_unrepeatable',
      message: expect.stringContaining('unknown whether') as string,
    });
    expect(await serviceIn(second).get(ada, 'n', 'count')).toBe(1);
    await second.close();
    await rm(data, { recursive: true });
  });

  test('a large answer is kept as a short record, because the write cannot be undone', async () => {
    const stoa = await openStoa({
      data: 'unused',
      engine: 'memory',
      datastore: 'memory://',
      limits: { idempotencyAnswerBytesMax: 500 },
    });
    const idempotency = keyed('large');
    const append = () => stoa.data.append(ada, 'n', 'list', ['x'.repeat(600)], { idempotency });
    expect(await append()).toMatchObject({ version: 1 });
    await expect(append()).rejects.toMatchObject({ code: 'idempotency_unrepeatable' });
    expect((await stoa.data.getEntry(ada, 'n', 'list'))?.version).toBe(1);
    await stoa.close();
  });
});

test('actions after a write run once it is durable, and not after a refusal', async () => {
  const stoa = await openStoa({ data: 'unused', engine: 'memory' });
  const forget = vi.spyOn(stoa.data.tracker, 'forget');
  await stoa.data.set(ada, 'n', 'a', 1);
  await expect(stoa.data.delete(ada, 'n', 'a', { ifVersion: 9 })).rejects.toMatchObject({
    code: 'version_conflict',
  });
  expect(forget).not.toHaveBeenCalled();
  await stoa.data.delete(ada, 'n', 'a');
  expect(forget).toHaveBeenCalledOnce();
  await stoa.close();
});
