/** The notes of writes of a store beside the home: what they repair without a restart, and when they go. */
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type ErrorCode, StoaError } from '../../src/core/errors.js';
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
  /** The error of a write that the store does all the same. */
  losesAnswers: ErrorCode | null;
  isAway: boolean;
  afterRead: () => Promise<void>;
}

function faultyStore(): FaultyStore {
  const memory = new MemoryDataStore({ limits: limitsWith(), nowMs: Date.now });
  const [write, getMany] = [memory.write.bind(memory), memory.getMany.bind(memory)];
  const faulty: FaultyStore = {
    store: memory,
    losesAnswers: null,
    isAway: false,
    afterRead: async () => undefined,
  };
  const check = (): void => {
    if (faulty.isAway) throw new StoaError('backend_unavailable', 'The store is away.');
  };
  faulty.store.write = async (scope, batch) => {
    check();
    const result = await write(scope, batch);
    if (faulty.losesAnswers !== null) throw new StoaError(faulty.losesAnswers, 'The answer was lost.');
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
  // A service that still runs would take the notes of the next test, and look for its documents in another store.
  afterEach(async () => {
    for (const service of services.splice(0)) await service.close();
    for (const stoa of stoas.splice(0)) await stoa.close();
    failures.length = 0;
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

  test.each<{ how: string; code: ErrorCode; namespace: string }>([
    { how: 'was lost', code: 'backend_unavailable', namespace: 'lost' },
    { how: 'did not come before the store was closed', code: 'closed', namespace: 'closed' },
  ])('a write whose answer $how is filed and announced later', async ({ code, namespace }) => {
    const stoa = await stoaAt();
    const store = faultyStore();
    const data = dataOf(stoa, store);
    data.start();
    store.losesAnswers = code;
    await expect(data.set(ada, namespace, 'a', 'walrus')).rejects.toMatchObject({ code });
    store.isAway = true;
    expect(await wordKeys(stoa, namespace)).toEqual([]);
    await eventually(() => expect(failures).not.toEqual([]));
    store.isAway = false;
    await eventually(async () => expect(await stoa.home.storeNotes.countNotes()).toBe(0));
    expect(await wordKeys(stoa, namespace)).toEqual(['a']);
    // On PostgreSQL a commit is in the feed once it is numbered, shortly after.
    await eventually(async () =>
      expect((await stoa.changes.read(ada, { namespace })).items).toMatchObject([
        { kind: 'document.set', id: `${namespace}/a`, version: 1, agent: 'scribe' },
      ]),
    );
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
