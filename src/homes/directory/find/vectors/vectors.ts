/** Vectors in a data directory: the port of searches by meaning. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { VectorPort, VectorSearch, WaitingDocument } from '../../../../find/vectors/port.js';
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
import { Comparing } from './comparing.js';
import { type ReadyGraph, VectorGraphs } from './nearest/graphs.js';
import { decodeHead, decodeNumbers, encodeVector, rowsIn, vectorFamilies as families } from './rows.js';
import { putSpace, readSpace } from './space.js';
import { spreadNamespace, waitAllIn } from './whole-namespaces.js';
import { groupedDigits } from '../../../../core/text/grouped-digits.js';

/** Waiting documents that are read together for a count. */
const rowsPerCount = 1_000;

/** What a search covers, and the graph of it if there is one. */
interface Part {
  readonly range: RangeOptions;
  readonly graph?: ReadyGraph;
}

export class DirectoryVectors implements VectorPort {
  readonly #kernel: Kernel;
  readonly #limits: Limits;
  readonly #graphs: VectorGraphs;

  constructor(kernel: Kernel, onError: (error: unknown, about: string) => void) {
    this.#kernel = kernel;
    this.#limits = kernel.limits;
    this.#graphs = new VectorGraphs({ kernel, onError });
  }

  close(): Promise<void> {
    return this.#graphs.close();
  }

  readonly method: VectorPort['method'] = async () => {
    const loaded = await this.#graphs.load();
    if ('missing' in loaded) return `vectors are compared one by one: ${loaded.missing}`;
    const exactMax = groupedDigits(this.#limits.vectorsExactMax);
    return `vectors are compared one by one, and by usearch in namespaces with more than ${exactMax}`;
  };

  readonly search: VectorPort['search'] = async (search) => {
    const store = this.#kernel.storeOf(userKey(search.user));
    const { space, vector, limit } = search;
    const comparing = new Comparing(store, search, this.#limits);
    const { best, crowded } = comparing;
    // Before the vectors are read: what waits then is not among them.
    const hasAll = this.#hasAllVectors(store, search);
    let [isExamined, isWhole] = [true, true];
    for (const { range, graph } of this.#parts(search)) {
      if (graph !== undefined && (await comparing.nearest(graph))) isWhole = false;
      else isExamined &&= await comparing.all(range);
    }
    for (const partition of crowded)
      await this.#graphs.want({ store, partition, space, dimensions: vector.length });
    const isComplete = hasAll && isExamined && isWhole && best.compared <= limit;
    return { entries: best.inOrder(), isComplete, isWhole };
  };

  /** The searched ranges, cut where a namespace has a graph. */
  #parts(search: VectorSearch): Part[] {
    return rangesOf(search).flatMap((range) => {
      const parts: Part[] = [];
      let rest = range;
      for (const graph of this.#graphs.ready(range.gte as Buffer, search.space)) {
        const { gte, lt } = prefixRange(graph.partition) as Required<RangeOptions>;
        // The search is inside this namespace.
        if ((range.gte as Buffer).length >= gte.length) return [{ range, graph }];
        parts.push({ range: { ...rest, lt: gte } }, { range: { gte, lt }, graph });
        rest = { ...rest, gte: lt };
      }
      return [...parts, { range: rest }];
    });
  }

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

function rangesOf({ user, namespaces, prefix }: VectorSearch): RangeOptions[] {
  if (namespaces === null) return [prefixRange(userKey(user))];
  return namespaces.map((namespace) => prefixRange(documentKey({ user, namespace }, prefix ?? '')));
}
