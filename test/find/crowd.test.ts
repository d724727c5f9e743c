/** Searches over many documents that were just written. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FindPage } from '../../src/find/answers.js';
import { type Reply, Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { until } from '../until.js';

/** More than a search reads without filing some of them first. */
const batches = 3;
const documentsPerBatch = 1_000;

describe.each(['a data directory', 'PostgreSQL'])('in %s', (home) => {
  let running: Running;
  beforeAll(async () => {
    running = await Running.start(home === 'PostgreSQL' ? (await sharedHome()).options : {});
  });
  afterAll(() => running.stop());

  test('sixteen searches at once find everything that was written before them', async () => {
    for (let batch = 0; batch < batches; batch += 1) {
      const set = Object.fromEntries(
        Array.from({ length: documentsPerBatch }, (_, index) => [
          `note-${batch}-${index}`,
          `common words, and otter${batch}x${index}`,
        ]),
      );
      const written = await running.ask('POST', '/v1/data/notes', { as: running.operator, body: { set } });
      expect(written.status).toBe(200);
    }
    const last = `otter${batches - 1}x${documentsPerBatch - 1}`;
    const searches = [last, last, 'common', 'otter*', `"common words" ${last}`, `common -${last}`];
    while (searches.length < 16) searches.push(`otter0x${searches.length} words`);
    let answers: Reply[] = [];
    await until(async () => {
      const startedMs = performance.now();
      answers = await Promise.all(
        searches.map((q) =>
          running.ask('POST', '/v1/find', { as: running.operator, body: { q, in: ['data'] } }),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual(searches.map(() => 200));
      const examined = answers.map(({ text }) => (JSON.parse(text) as FindPage).examined_all);
      // 3,000 words begin with "otter": more than a beginning stands for.
      expect(examined[3]).toBe(false);
      const isAll = examined.every((all, index) => all || index === 3);
      // On a busy machine a search ends early after ten seconds, says so, and is asked again.
      if (!isAll) expect(performance.now() - startedMs).toBeGreaterThan(10_000);
      return isAll;
    });
    const keys = answers.map(({ json }) => json.items.map(({ key }) => key));
    const newest = `note-${batches - 1}-${documentsPerBatch - 1}`;
    for (const found of [keys[0], keys[1], keys[4]]) expect(found?.[0]).toBe(newest);
    for (const found of [keys[2], keys[3], keys[5]]) expect(found).toHaveLength(10);
    expect(keys[5]).not.toContain(newest);
    for (const [index, found] of keys.entries()) if (index > 5) expect(found[0]).toBe(`note-0-${index}`);
    // They filed the documents together: reading the words of all of them for each search takes longer.
    expect((await running.stoa.find.port.size()).waiting).toBeLessThanOrEqual(2_000);
  });
});
