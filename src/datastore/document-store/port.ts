/** A store of documents as a port: its writes as steps, its changes made for the feed. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import type { Change } from '../../core/change.js';
import type { Step } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { documentDeleted, documentImported, documentSet, namespaceCleared } from '../changes.js';
import type { DocumentRecord, KeySummary, NamespaceSummary, Scope } from '../model.js';
import {
  type AccessRead,
  type BatchResult,
  type ClearStep,
  type DataBatch,
  type DataBatchResult,
  type DataCapabilities,
  type DataPort,
  type Decide,
  type DocumentStore,
  type ExportPage,
  type KeyRange,
  type MaybePromise,
  type StoredValue,
  type WriteBatch,
  type WriteResult,
  succeeded,
} from '../port.js';
import type { Usage } from '../quota.js';
import { FinalConflict, VersionRetries } from './version-retries.js';

/** One write of the store. The store is not part of the home's transactions, so writes cannot be combined. */
export class StoreStep<Result> implements Step<Result> {
  constructor(
    /** Adds the changes to announce to `changes`. */
    readonly run: (changes: Change[]) => Promise<Result>,
  ) {}

  map<Shown>(show: (result: Result) => Shown): StoreStep<Shown> {
    return new StoreStep(async (changes) => show(await this.run(changes)));
  }

  after(act: (result: Result) => void): StoreStep<Result> {
    return this.map((result) => {
      act(result);
      return result;
    });
  }
}

export class StorePort implements DataPort {
  readonly capabilities: DataCapabilities;
  readonly sweepExpired?: (limit: number) => Promise<number>;
  readonly #store: DocumentStore;
  readonly #retries: VersionRetries;

  constructor(store: DocumentStore, { updateAttemptsMax }: Limits) {
    this.#store = store;
    this.capabilities = store.capabilities;
    this.#retries = new VersionRetries(updateAttemptsMax);
    const sweep = store.sweepExpired?.bind(store);
    if (sweep !== undefined) this.sweepExpired = sweep;
  }

  get(scope: Scope, key: string): MaybePromise<DocumentRecord | undefined> {
    return this.#store.get(scope, key);
  }

  getValue(scope: Scope, key: string): MaybePromise<StoredValue | undefined> {
    return this.#store.get(scope, key);
  }

  getMany(scope: Scope, keys: readonly string[]): MaybePromise<(DocumentRecord | undefined)[]> {
    return this.#store.getMany(scope, keys);
  }

  write(scope: Scope, batch: DataBatch): StoreStep<DataBatchResult> {
    return new StoreStep(async (changes) => {
      const result = await this.#write(scope, batch, changes);
      const read = batch.gets.length === 0 ? [] : await this.#store.getMany(scope, batch.gets);
      return { ...result, read: read.filter((record) => record !== undefined) };
    });
  }

  modify(scope: Scope, key: string, decide: Decide): StoreStep<WriteResult> {
    return new StoreStep((changes) =>
      this.#retries.run(scope, key, async () => {
        const current = await this.#store.get(scope, key);
        const write = decide(current);
        const seen = current?.version ?? 0;
        // If the caller asked for a version that is not the current one, the write fails and is not tried
        // again. Otherwise the version that was just read must still be current.
        const ifVersion =
          write.ifVersion === null || write.ifVersion === seen || (write.ifVersion === 'any' && seen > 0)
            ? seen
            : write.ifVersion;
        const batch = { sets: [{ ...write, ifVersion }], deletes: [] };
        const [result] = (await this.#write(scope, batch, changes)).sets;
        if (result instanceof StoaError && result.code === 'version_conflict' && ifVersion !== seen)
          throw new FinalConflict(result);
        return succeeded(result);
      }),
    );
  }

  clear(scope: Scope, after: string | null, limit: number): StoreStep<ClearStep> {
    return new StoreStep(async (changes) => {
      const step = await this.#store.clearStep(scope, after, limit);
      if (step.deleted > 0) changes.push(namespaceCleared(scope, step.deleted, after, step.after));
      return step;
    });
  }

  restore(documents: readonly DocumentRecord[]): StoreStep<void>[] {
    const step = new StoreStep(async (changes) => {
      await this.#store.restore(documents);
      for (const { userId: user, namespace, key, version } of documents)
        changes.push(documentImported({ user, namespace }, key, version));
    });
    return [step];
  }

  requireVersion(): never {
    throw new StoaError(
      'unsupported',
      `A version cannot be checked together with other writes: the documents are in ${this.capabilities.backend}, beside the home.`,
      { fix: 'Send the write of the document alone, with its version in If-Match.' },
    );
  }

  listKeys(scope: Scope, range: KeyRange): MaybePromise<KeySummary[]> {
    return this.#store.listKeys(scope, range);
  }

  listDocuments(scope: Scope, range: KeyRange): MaybePromise<DocumentRecord[]> {
    return this.#store.listDocuments(scope, range);
  }

  listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]> {
    return this.#store.listNamespaces(user, after, limit, signal);
  }

  describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]> {
    return this.#store.describeNamespaces(user, names, signal);
  }

  exportPage(after: string | null, limit: number): Promise<ExportPage> {
    return this.#store.exportPage(after, limit);
  }

  recordAccess(
    reads: readonly AccessRead[],
    onVisible?: (reads: readonly AccessRead[]) => void,
  ): Promise<void> {
    return this.#store.recordAccess(reads, onVisible);
  }

  /** A store without quotas counts nothing. If a quota is set, such a store is refused at the start. */
  usage(): Usage {
    return { documents: 0, sizeBytes: 0, namespaces: 0 };
  }

  async heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    return (await this.#store.heldByOthers?.(documents)) ?? [];
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #write(scope: Scope, batch: WriteBatch, changes: Change[]): Promise<BatchResult> {
    const result = await this.#store.write(scope, { sets: batch.sets, deletes: batch.deletes });
    for (const outcome of result.sets)
      if (!(outcome instanceof Error)) changes.push(documentSet(scope, outcome.key, outcome.version));
    for (const [index, { key }] of batch.deletes.entries())
      if (result.deletes[index] === true) changes.push(documentDeleted(scope, key));
    return result;
  }
}
