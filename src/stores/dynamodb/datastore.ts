/**
 * The data store on DynamoDB: conditional writes of single items, lists from indexes, never a scan but to
 * export.
 */
import {
  checkVersion,
  idCollision,
  isLive,
  mergeDocument,
  resultOf,
} from '../../datastore/documents/merge-document.js';
import {
  type DocumentRecord,
  type KeySummary,
  type NamespaceSummary,
  type Scope,
  collectionName,
} from '../../datastore/model.js';
import type {
  AccessRead,
  BatchResult,
  ClearStep,
  DataCapabilities,
  DocumentStore,
  DocumentDelete,
  DocumentWrite,
  ExportPage,
  KeyRange,
  WriteBatch,
  WriteResult,
} from '../../datastore/port.js';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import { laterTime } from '../../datastore/documents/times.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { invalidCursor } from '../../core/paging.js';
import { chunksOf, mapInFlight, recordEach } from '../in-flight.js';
import { NamespaceAgents } from '../namespace-agents.js';
import { backOff, contended } from '../retries.js';
import { hasWrite, newWriteId } from '../write-ids.js';
import { recordAccess } from './access.js';
import { Adoption } from './adoption.js';
import { DynamodbClient, type Item, isReason } from './client.js';
import {
  fromItem,
  idBytesMax,
  idOf,
  isLiveItem,
  isOf,
  namespaceKey,
  scopeKeyOf,
  scopeOf,
  setExpression,
  toItem,
  toSummary,
  unchangedCondition,
  valueBytesMax,
  writeIdsOf,
} from './items.js';
import { type TableNames, ensureTables, tableNames } from './tables.js';

export interface DynamodbOptions {
  limits: Limits;
  nowMs: () => number;
  prepare?: boolean;
}

/** What DynamoDB takes in one request. */
const batchGetMax = 100;
const batchWriteMax = 25;

/** `dynamodb://[key:secret@]region/table?endpoint=…`; the table is `agent_data_store` where none is named. */
export async function openDynamodbDataStore(url: URL, options: DynamodbOptions): Promise<DynamodbDataStore> {
  if (url.hostname === '')
    throw new StoaError('invalid_config', 'The DynamoDB URL has no region.', {
      fix: 'Write the URL as dynamodb://eu-central-1/agent_data_store.',
    });
  const { username, password } = url;
  const client = await DynamodbClient.open({
    region: url.hostname,
    endpoint: url.searchParams.get('endpoint'),
    credentials:
      username === ''
        ? null
        : { accessKeyId: decodeURIComponent(username), secretAccessKey: decodeURIComponent(password) },
    limits: options.limits,
  });
  try {
    const table = decodeURIComponent(url.pathname.slice(1)) || collectionName;
    const tables =
      options.prepare === false ? tableNames(table) : await ensureTables(client, table, options.limits);
    return new DynamodbDataStore(client, tables, options);
  } catch (error) {
    client.close();
    throw error;
  }
}

export class DynamodbDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    backend: 'dynamodb',
    atomicBatches: false,
    changes: 'after-write',
    quotas: false,
    valueBytesMax,
    accessFlushMs: 10_000,
    tellsAccessVisible: false,
    sharedIds: true,
    listsLag: true,
  };
  readonly #client: DynamodbClient;
  readonly #tables: TableNames;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #agents: NamespaceAgents;
  readonly #adoption: Adoption;

  constructor(client: DynamodbClient, tables: TableNames, options: DynamodbOptions) {
    this.#client = client;
    this.#tables = tables;
    this.#limits = options.limits;
    this.#nowMs = options.nowMs;
    this.#agents = new NamespaceAgents({
      nowMs: options.nowMs,
      knownSeconds: options.limits.knownAgentSeconds,
      store: {
        add: (scope, agents) => this.#addAgents(scope, agents),
        remove: (scope) => this.#removeAgents(scope),
      },
    });
    this.#adoption = new Adoption({
      client,
      tables,
      limits: options.limits,
      onAgents: (scope, agents) => this.#agents.seen(scope, agents),
    });
  }

  async get(scope: Scope, key: string): Promise<DocumentRecord | undefined> {
    return this.#visible(scope, await this.#item(scope, key));
  }

  async getMany(scope: Scope, keys: readonly string[]): Promise<(DocumentRecord | undefined)[]> {
    const items = await this.#items(scope, keys);
    return keys.map((key) => this.#visible(scope, items.get(key)));
  }

  async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
    const seen =
      batch.sets.length > 1
        ? await this.#items(
            scope,
            batch.sets.map(({ key }) => key),
          )
        : null;
    const { backendInFlightMax } = this.#limits;
    const sets = await mapInFlight(batch.sets, backendInFlightMax, (write) =>
      outcome(this.#set(scope, write, seen === null ? null : { item: seen.get(write.key) })),
    );
    const deletes = await mapInFlight(batch.deletes, backendInFlightMax, (deletion) =>
      outcome(this.#delete(scope, deletion)),
    );
    await this.#agents.seen(
      scope,
      batch.sets.map(({ agent }, index) => (sets[index] instanceof Error ? null : agent)),
    );
    return { sets, deletes };
  }

  async listKeys(scope: Scope, range: KeyRange): Promise<KeySummary[]> {
    const entries: Item[] = [];
    for await (const page of this.#entries(scope, range)) {
      entries.push(...page.filter((entry) => isLiveItem(entry, this.#nowMs())));
      if (entries.length >= range.limit) break;
    }
    return entries.slice(0, range.limit).map(toSummary);
  }

  async listDocuments(scope: Scope, range: KeyRange): Promise<DocumentRecord[]> {
    const documents: DocumentRecord[] = [];
    for await (const page of this.#entries(scope, range)) {
      const records = await this.getMany(
        scope,
        page.map((entry) => entry['key']?.S ?? ''),
      );
      documents.push(...records.filter((record) => record !== undefined));
      if (documents.length >= range.limit) break;
    }
    return documents.slice(0, range.limit);
  }

  async listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    const summaries: NamespaceSummary[] = [];
    for (
      let namespace = await this.#nextNamespace(user, after);
      namespace !== undefined;
      namespace = await this.#nextNamespace(user, namespace)
    ) {
      const summary = await this.#summarise({ user, namespace }, signal);
      if (summary.count > 0) summaries.push(summary);
      if (summaries.length >= limit) break;
    }
    return summaries;
  }

  async describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    const summaries: NamespaceSummary[] = [];
    for (const namespace of names) summaries.push(await this.#summarise({ user, namespace }, signal));
    return summaries.filter(({ count }) => count > 0);
  }

  async clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    if (after === null) await this.#adoption.settle(scope, true);
    const entries: Item[] = [];
    for await (const page of this.#entries(scope, { prefix: '', after, limit })) {
      entries.push(...page);
      if (entries.length >= limit) break;
    }
    const step = entries.slice(0, limit).map((entry) => entry['key']?.S ?? '');
    // One by one, because only then DynamoDB says whether each was there.
    const deleted = await mapInFlight(step, this.#limits.backendInFlightMax, (key) =>
      this.#delete(scope, { key, ifVersion: null }),
    );
    const isLast = step.length < limit;
    if (isLast) await this.#agents.forget(scope);
    return { deleted: deleted.filter(Boolean).length, after: isLast ? null : (step.at(-1) ?? null) };
  }

  async recordAccess(reads: readonly AccessRead[]): Promise<void> {
    await recordEach(reads, this.#limits.backendInFlightMax, (read) =>
      recordAccess(this.#client, this.#tables.documents, read),
    );
    for (const { scope, agents } of reads) await this.#agents.seen(scope, agents);
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    // A cursor can be forged.
    if (after !== null && Buffer.byteLength(after) > idBytesMax) throw invalidCursor();
    const { Items = [], LastEvaluatedKey } = await this.#client.call('Scan', {
      TableName: this.#tables.documents,
      Limit: limit,
      ConsistentRead: true,
      ...(after !== null && { ExclusiveStartKey: { _id: { S: after } } }),
    });
    const documents = Items.filter((item) => isLiveItem(item, this.#nowMs())).map(fromItem);
    return { documents, after: LastEvaluatedKey?.['_id']?.S ?? null };
  }

  async heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    const owners = new Map<string, Item>();
    for (const ids of chunksOf(
      [...new Set(documents.map((record) => idOf(scopeOf(record), record.key)))],
      batchGetMax,
    )) {
      for (const found of await this.#client.batchGet(this.#tables.documents, ids, [
        '_id',
        'userId',
        'namespace',
      ]))
        owners.set(found['_id']?.S ?? '', found);
    }
    return documents.filter((record) => {
      const owner = owners.get(idOf(scopeOf(record), record.key));
      return owner !== undefined && !isOf(scopeOf(record), owner);
    });
  }

  async restore(documents: readonly DocumentRecord[]): Promise<void> {
    const items = new Map<string, Item>();
    for (const record of documents) {
      const item = toItem(record, newWriteId());
      const id = idOf(scopeOf(record), record.key);
      const twin = items.get(id);
      if (twin !== undefined && !isOf(scopeOf(record), twin)) throw idCollision(id);
      items.set(id, item);
    }
    const [collision] = await this.heldByOthers(documents);
    if (collision !== undefined) throw idCollision(idOf(scopeOf(collision), collision.key));
    const requests = [...items.values()].map((item) => ({ PutRequest: { Item: item } }));
    await mapInFlight(chunksOf(requests, batchWriteMax), this.#limits.backendInFlightMax, (chunk) =>
      this.#client.batchWrite(this.#tables.documents, chunk),
    );
    for (const record of documents)
      await this.#agents.seen(scopeOf(record), [record.createdByAgent, record.lastAccessedByAgent]);
  }

  async close(): Promise<void> {
    this.#adoption.close();
    try {
      await this.#agents.flush();
    } finally {
      this.#client.close();
    }
  }

  /** Reads, decides, and writes unless another client wrote in between. `first` saves the first read. */
  async #set(
    scope: Scope,
    write: DocumentWrite,
    first: { item: Item | undefined } | null,
  ): Promise<WriteResult> {
    const writeId = newWriteId();
    let current = first === null ? await this.#item(scope, write.key) : first.item;
    let merged: DocumentRecord | undefined;
    for (let attempts = 1; ; attempts += 1) {
      // An attempt whose answer was lost may have succeeded: then this is its result.
      if (merged !== undefined && hasWrite(writeIdsOf(current), writeId)) return resultOf(merged);
      const id = idOf(scope, write.key);
      if (current !== undefined && !isOf(scope, current)) throw idCollision(id);
      const existing = current === undefined ? undefined : fromItem(current);
      merged = mergeDocument(scope, existing, write, this.#nowMs(), this.#limits);
      const continues = existing !== undefined && isLive(existing, this.#nowMs());
      const set = setExpression(
        toItem(merged, writeId, current),
        new Set(continues && current?.['accessCount'] !== undefined ? ['accessCount'] : []),
      );
      const condition = unchangedCondition(current);
      try {
        await this.#client.call('UpdateItem', {
          TableName: this.#tables.documents,
          Key: { _id: { S: id } },
          UpdateExpression: set.expression,
          ConditionExpression: condition.expression,
          ExpressionAttributeNames: { ...set.names, ...condition.names },
          ExpressionAttributeValues: { ...set.values, ...condition.values },
        });
        return resultOf(merged);
      } catch (error) {
        if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
        if (attempts >= this.#limits.updateAttemptsMax) throw contended(write.key, attempts);
      }
      if (attempts > 1) await backOff(attempts - 1, this.#limits);
      current = await this.#item(scope, write.key);
    }
  }

  async #delete(scope: Scope, { key, ifVersion }: DocumentDelete): Promise<boolean> {
    for (let attempts = 1; ; attempts += 1) {
      const seen = ifVersion === null ? undefined : await this.#item(scope, key);
      if (ifVersion !== null) {
        const record = this.#visible(scope, seen);
        checkVersion(key, record?.version ?? 0, ifVersion);
        if (record === undefined) return false;
      }
      const ownership = {
        expression: '#userId = :userId AND #namespace = :namespace',
        names: { '#userId': 'userId', '#namespace': 'namespace' },
        values: { ':userId': { S: scope.user }, ':namespace': { S: scope.namespace } },
      };
      const condition = seen === undefined ? ownership : unchangedCondition(seen);
      let isUnsure = false;
      try {
        const request = {
          TableName: this.#tables.documents,
          Key: { _id: { S: idOf(scope, key) } },
          ReturnValues: 'ALL_OLD' as const,
          ConditionExpression: condition.expression,
          ExpressionAttributeNames: condition.names,
          ExpressionAttributeValues: condition.values,
        };
        const { Attributes } = await this.#client.call('DeleteItem', request, () => (isUnsure = true));
        return Attributes !== undefined && isLiveItem(Attributes, this.#nowMs());
      } catch (error) {
        if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
        // Gone after an attempt whose answer was lost: this attempt probably deleted it.
        if (isUnsure && this.#visible(scope, await this.#item(scope, key)) === undefined) return true;
        if (seen === undefined) return false;
        if (attempts >= this.#limits.updateAttemptsMax) throw contended(key, attempts);
      }
      await backOff(attempts, this.#limits);
    }
  }

  async #item(scope: Scope, key: string): Promise<Item | undefined> {
    const { Item: item } = await this.#client.call('GetItem', {
      TableName: this.#tables.documents,
      Key: { _id: { S: idOf(scope, key) } },
      ConsistentRead: true,
    });
    return item;
  }

  /** Items by key, another owner's among them. */
  async #items(scope: Scope, keys: readonly string[]): Promise<Map<string, Item>> {
    const keyOf = new Map(keys.map((key) => [idOf(scope, key), key]));
    const pages = await mapInFlight(
      chunksOf([...keyOf.keys()], batchGetMax),
      this.#limits.backendInFlightMax,
      (ids) => this.#client.batchGet(this.#tables.documents, ids),
    );
    return new Map(pages.flat().map((item) => [keyOf.get(item['_id']?.S ?? '') ?? '', item]));
  }

  #visible(scope: Scope, item: Item | undefined): DocumentRecord | undefined {
    return item !== undefined && isOf(scope, item) && isLiveItem(item, this.#nowMs())
      ? fromItem(item)
      : undefined;
  }

  /** Pages of the index by scope and key, in code-point order: DynamoDB sorts text by its UTF-8 bytes. */
  async *#entries(scope: Scope, { prefix, after, limit, signal }: KeyRange): AsyncGenerator<Item[]> {
    await this.#adoption.settle(scope);
    // A page before may have ended ahead of the prefix, or behind it.
    if (after !== null && !after.startsWith(prefix) && compareCodePoints(after, prefix) > 0) return;
    let start: Item | undefined =
      after?.startsWith(prefix) === true
        ? { _id: { S: idOf(scope, after) }, scopeKey: { S: scopeKeyOf(scope) }, key: { S: after } }
        : undefined;
    do {
      checkWanted(signal);
      const page = await this.#client.call('Query', {
        TableName: this.#tables.documents,
        IndexName: this.#tables.orderIndex,
        KeyConditionExpression:
          prefix === '' ? '#scopeKey = :scopeKey' : '#scopeKey = :scopeKey AND begins_with(#key, :prefix)',
        ExpressionAttributeNames: { '#scopeKey': 'scopeKey', ...(prefix !== '' && { '#key': 'key' }) },
        ExpressionAttributeValues: {
          ':scopeKey': { S: scopeKeyOf(scope) },
          ...(prefix !== '' && { ':prefix': { S: prefix } }),
        },
        Limit: limit,
        ...(start !== undefined && { ExclusiveStartKey: start }),
      });
      yield page.Items ?? [];
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  }

  /** One request for each namespace, however many documents are in it. */
  async #nextNamespace(user: string, after: string | null): Promise<string | undefined> {
    const { Items = [] } = await this.#client.call('Query', {
      TableName: this.#tables.documents,
      IndexName: this.#tables.seedIndex,
      KeyConditionExpression:
        after === null ? '#userId = :userId' : '#userId = :userId AND #namespace > :after',
      ProjectionExpression: '#namespace',
      ExpressionAttributeNames: { '#userId': 'userId', '#namespace': 'namespace' },
      ExpressionAttributeValues: {
        ':userId': { S: user },
        ...(after !== null && { ':after': { S: after } }),
      },
      Limit: 1,
    });
    return Items[0]?.['namespace']?.S;
  }

  /** Adds up the entries of the index, which hold no values. */
  async #summarise(scope: Scope, signal?: Cancellation): Promise<NamespaceSummary> {
    const summary: NamespaceSummary = {
      namespace: scope.namespace,
      count: 0,
      sizeBytes: 0,
      agents: [],
      updatedAt: '',
    };
    for await (const page of this.#entries(scope, {
      prefix: '',
      after: null,
      limit: this.#limits.clearStepMax,
      signal,
    })) {
      for (const entry of page.filter((entry) => isLiveItem(entry, this.#nowMs()))) {
        const { sizeBytes, updatedAt } = toSummary(entry);
        summary.count += 1;
        summary.sizeBytes += sizeBytes;
        summary.updatedAt = laterTime(summary.updatedAt || null, updatedAt) ?? updatedAt;
      }
    }
    const { Item: kept } = await this.#client.call('GetItem', {
      TableName: this.#tables.namespaces,
      Key: namespaceKey(scope),
      ConsistentRead: true,
    });
    summary.agents = (kept?.['agents']?.SS ?? []).toSorted(compareCodePoints);
    return summary;
  }

  async #addAgents(scope: Scope, agents: readonly string[]): Promise<void> {
    await this.#client.call('UpdateItem', {
      TableName: this.#tables.namespaces,
      Key: namespaceKey(scope),
      UpdateExpression: 'ADD #agents :agents',
      ExpressionAttributeNames: { '#agents': 'agents' },
      ExpressionAttributeValues: { ':agents': { SS: [...agents] } },
    });
  }

  async #removeAgents(scope: Scope): Promise<void> {
    await this.#client.call('DeleteItem', { TableName: this.#tables.namespaces, Key: namespaceKey(scope) });
  }
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
