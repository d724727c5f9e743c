/** A namespace that is taken out of the search: `index: false` in its settings. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { FindPage } from '../../src/find/answers.js';
import type { StoaOptions } from '../../src/index.js';
import { Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';

const alice = operatorCaller('alice');
const scope = { user: 'alice', namespace: 'quiet' };

function namespacesOf({ items }: FindPage) {
  return [...new Set(items.map(({ namespace }) => namespace))].toSorted();
}

describe.each(['lmdb', 'rocksdb', 'PostgreSQL'] as const)('a namespace without an index on %s', (home) => {
  let directory: string;
  let options: Partial<StoaOptions>;
  let server: Running;
  // Scores depend on the age of things, so the clock stands still.
  const nowMs = Date.now();
  const start = async (): Promise<void> => {
    server = await Running.start({ ...options, clock: () => nowMs, sweepIntervalMs: 200 });
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-unindexed-'));
    options =
      home === 'PostgreSQL' ? (await sharedHome()).options : { data: join(directory, home), engine: home };
    await start();
    const set = Object.fromEntries(
      Array.from({ length: 200 }, (_, at) => [
        `filed-${at}`,
        `${at % 20 === 0 ? 'otter' : 'heron'} ${at % 7} reed`,
      ]),
    );
    for (const namespace of ['quiet', 'loud']) await server.stoa.data.batch(alice, namespace, { set });
    await server.stoa.find.port.reindex({ user: 'alice', namespace: null }, () => undefined);
    for (const namespace of ['quiet', 'loud'])
      await server.stoa.data.set(alice, namespace, 'waiting', 'otter waiting');
  });
  afterAll(async () => {
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const configure = async (index: boolean): Promise<void> => {
    const reply = await server.ask('PATCH', '/v1/namespaces/quiet', { as: server.alice, body: { index } });
    expect(reply.json, reply.text).toMatchObject({ index, embed: false });
  };
  const search = async (query = ''): Promise<FindPage> => {
    const reply = await server.ask('GET', `/v1/find?q=otter&limit=100${query}`, { as: server.alice });
    expect(reply.status, reply.text).toBe(200);
    return reply.json as unknown as FindPage; // The schema of the operation says so.
  };
  /** Waits for the work that a change of the settings began, and proves that index and documents are equal. */
  const expectFiled = async (): Promise<void> => {
    await server.stoa.find.port.reindex(scope, () => undefined);
    expect((await server.stoa.operations.examine(false)).findings).toEqual([]);
  };

  let before: FindPage;
  beforeEach(async () => {
    before = await search();
    expect(namespacesOf(before)).toEqual(['loud', 'quiet']);
  });
  afterEach(async () => {
    await configure(true);
    await expectFiled();
    expect(await search()).toEqual(before);
  });

  it('is skipped by the next search, as if its documents did not exist', async () => {
    const alone = await search('&namespace=loud');
    await configure(false);
    expect(await search()).toEqual(alone);
    expect(await search('&namespace=quiet')).toMatchObject({ items: [], examined_all: true });
    await server.stoa.data.set(alice, 'quiet', 'new', 'otter again');
    expect(await search()).toEqual(alone);
    await server.stoa.data.delete(alice, 'quiet', 'new');
    const filtered = await server.ask('POST', '/v1/find', {
      as: server.alice,
      body: { namespace: 'quiet', filter: {}, limit: 3 },
    });
    expect((filtered.json as unknown as FindPage).items).toHaveLength(3);
  });

  it('comes back in the background, and a search says until then that it may have found too little', async () => {
    const whole = await search('&namespace=quiet');
    await configure(false);
    await expectFiled();
    await configure(true);
    let page = await search('&namespace=quiet');
    while (!page.examined_all) page = await search('&namespace=quiet');
    expect(page).toEqual(whole);
    // Other namespaces are not concerned.
    await configure(false);
    await configure(true);
    expect(await search('&namespace=loud')).toMatchObject({ examined_all: true });
  });

  it('leaves the index, and has no finding before, while and after it leaves', async () => {
    await configure(false);
    expect((await server.stoa.operations.examine(false)).findings).toEqual([]);
    await expectFiled();
    // Nothing is left to remove: the work that the change began has removed it.
    const report = await server.stoa.find.port.reindex(scope, () => undefined);
    expect(report.removed).toBe(0);
  });

  it('is right when its settings change again and again while it is filed', async () => {
    const running = server.stoa.find.port.reindex(scope, () => undefined);
    for (const index of [false, true, false, true, false]) await configure(index);
    await running;
    await expectFiled();
    expect(namespacesOf(await search())).toEqual(['loud']);
  });

  it('leaves the index after a restart, if the server stopped right after the change', async () => {
    await configure(false);
    await server.stop();
    await start();
    await expectFiled();
    expect(namespacesOf(await search())).toEqual(['loud']);
  });

  it('cannot have vectors', async () => {
    await configure(false);
    const { namespaceSettings } = server.stoa;
    await expect(namespaceSettings.change(alice, 'quiet', { embed: true })).rejects.toThrow();
    expect(await namespaceSettings.read(alice, 'quiet')).toEqual({
      index: false,
      embed: false,
      embed_fields: null,
    });
  });
});
