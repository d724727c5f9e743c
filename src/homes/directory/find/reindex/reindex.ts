/**
 * Files everything again, in steps, while the server works. The names of all records are marked and filed,
 * page by page; then entries that have no record are marked. A marked thing is found by its record, so
 * searches miss nothing. How far it came is stored, so it continues after a crash.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  CurrentDocument,
  CurrentDocuments,
} from '../../../../datastore/document-store/current-documents.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import { JoinedWork } from '../../../../find/joined-work.js';
import type { OnReindexed, ReindexReport, ReindexScope } from '../../../../find/port.js';
import type { Catalog } from '../../../../find/segments/catalog.js';
import { userKey } from '../../../../identity/user-key.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import { blocksOf, dropSegment } from '../filing/filing.js';
import { type FilingWork, partitionsIn } from '../filing/work.js';
import { markEntry } from '../filing/marks.js';
import { type PlacedName, countRows, namedKinds, readNames } from '../names.js';
import { addBlock, noFingerprints } from '../../../../find/examine/fingerprints.js';
import { BegunAgain, type Progress, ReindexRow, isNotBegun, reindexedScopes, scopeOf } from './rows.js';
import { findFamilies } from '../rows.js';
import { type SegmentReader, readSegments } from '../segments.js';
import type { EntrySources } from '../sources.js';
import { decodeStoreEntry, putStoreEntries } from '../store-entries.js';

export interface ReindexOptions {
  readonly kernel: Kernel;
  readonly segments: SegmentReader;
  readonly sources: EntrySources;
  readonly work: FilingWork;
  /** The documents of a store beside the directory; null if the directory has the documents. */
  readonly current: () => CurrentDocuments | null;
  readonly onError: (error: unknown, about: string) => void;
}

/** Names that are marked in one transaction, and then filed. */
const namesPerStep = 256;
const rowsPerCount = 2_000;
/** The pause after a job failed. */
const retryMs = 5_000;

export class Reindexing {
  readonly #options: ReindexOptions;
  readonly #jobs = new JoinedWork<ReindexReport>();
  readonly #stops: (() => void)[] = [];
  /** The scopes that `#finish` is at work on. */
  readonly #finishing = new Set<string>();
  readonly #closing = new AbortController();

  constructor(options: ReindexOptions) {
    this.#options = options;
  }

  /** Continues what a crash or a stop interrupted, and begins what follows from changed settings. */
  start(): void {
    for (const store of this.#options.kernel.stores) {
      const stop = store.onWritten((writes) => {
        for (const { family, key, value } of writes)
          if (family === findFamilies.reindex && isNotBegun(value)) void this.#finish(scopeOf(key));
      });
      this.#stops.push(stop);
      for (const scope of reindexedScopes(store)) void this.#finish(scope);
    }
  }

  run({ user, namespace }: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport> {
    const scope: ReindexScope = { user, namespace };
    return this.#jobs.run(JSON.stringify(scope), onProgress, (onStep) => this.#run(scope, onStep));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const stop of this.#stops) stop();
    await this.#jobs.ended();
  }

  /** Until it is done, or the server stops. */
  async #finish(scope: ReindexScope): Promise<void> {
    const { kernel, work, onError } = this.#options;
    const name = JSON.stringify(scope);
    if (this.#finishing.has(name)) return;
    this.#finishing.add(name);
    // Again, if the row was written while an earlier job ended.
    do
      try {
        await this.run(scope, () => undefined);
      } catch (error) {
        if (work.isClosed) break;
        onError(error, 'filing everything again for the search; it is tried again');
        await sleep(retryMs, undefined, { ref: false, signal: this.#closing.signal }).catch(() => undefined);
      }
    while (!work.isClosed && new ReindexRow(kernel, scope).exists);
    this.#finishing.delete(name);
  }

  async #run(scope: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport> {
    for (;;)
      try {
        return await this.#pass(new ReindexRow(this.#options.kernel, scope), scope, onProgress);
      } catch (error) {
        if (!(error instanceof BegunAgain)) throw error;
      }
  }

  async #pass(row: ReindexRow, scope: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport> {
    const { kernel } = this.#options;
    const stores = scope.user === null ? kernel.stores : [kernel.storeOf(userKey(scope.user))];
    let progress = await this.#begin(row, scope, stores);
    onProgress(progress);
    while (progress.kind === 'store') {
      progress = await this.#enterPage(scope, progress);
      await row.save(progress);
      onProgress(progress);
    }
    let removed = 0;
    for (
      ;
      progress.shard < stores.length;
      progress = { ...progress, shard: progress.shard + 1, kind: 'data' }
    ) {
      const store = stores[progress.shard] as Store;
      await this.#dropUnreadable(store, scope);
      const first: number = progress.kind === 'store' ? 0 : namedKinds.indexOf(progress.kind);
      for (const kind of namedKinds.slice(first)) {
        if (progress.kind !== kind) progress = { ...progress, kind, after: null };
        do {
          this.#checkOpen();
          const after = progress.after === null ? undefined : Buffer.from(progress.after, 'hex');
          const page = readNames(store, kind, scope, after, namesPerStep);
          if (kind === 'entries') await this.#compareEntries(store, page.names);
          await this.#fileAgain(store, page.names);
          progress = {
            ...progress,
            done: progress.done + page.names.length,
            after: page.after?.toString('hex') ?? null,
          };
          await row.save(progress);
          onProgress({ done: progress.done, total: Math.max(progress.total, progress.done) });
        } while (progress.after !== null);
      }
      removed += await this.#removeEntries(store, scope);
    }
    await row.remove();
    return { filed: progress.done, removed };
  }

  #checkOpen(): void {
    // The stored progress stays, and the next start continues.
    if (this.#options.work.isClosed) throw new Error('The server is stopping; the next start continues.');
  }

  async #begin(row: ReindexRow, scope: ReindexScope, stores: readonly Store[]): Promise<Progress> {
    const { kernel, current } = this.#options;
    const shards = kernel.stores.length;
    const stored = row.read();
    if (stored?.shards === shards) return stored;
    const slices = new Slices();
    let total = 0;
    for (const store of stores)
      for (const kind of namedKinds) {
        let after: Buffer | undefined;
        do {
          const page = countRows(store, kind, scope, after, rowsPerCount);
          total += page.count;
          ({ after } = page);
          await slices.pause();
        } while (after !== undefined);
      }
    const kind = current() === null ? 'data' : 'store';
    const progress: Progress = { total, done: 0, shards, shard: 0, kind, after: null };
    await row.save(progress);
    return progress;
  }

  /** Enters the words of the next documents of the store: other programs write there too. */
  async #enterPage(scope: ReindexScope, progress: Progress): Promise<Progress> {
    this.#checkOpen();
    const current = this.#options.current();
    if (current === null) return { ...progress, kind: 'data', after: null };
    const { names, after } = await current.page(scope, progress.after);
    await current.pass(names, (documents) => this.#putEntries(documents));
    return {
      ...progress,
      total: progress.total + names.length,
      done: progress.done + names.length,
      kind: after === null ? 'data' : 'store',
      after,
    };
  }

  /** Documents that the store no longer has get no words. */
  async #compareEntries(store: Store, names: readonly PlacedName[]): Promise<void> {
    const known = names.flatMap(({ partition, name: { collection: namespace, id: key } }) => {
      const rowKey = Buffer.concat([partition, Buffer.from(`${namespace}\0${key}`)]);
      const row = store.get(findFamilies.entries, rowKey);
      return row === undefined ? [] : [{ user: decodeStoreEntry(rowKey, row).user, namespace, key }];
    });
    const current = this.#options.current();
    if (current === null) await this.#putEntries(known.map((name) => ({ ...name, record: undefined })));
    else await current.pass(known, (documents) => this.#putEntries(documents));
  }

  async #putEntries(documents: readonly CurrentDocument[]): Promise<void> {
    const { kernel } = this.#options;
    for (const user of new Set(documents.map((document) => document.user)))
      await kernel.storeOf(userKey(user)).transact((tx) =>
        putStoreEntries(
          tx,
          documents.filter((document) => document.user === user),
        ),
      );
  }

  async #fileAgain(store: Store, names: readonly PlacedName[]): Promise<void> {
    if (names.length === 0) return;
    await store.transact((tx) => {
      for (const { partition, name } of names) markEntry(tx, partition, name);
    });
    const partitions = new Map(names.map(({ partition }) => [partition.toString('hex'), partition]));
    for (const partition of partitions.values()) await this.#file(store, partition);
  }

  async #file(store: Store, partition: Buffer): Promise<void> {
    const { work } = this.#options;
    while ((await work.file(store, partition)).isMore) this.#checkOpen();
    while (await work.merge(store, partition)) this.#checkOpen();
  }

  #partitions(store: Store, { user }: ReindexScope): Iterable<Buffer> {
    return user === null ? partitionsIn(store, findFamilies.segments) : [userKey(user)];
  }

  /** Searches fail on such a segment, and so would filing. Its things are marked after it. */
  async #dropUnreadable(store: Store, scope: ReindexScope): Promise<void> {
    const { segments } = this.#options;
    const slices = new Slices();
    for (const partition of this.#partitions(store, scope))
      for (const row of readSegments(store, partition)) {
        const { segment, state } = row;
        if (state === 'partial') continue;
        try {
          const sums = noFingerprints(segments.open(store, partition, row).catalog.count);
          for await (const block of blocksOf(store, partition, segment)) {
            addBlock(sums, block);
            await slices.pause();
          }
        } catch (error) {
          if (!(error instanceof RangeError)) throw error;
          await store.transact((tx) => dropSegment(tx, partition, segment));
        }
      }
  }

  /** Marks entries whose record does not exist, until every segment was read. */
  async #removeEntries(store: Store, scope: ReindexScope): Promise<number> {
    const { segments, sources } = this.#options;
    const slices = new Slices();
    let removed = 0;
    for (const partition of this.#partitions(store, scope)) {
      const seen = new Set<number>();
      for (;;) {
        const row = readSegments(store, partition).find(
          ({ segment, state }) => state === 'whole' && !seen.has(segment),
        );
        if (row === undefined) break;
        seen.add(row.segment);
        const { catalog } = segments.open(store, partition, row);
        const dead = segments.dead(store, partition, row.segment);
        const gone: PlacedName[] = [];
        const [from, to] = reindexedPlaces(catalog, scope);
        for (let place = from; place < to; place += 1) {
          await slices.pause();
          if (dead.has(place)) continue;
          const name = catalog.name(place);
          if (sources[name.kind](store, partition, name, store.nowMs()) === undefined)
            gone.push({ partition, name });
        }
        removed += gone.length;
        for (let at = 0; at < gone.length; at += namesPerStep)
          await this.#fileAgain(store, gone.slice(at, at + namesPerStep));
        this.#checkOpen();
      }
    }
    return removed;
  }
}

/** The places of the entries in the scope: from the first up to, and without, the second. */
function reindexedPlaces({ count, ranges }: Catalog, { namespace }: ReindexScope): [number, number] {
  if (namespace === null) return [0, count];
  const range = ranges.find(({ kind, collection }) => kind === 'data' && collection === namespace);
  return range === undefined ? [0, 0] : [range.from, range.to];
}
