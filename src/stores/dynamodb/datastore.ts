/**
 * The data store on DynamoDB: conditional writes of single items, lists from indexes, and scans only for an
 * export.
 */
import { idCollision } from '../../datastore/documents/merge-document.js';
import { type DocumentRecord, type Scope } from '../../datastore/model.js';
import type { DataCapabilities, DocumentStore } from '../../datastore/port.js';
import type { Limits } from '../../core/settings/limits.js';
import { invalidCursor } from '../../core/paging.js';
import { storeCapabilities } from '../capabilities.js';
import { chunksOf, mapInFlight, recordEach } from '../in-flight.js';
import { NamespaceAgents } from '../namespace-agents.js';
import type { StoreOptions } from '../options.js';
import { checkIds, scopeOf } from '../owners.js';
import { type NamespaceSources, describeNamespaces, listNamespaces } from '../summaries.js';
import { newWriteId } from '../write-ids.js';
import { recordAccess } from './access.js';
import { Adoption } from './adoption.js';
import { DynamodbClient, type Item } from './client.js';
import { fromItem, idBytesMax, idOf, isOf, toItem, toSummary, valueBytesMax } from './items.js';
import { DynamodbAgents, DynamodbNamespaces } from './namespaces.js';
import { DynamodbReads } from './reads.js';
import { DynamodbWrites } from './writes.js';
import { type TableNames } from './tables.js';

/** The number of items in one request to DynamoDB. */
const batchWriteMax = 25;

export class DynamodbDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    ...storeCapabilities,
    backend: 'dynamodb',
    atomicBatches: false,
    valueBytesMax,
    listsLag: true,
  };
  readonly #client: DynamodbClient;
  readonly #tables: TableNames;
  readonly #reads: DynamodbReads;
  readonly #writes: DynamodbWrites;
  readonly #namespaces: DynamodbNamespaces;
  readonly #agents: NamespaceAgents;
  readonly #namespaceSources: NamespaceSources;
  readonly #adoption: Adoption;
  readonly #limits: Limits;

  constructor(client: DynamodbClient, tables: TableNames, options: StoreOptions) {
    this.#client = client;
    this.#tables = tables;
    this.#limits = options.limits;
    this.#agents = new NamespaceAgents(new DynamodbAgents(client, tables.namespaces), options);
    this.#adoption = new Adoption({
      client,
      tables,
      limits: options.limits,
      onAgents: (scope, agents) => this.#agents.seen(scope, agents),
    });
    this.#reads = new DynamodbReads(client, tables, options, this.#adoption);
    this.#writes = new DynamodbWrites(client, tables.documents, this.#reads, options);
    this.#namespaces = new DynamodbNamespaces(client, tables, this.#reads, options);
    this.#namespaceSources = { reads: this.#namespaces, agents: this.#agents };
  }

  readonly get: DocumentStore['get'] = async (scope, key) =>
    this.#reads.visible(scope, await this.#reads.item(scope, key));

  readonly getMany: DocumentStore['getMany'] = async (scope, keys) => {
    const items = await this.#reads.items(scope, keys);
    return keys.map((key) => this.#reads.visible(scope, items.get(key)));
  };

  readonly write: DocumentStore['write'] = async (scope, batch) => {
    const seen =
      batch.sets.length > 1
        ? await this.#reads.items(
            scope,
            batch.sets.map(({ key }) => key),
          )
        : null;
    const { backendInFlightMax } = this.#limits;
    const sets = await mapInFlight(batch.sets, backendInFlightMax, (write) =>
      outcome(this.#writes.set(scope, write, seen === null ? null : { item: seen.get(write.key) })),
    );
    const deletes = await mapInFlight(batch.deletes, backendInFlightMax, (deletion) =>
      outcome(this.#writes.delete(scope, deletion)),
    );
    await this.#agents.seen(
      scope,
      batch.sets.map(({ agent }, index) => (sets[index] instanceof Error ? null : agent)),
    );
    return { sets, deletes };
  };

  readonly listKeys: DocumentStore['listKeys'] = async (scope, range) => {
    const entries: Item[] = [];
    for await (const page of this.#reads.entries(scope, range)) {
      entries.push(...page.filter((entry) => this.#reads.isLive(entry)));
      if (entries.length >= range.limit) break;
    }
    return entries.slice(0, range.limit).map(toSummary);
  };

  readonly listDocuments: DocumentStore['listDocuments'] = async (scope, range) => {
    const documents: DocumentRecord[] = [];
    for await (const page of this.#reads.entries(scope, range)) {
      const records = await this.getMany(
        scope,
        page.map((entry) => entry['key']?.S ?? ''),
      );
      documents.push(...records.filter((record) => record !== undefined));
      if (documents.length >= range.limit) break;
    }
    return documents.slice(0, range.limit);
  };

  listNamespaces: DocumentStore['listNamespaces'] = (...wanted) =>
    listNamespaces(this.#namespaceSources, ...wanted);

  describeNamespaces: DocumentStore['describeNamespaces'] = (...wanted) =>
    describeNamespaces(this.#namespaceSources, ...wanted);

  readonly clearStep: DocumentStore['clearStep'] = async (scope, after, limit) => {
    if (after === null) await this.#adoption.settle(scope, true);
    const entries: Item[] = [];
    for await (const page of this.#reads.entries(scope, { prefix: '', after, limit })) {
      entries.push(...page);
      if (entries.length >= limit) break;
    }
    const step = entries.slice(0, limit).map((entry) => entry['key']?.S ?? '');
    // One by one, because only then DynamoDB reports whether each item existed.
    const deleted = await mapInFlight(step, this.#limits.backendInFlightMax, (key) =>
      this.#writes.delete(scope, { key, ifVersion: null }),
    );
    const isLast = step.length < limit;
    // Documents that were written behind the steps have their agents there.
    if (isLast && (await this.#isEmpty(scope))) await this.#agents.forget(scope);
    return { deleted: deleted.filter(Boolean).length, after: isLast ? null : (step.at(-1) ?? null) };
  };

  async #isEmpty(scope: Scope): Promise<boolean> {
    for await (const page of this.#reads.entries(scope, { prefix: '', after: null, limit: 1 }))
      if (page.length > 0) return false;
    return true;
  }

  readonly recordAccess: DocumentStore['recordAccess'] = async (reads) => {
    await recordEach(reads, this.#limits.backendInFlightMax, (read) =>
      recordAccess(this.#client, this.#tables.documents, read),
    );
    for (const { scope, agents } of reads) await this.#agents.seen(scope, agents);
  };

  readonly exportPage: DocumentStore['exportPage'] = async (after, limit) => {
    // A cursor can be forged.
    if (after !== null && Buffer.byteLength(after) > idBytesMax) throw invalidCursor();
    const { Items = [], LastEvaluatedKey } = await this.#client.call('Scan', {
      TableName: this.#tables.documents,
      Limit: limit,
      ConsistentRead: true,
      ...(after !== null && { ExclusiveStartKey: { _id: { S: after } } }),
    });
    const documents = Items.filter((item) => this.#reads.isLive(item)).map(fromItem);
    return { documents, after: LastEvaluatedKey?.['_id']?.S ?? null };
  };

  readonly heldByOthers: NonNullable<DocumentStore['heldByOthers']> = async (documents) => {
    const owners = await this.#reads.owners(documents);
    return documents.filter((record) => {
      const owner = owners.get(idOf(scopeOf(record), record.key));
      return owner !== undefined && !isOf(scopeOf(record), owner);
    });
  };

  readonly restore: DocumentStore['restore'] = async (documents) => {
    checkIds(documents);
    const items = new Map(
      documents.map((record) => [idOf(scopeOf(record), record.key), toItem(record, newWriteId())]),
    );
    const [collision] = await this.heldByOthers(documents);
    if (collision !== undefined) throw idCollision(idOf(scopeOf(collision), collision.key));
    const requests = [...items.values()].map((item) => ({ PutRequest: { Item: item } }));
    await mapInFlight(chunksOf(requests, batchWriteMax), this.#limits.backendInFlightMax, (chunk) =>
      this.#client.batchWrite(this.#tables.documents, chunk),
    );
    await this.#agents.seenIn(documents);
  };

  readonly close: DocumentStore['close'] = async () => {
    this.#adoption.close();
    try {
      await this.#agents.flush();
    } finally {
      this.#client.close();
    }
  };
}

/** Batches are not atomic: each key has its own result. */
async function outcome<T>(work: Promise<T>): Promise<T | Error> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}
