/** Vectors in a data directory: the port of searches by meaning. */
import type { Limits } from '../../../../core/settings/limits.js';
import { checkWanted } from '../../../../core/waiting/cancellation.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { VectorPort, VectorSearch, WaitingDocument } from '../../../../find/vectors/port.js';
import { MostSimilar, isCovered } from '../../../../find/vectors/similarity.js';
import { userKey } from '../../../../identity/user-key.js';
import {
  dataFamilies,
  decodeDocument,
  documentKey,
  isLiveRow,
  namesOf,
  valueJsonOf,
} from '../../datastore/rows.js';
import { readSettings } from '../../datastore/settings.js';
import { type RangeOptions, prefixRange } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import { partitionsIn } from '../filing/work.js';
import { markedAtMs } from '../filing/marks.js';
import { decodeHead, decodeNumbers, encodeVector, vectorFamilies as families } from './rows.js';
import { putSpace, readSpace } from './space.js';
import { spreadNamespace, waitAllIn } from './whole-namespaces.js';

/** Vectors that are read together: half a millisecond with 1,536 dimensions. */
const vectorsPerRead = 128;
/** Waiting documents that are read together for a count. */
const rowsPerCount = 1_000;

export class DirectoryVectors implements VectorPort {
  readonly method = async (): Promise<string> => 'vectors are compared one by one';
  readonly #kernel: Kernel;
  readonly #limits: Limits;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#limits = kernel.limits;
  }

  readonly search: VectorPort['search'] = async (search) => {
    const store = this.#kernel.storeOf(userKey(search.user));
    const best = new MostSimilar(search);
    // Before the vectors are read: what waits then is not among them.
    const hasAll = this.#hasAllVectors(store, search);
    let examined = 0;
    for (const range of rangesOf(search)) {
      for await (const { key, value } of rowsIn(store, families.vectors, range, vectorsPerRead)) {
        checkWanted(search.signal);
        if (examined === this.#limits.vectorsExaminedMax)
          return { entries: best.inOrder(), isComplete: false };
        examined += 1;
        const { facts, space } = decodeHead(value);
        if (space !== search.space) continue;
        const { namespace, key: id } = namesOf(key);
        const entry = { name: { kind: 'data', collection: namespace, id }, ...facts } as const;
        if (!isCovered(entry, search)) continue;
        const numbers = decodeNumbers(value);
        if (numbers.length === search.vector.length) best.add(entry, numbers);
      }
    }
    return { entries: best.inOrder(), isComplete: hasAll && best.compared <= search.limit };
  };

  async *owners(): AsyncGenerator<string> {
    for (const store of this.#kernel.stores)
      for (const partition of partitionsIn(store, families.waiting)) yield partition.toString('hex');
  }

  readonly take: VectorPort['take'] = async (owner, after, limit) => {
    const partition = Buffer.from(owner, 'hex');
    const store = this.#kernel.storeOf(partition);
    const { gte, lt } = prefixRange(partition);
    const start = after === null ? { gte: gte as Buffer } : { gt: Buffer.from(after, 'hex') };
    for (;;) {
      const rows = [...store.range(families.waiting, { ...start, ...(lt && { lt }), limit })];
      const whole = rows.filter(({ key }) => key.at(-1) === 0);
      for (const { key, value } of whole) await spreadNamespace(store, key, value);
      if (whole.length > 0) continue;
      const last = rows.length < limit ? undefined : rows.at(-1);
      return {
        documents: rows.map(({ key, value }) => this.#waiting(store, key, value)),
        next: last?.key.toString('hex') ?? null,
      };
    }
  };

  readonly settle: VectorPort['settle'] = async (owner, documents) => {
    const partition = Buffer.from(owner, 'hex');
    await this.#kernel.storeOf(partition).transact((tx) => {
      for (const { waiting, stored } of documents) {
        const { namespace, key, ticket } = waiting;
        const rowKey = Buffer.concat([partition, Buffer.from(`${namespace}\0${key}`)]);
        // Written meanwhile, or removed: then this vector is of a text that is gone.
        if (tx.get(families.waiting, rowKey)?.equals(ticket as Buffer) !== true) continue;
        tx.delete(families.waiting, rowKey);
        const settings = readSettings(tx, rowKey.subarray(0, rowKey.indexOf(0, partition.length)));
        if (stored === null || !settings.embed) {
          tx.delete(families.vectors, rowKey);
          continue;
        }
        const kept = stored.vector === 'kept' ? tx.get(families.vectors, rowKey) : undefined;
        const vector = stored.vector === 'kept' ? kept && decodeNumbers(kept) : stored.vector;
        tx.put(families.vectors, rowKey, encodeVector(stored, vector ?? null));
      }
    });
  };

  readonly release: VectorPort['release'] = async () => {};

  readonly adopt: VectorPort['adopt'] = async (space) => {
    if (readSpace(this.#kernel.root) === space) return;
    await waitAllIn(this.#kernel.stores);
    // Last: after an interruption everything is noted again, and what has its vector keeps it.
    await this.#kernel.root.transact((tx) => putSpace(tx, space));
  };

  readonly backlog: VectorPort['backlog'] = async () => {
    let [documents, oldestMs] = [0, Infinity];
    for (const store of this.#kernel.stores)
      for await (const { value } of rowsIn(store, families.waiting, {}, rowsPerCount)) {
        documents += 1;
        oldestMs = Math.min(oldestMs, markedAtMs(value));
      }
    return { documents, oldestMs: documents === 0 ? null : oldestMs };
  };

  #hasAllVectors(store: Store, search: VectorSearch): boolean {
    if (readSpace(this.#kernel.root) !== search.space) return false;
    return rangesOf({ ...search, prefix: null }).every(
      (range) => [...store.range(families.waiting, { ...range, limit: 1 })].length === 0,
    );
  }

  #waiting(store: Store, rowKey: Buffer, stamp: Buffer): WaitingDocument {
    const names = namesOf(rowKey);
    const { embed, embed_fields: fields } = readSettings(store, rowKey.subarray(0, rowKey.indexOf(0, 32)));
    const row = store.get(dataFamilies.documents, rowKey);
    const record =
      row === undefined || !isLiveRow(row, store.nowMs())
        ? null
        : decodeDocument(rowKey, row, valueJsonOf(store, rowKey, row), names);
    const stored = store.get(families.vectors, rowKey);
    return {
      ...names,
      record: embed && record?.indexed !== false ? record : null,
      fields,
      known: stored === undefined ? null : decodeHead(stored),
      ticket: stamp,
    };
  }
}

/** The rows of a range, read in parts with pauses between them. */
async function* rowsIn(
  store: Store,
  family: string,
  { gte, lt }: RangeOptions,
  limit: number,
): AsyncGenerator<{ key: Buffer; value: Buffer }> {
  const slices = new Slices();
  for (let after: Buffer | undefined; ;) {
    const start = after === undefined ? { ...(gte && { gte }) } : { gt: after };
    const rows = [...store.range(family, { ...start, ...(lt && { lt }), limit })];
    yield* rows;
    after = rows.at(-1)?.key;
    if (rows.length < limit) return;
    await slices.pause();
  }
}

function rangesOf({ user, namespaces, prefix }: VectorSearch): RangeOptions[] {
  if (namespaces === null) return [prefixRange(userKey(user))];
  return namespaces.map((namespace) => prefixRange(documentKey({ user, namespace }, prefix ?? '')));
}
