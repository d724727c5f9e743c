/** Writes of the data store as steps: several in one write, with checks. */
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DirectoryDataStore } from '../../src/homes/directory/datastore/datastore.js';
import { operatorCaller } from '../../src/core/caller.js';
import type { Writer } from '../../src/core/write.js';
import type { Documents } from '../../src/datastore/port.js';
import { DataService } from '../../src/datastore/service.js';
import { DirectoryWriter } from '../../src/homes/directory/writer.js';
import { openKernel } from '../../src/homes/directory/kernel/open-kernel.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { openData } from '../homes/postgres/open-domains.js';
import { sharedPostgres } from '../servers/shared.js';

const limits = limitsWith();

const homes: Readonly<Record<string, () => Promise<Documents & { close?: () => Promise<void> }>>> = {
  'the directory': async () => {
    const kernel = await openKernel({
      dataDir: 'unused',
      engine: 'memory',
      families: directoryFamilies,
      limits,
    });
    const port = new DirectoryDataStore({ kernel });
    return { port, writer: new DirectoryWriter(kernel), close: () => kernel.close() };
  },
  PostgreSQL: async () => {
    const { port, writer } = await openData((await sharedPostgres()).url, { limits, nowMs: Date.now });
    return { port, writer };
  },
};

describe.each(Object.entries(homes))('in %s', (name, open) => {
  const caller = operatorCaller(`steps-${process.pid}-${name}`, 'writer');
  let data: DataService;
  let writer: Writer;
  let close: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    const opened = await open();
    ({ writer, close } = opened);
    data = new DataService({ port: opened.port, writer, limits });
  });
  afterAll(async () => {
    await data.close();
    await close?.();
  });

  test('several steps are one write, and each sees the result of the step before', async () => {
    const { steps } = data;
    const results = await writer.write({ caller, checks: [steps.requireVersion(caller, 'n', 'a', 0)] }, [
      steps.set(caller, 'n', 'a', 1),
      steps.increment(caller, 'n', 'a', 2),
      steps.append(caller, 'n', 'list', ['x']).map(({ version, sizeBytes }) => ({ version, sizeBytes })),
      steps.delete(caller, 'n', 'missing'),
    ]);
    expect(results).toMatchObject([
      { version: 1 },
      { version: 2, value: 3 },
      { version: 1, sizeBytes: 5 },
      false,
    ]);
    expect(await data.get(caller, 'n', 'a')).toBe(3);
  });

  test('a step that is refused undoes the ones before it, and nothing happens after', async () => {
    const { steps } = data;
    const seen: string[] = [];
    const refused: unknown[] = [];
    await expect(
      writer.write(
        {
          caller,
          onRefused: (part, error) => {
            refused.push(part);
            return error;
          },
        },
        [
          steps.set(caller, 'undone', 'a', 1).after(() => void seen.push('a')),
          steps.set(caller, 'undone', 'b', 1, { ifVersion: 4 }),
        ],
      ),
    ).rejects.toMatchObject({ code: 'version_conflict' });
    expect(refused).toEqual([{ part: 'step', index: 1 }]);
    expect(seen).toEqual([]);
    expect(await data.get(caller, 'undone', 'a')).toBeUndefined();
    await writer.write({ caller }, [steps.set(caller, 'undone', 'a', 1).after(() => void seen.push('a'))]);
    expect(seen).toEqual(['a']);
  });

  test('a check of a version that does not hold refuses the write', async () => {
    const { steps } = data;
    await data.set(caller, 'checked', 'a', 1);
    const write = (version: number) =>
      writer.write({ caller, checks: [steps.requireVersion(caller, 'checked', 'a', version)] }, [
        steps.increment(caller, 'checked', 'count'),
      ]);
    await expect(write(2)).rejects.toMatchObject({
      code: 'version_conflict',
      message: 'The document "a" in "checked" has version 1; version 2 was expected.',
    });
    await expect(write(0)).rejects.toMatchObject({ code: 'version_conflict' });
    expect(await data.get(caller, 'checked', 'count')).toBeUndefined();
    expect(await write(1)).toMatchObject([{ value: 1 }]);
  });

  test('writes that cross each other in several steps all succeed', async () => {
    const { steps } = data;
    const [there, back] = [
      ['a', 'b'],
      ['b', 'a'],
    ];
    await Promise.all(
      Array.from({ length: 32 }, (_, index) =>
        writer.write(
          { caller },
          ((index % 2 === 0 ? there : back) ?? []).map((key) => steps.increment(caller, 'crossing', key)),
        ),
      ),
    );
    expect(await data.getMany(caller, 'crossing', ['a', 'b'])).toEqual({ a: 32, b: 32 });
  });
});
