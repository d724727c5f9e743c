/** A store of documents as a port: its writes as steps, its changes made for the feed. */
import type { Change } from '../../core/change.js';
import type { Step } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import { type OnCall, timedCall } from '../../core/timed-call.js';
import type { Limits } from '../../core/settings/limits.js';
import { documentDeleted, documentImported, documentSet, namespaceCleared } from '../changes.js';
import { checkReadBytes, readInSteps } from '../documents/bounded-reads.js';
import type { DocumentRecord, Scope } from '../model.js';
import {
  type BatchResult,
  type DataCapabilities,
  type DataPort,
  type DocumentStore,
  type MaybePromise,
  type WriteBatch,
  succeeded,
} from '../port.js';
import type { StoreChanges } from './notes-port.js';
import { FinalConflict, VersionRetries } from './version-retries.js';

/** One write of the store. The store is not part of the home's transactions, so writes cannot be combined. */
export class StoreStep<Result> implements Step<Result> {
  constructor(
    /** What the write may change, for the note that the home keeps until its end. */
    readonly mayChange: StoreChanges,
    /** Adds the changes to announce to `changes`. */
    readonly run: (changes: Change[]) => Promise<Result>,
  ) {}

  map<Shown>(show: (result: Result) => Shown): StoreStep<Shown> {
    return new StoreStep(this.mayChange, async (changes) => show(await this.run(changes)));
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
  readonly #limits: Limits;
  readonly #retries: VersionRetries;
  readonly #onCall: OnCall | undefined;

  /** `onCall` is called after each call of the store. */
  constructor(store: DocumentStore, limits: Limits, onCall?: OnCall) {
    this.#store = store;
    this.#limits = limits;
    this.#onCall = onCall;
    this.capabilities = store.capabilities;
    this.#retries = new VersionRetries(limits.updateAttemptsMax);
    const sweep = store.sweepExpired?.bind(store);
    if (sweep !== undefined)
      this.sweepExpired = async (limit) => this.#timed('sweepExpired', () => sweep(limit));
  }

  readonly get: DataPort['get'] = (scope, key) => this.#timed('get', () => this.#store.get(scope, key));

  readonly getValue: DataPort['getValue'] = (scope, key) => this.get(scope, key);

  readonly getMany: DataPort['getMany'] = (scope, keys, bytesMax) => {
    const read = (some: readonly string[]) => this.#timed('getMany', () => this.#store.getMany(scope, some));
    return bytesMax === undefined ? read(keys) : readInSteps(bytesMax, keys, read);
  };

  /** A store cannot undo the writes, so what could make the answer too large is read before them. */
  readonly write: DataPort['write'] = (scope, batch) =>
    new StoreStep(this.#mayWrite(scope, batch), async (changes) => {
      const gets = new Set(batch.gets);
      const sets = batch.sets.filter(({ key }) => gets.has(key));
      for (const { key } of [...batch.sets, ...batch.deletes]) gets.delete(key);
      const others = await this.#read(scope, [...gets]);
      checkReadBytes(this.#limits, [...others, ...sets]);
      const result = await this.#write(scope, batch, changes);
      const own = await this.#read(
        scope,
        batch.gets.filter((key) => !gets.has(key)),
      );
      return { ...result, read: [...others, ...own] };
    });

  readonly modify: DataPort['modify'] = (scope, key, decide) =>
    new StoreStep(this.#mayWrite(scope, { sets: [{ key }], deletes: [] }), (changes) =>
      this.#retries.run(scope, key, async () => {
        const current = await this.#timed('get', () => this.#store.get(scope, key));
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

  readonly clear: DataPort['clear'] = (scope, after, limit) =>
    new StoreStep({ documents: [], cleared: { scope, after }, mayBePartial: true }, async (changes) => {
      const step = await this.#timed('clearStep', () => this.#store.clearStep(scope, after, limit));
      if (step.deleted > 0) changes.push(namespaceCleared(scope, step.deleted, after, step.after));
      return step;
    });

  readonly restore: DataPort['restore'] = (documents) => {
    const names = documents.map(({ userId: user, namespace, key }) => ({
      user,
      namespace,
      key,
      isDelete: false,
    }));
    const step = new StoreStep({ documents: names, cleared: null, mayBePartial: true }, async (changes) => {
      await this.#timed('restore', () => this.#store.restore(documents));
      for (const { userId: user, namespace, key, version } of documents)
        changes.push(documentImported({ user, namespace }, key, version));
    });
    return [step];
  };

  readonly requireVersion: DataPort['requireVersion'] = () => {
    throw new StoaError(
      'unsupported',
      `The request checks a version together with other writes, but the documents are in ${this.capabilities.backend}, beside the home.`,
      { fix: 'Send the write of the document alone, with its version in If-Match.' },
    );
  };

  readonly listKeys: DataPort['listKeys'] = (scope, range) =>
    this.#timed('listKeys', () => this.#store.listKeys(scope, range));

  readonly listDocuments: DataPort['listDocuments'] = (scope, range) =>
    this.#timed('listDocuments', () => this.#store.listDocuments(scope, range));

  readonly listNamespaces: DataPort['listNamespaces'] = (user, after, limit, signal) =>
    this.#timed('listNamespaces', () => this.#store.listNamespaces(user, after, limit, signal));

  readonly describeNamespaces: DataPort['describeNamespaces'] = (user, names, signal) =>
    this.#timed('describeNamespaces', () => this.#store.describeNamespaces(user, names, signal));

  readonly exportPage: DataPort['exportPage'] = (after, limit) =>
    this.#timed('exportPage', () => this.#store.exportPage(after, limit));

  readonly recordAccess: DataPort['recordAccess'] = (reads, onVisible) =>
    this.#timed('recordAccess', () => this.#store.recordAccess(reads, onVisible));

  /** A store without quotas counts nothing. If a quota is set, such a store is refused at the start. */
  readonly usage: DataPort['usage'] = () => ({ documents: 0, sizeBytes: 0, namespaces: 0 });

  readonly heldByOthers: DataPort['heldByOthers'] = async (documents) => {
    const held = this.#store.heldByOthers?.bind(this.#store);
    return held === undefined ? [] : this.#timed('heldByOthers', () => held(documents));
  };

  readonly close: DataPort['close'] = () => this.#store.close();

  async #read(scope: Scope, keys: readonly string[]): Promise<DocumentRecord[]> {
    if (keys.length === 0) return [];
    const found = await this.getMany(scope, keys, this.#limits.dataBatchBytesMax);
    return found.filter((record) => record !== undefined);
  }

  async #timed<Result>(verb: string, call: () => MaybePromise<Result>): Promise<Result> {
    return this.#onCall === undefined ? call() : timedCall(this.#onCall, verb, call);
  }

  async #write(scope: Scope, batch: WriteBatch, changes: Change[]): Promise<BatchResult> {
    const result = await this.#timed('write', () =>
      this.#store.write(scope, { sets: batch.sets, deletes: batch.deletes }),
    );
    for (const outcome of result.sets)
      if (!(outcome instanceof Error)) changes.push(documentSet(scope, outcome.key, outcome.version));
    for (const [index, { key }] of batch.deletes.entries())
      if (result.deletes[index] === true) changes.push(documentDeleted(scope, key));
    return result;
  }

  #mayWrite(
    scope: Scope,
    { sets, deletes }: Readonly<Record<keyof WriteBatch, readonly { readonly key: string }[]>>,
  ): StoreChanges {
    const documents = [
      ...sets.map(({ key }) => ({ ...scope, key, isDelete: false })),
      ...deletes.map(({ key }) => ({ ...scope, key, isDelete: true })),
    ];
    const mayBePartial = documents.length > 1 && !this.capabilities.atomicBatches;
    return { documents, cleared: null, mayBePartial };
  }
}
