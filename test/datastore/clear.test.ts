/** Clearing a namespace while others write to it. */
import { afterAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { sharedHome } from '../servers/shared.js';
import { until } from '../until.js';

const ada = operatorCaller('ada');
const opened: Stoa[] = [];
afterAll(async () => {
  for (const stoa of opened) await stoa.close();
});

test.each(['a data directory', 'PostgreSQL'])(
  'a document that is written behind a clear keeps its agent, on %s',
  async (home) => {
    const place =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: '', engine: 'memory' as const };
    const stoa = await openStoa({ ...place, limits: { clearStepMax: 1 }, onError: () => undefined });
    opened.push(stoa);
    const { data } = stoa;
    const keys = Array.from({ length: 200 }, (_, index) => `b${1000 + index}`);
    await data.setMany(ada, 'notes', Object.fromEntries(keys.map((key) => [key, 1])));
    const clearing = data.clear(ada, 'notes');
    await until(async () => (await data.get(ada, 'notes', keys[0] ?? '')) === undefined);
    await data.set(operatorCaller('ada', 'late'), 'notes', 'a', 1);
    expect(await clearing).toBe(keys.length);
    expect((await data.listNamespaces(ada)).items).toMatchObject([{ count: 1, agents: ['late'] }]);
    expect((await stoa.operations.examine(false)).findings).toEqual([]);
    expect(await data.clear(ada, 'notes')).toBe(1);
    await data.set(operatorCaller('ada', 'new'), 'notes', 'c', 1);
    expect((await data.listNamespaces(ada)).items).toMatchObject([{ agents: ['new'] }]);
  },
);
