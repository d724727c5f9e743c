/** The notes of writes of a store beside the home: what they repair without a restart, and when they go. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { StoaError } from '../../src/core/errors.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import { storeDocuments } from '../../src/datastore/document-store/documents.js';
import type { DocumentStore } from '../../src/datastore/port.js';
import { DataService } from '../../src/datastore/service.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { MemoryDataStore } from '../../src/stores/memory/datastore.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

const ada = operatorCaller('ada', 'scribe');
const hasty: Partial<Limits> = { backendRequestSecondsMax: 0.1 };

/** A store that can lose its answers, be away, and hold reads. */
interface FaultyStore {
  readonly store: DocumentStore;
  losesAnswers: boolean;
  isAway: boolean;
  afterRead: () => Promise<void>;
}

function faultyStore(): FaultyStore {
  const memory = new MemoryDataStore({ limits: limitsWith(), nowMs: Date.now });
  const [write, getMany] = [memory.write.bind(memory), memory.getMany.bind(memory)];
  const faulty: FaultyStore = {
    store: memory,
    losesAnswers: false,
    isAway: false,
    afterRead: async () => undefined,
  };
  const check = (): void => {
    if (faulty.isAway) throw new StoaError('backend_unavailable', 'The store is away.');
  };
  faulty.store.write = async (scope, batch) => {
    check();
    const result = await write(scope, batch);
    if (faulty.losesAnswers) throw new StoaError('backend_unavailable', 'The answer was lost.');
    return result;
  };
  faulty.store.getMany = async (scope, keys) => {
    check();
    const read = getMany(scope, keys);
    await faulty.afterRead();
    return read;
  };
  return faulty;
}

function wordKeys(stoa: Stoa, namespace: string): Promise<string[]> {
  return stoa.home.storeNotes.wordKeys({ user: 'ada', namespace }, null, null);
}

describe.each(['directory', 'postgres'] as const)('notes in the home %s', (home) => {
  let options: StoaOptions;
  const stoas: Stoa[] = [];
  const services: DataService[] = [];
  const failures: unknown[] = [];
  const onError = (error: unknown): void => void failures.push(error);

  beforeAll(async () => {
    options =
      home === 'postgres' ? (await sharedHome()).options : { data: 'unused', engine: 'memory' as const };
  });
  afterAll(async () => {
    for (const service of services) await service.close();
    for (const stoa of stoas) await stoa.close();
  });

  const stoaAt = async (): Promise<Stoa> => {
    const stoa = await openStoa(options);
    stoas.push(stoa);
    return stoa;
  };
  const dataOf = (stoa: Stoa, { store }: FaultyStore, more: Partial<Limits> = {}): DataService => {
    const limits = limitsWith({ ...hasty, ...more });
    const { storeNotes: notes } = stoa.home;
    const data = new DataService({ ...storeDocuments(store, limits, { notes, onError }), limits });
    services.push(data);
    return data;
  };

  test('a write whose answer was lost is filed and announced as soon as the store answers', async () => {
    const stoa = await stoaAt();
    const store = faultyStore();
    const data = dataOf(stoa, store);
    data.start();
    store.losesAnswers = true;
    await expect(data.set(ada, 'lost', 'a', 'walrus')).rejects.toMatchObject({ code: 'backend_unavailable' });
    store.isAway = true;
    expect(await wordKeys(stoa, 'lost')).toEqual([]);
    await eventually(() => expect(failures).not.toEqual([]));
    store.isAway = false;
    await eventually(async () => expect(await stoa.home.storeNotes.countNotes()).toBe(0));
    expect(await wordKeys(stoa, 'lost')).toEqual(['a']);
    const { items } = await stoa.changes.read(ada, { namespace: 'lost' });
    expect(items).toMatchObject([{ kind: 'document.set', id: 'lost/a', version: 1, agent: 'scribe' }]);
  });

  test('a refused write leaves no note', async () => {
    const stoa = await stoaAt();
    const data = dataOf(stoa, faultyStore());
    await data.set(ada, 'refused', 'a', 'walrus');
    await expect(data.set(ada, 'refused', 'a', 'otter', { ifVersion: 9 })).rejects.toMatchObject({
      code: 'version_conflict',
    });
    await data.delete(ada, 'refused', 'missing');
    expect(await stoa.home.storeNotes.countNotes()).toBe(0);
  });

  test('too many writes with an unknown outcome refuse the next ones, until the store answers', async () => {
    const stoa = await stoaAt();
    const store = faultyStore();
    const data = dataOf(stoa, store, { storeWritesUnknownMax: 3 });
    data.start();
    store.isAway = true;
    const codes: unknown[] = [];
    for (let at = 0; at < 5; at += 1)
      codes.push(
        await data.set(ada, 'many', `k${at}`, at).catch((error: unknown) => (error as StoaError).code),
      );
    expect(codes.slice(0, 3)).toEqual(Array(3).fill('backend_unavailable'));
    expect(codes.at(-1)).toBe('overloaded');
    store.isAway = false;
    await eventually(async () =>
      expect(await data.set(ada, 'many', 'k', 'gannet')).toMatchObject({ version: 1 }),
    );
    await eventually(async () => expect(await stoa.home.storeNotes.countNotes()).toBe(0));
    expect(await wordKeys(stoa, 'many')).toEqual(['k']);
  });

  test('of two servers that write one document at once, the words of the later state stay', async () => {
    if (home === 'directory') return; // It has one server.
    const store = faultyStore();
    const [first, second] = [await stoaAt(), await stoaAt()];
    const [deleting, setting] = [dataOf(first, store), dataOf(second, store)];
    await deleting.set(ada, 'both', 'a', 'walrus');
    let isHeld = false;
    // The first server has read that the document is gone. Before it says so, the second one writes it again.
    store.afterRead = async () => {
      if (isHeld) return;
      isHeld = true;
      await setting.set(ada, 'both', 'a', 'walrus again');
    };
    await deleting.delete(ada, 'both', 'a');
    expect(isHeld).toBe(true);
    expect(await wordKeys(first, 'both')).toEqual(['a']);
    expect(await first.home.storeNotes.countNotes()).toBe(0);
  });
});
