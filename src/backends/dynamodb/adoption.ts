/** Documents that other programs wrote into the table: given their place in the index by scope and key. */
import type { Scope } from '../../datastore/model.js';
import type { Limits } from '../../limits.js';
import { mapInFlight } from '../in-flight.js';
import { nativeJson } from './attributes.js';
import { type DynamodbClient, type Item, isReason } from './client.js';
import { isOf, scopeKeyOf } from './items.js';
import type { TableNames } from './tables.js';

export interface AdoptionOptions {
  client: DynamodbClient;
  tables: TableNames;
  limits: Limits;
  /** Agents that the documents name. */
  onAgents: (scope: Scope, agents: (string | null)[]) => Promise<void>;
}

/** Namespaces after which the memory of when they were looked through starts over. */
const rememberedMax = 10_000;

/**
 * Such a document is in the seed's index and not in ours, so lists would miss it. Each namespace is
 * looked through before its first list, and from time to time again; the seed's index does not say
 * which of its entries are new.
 */
export class Adoption {
  readonly #options: AdoptionOptions;
  readonly #looked = new Map<string, { atMs: number; done: Promise<void> }>();

  constructor(options: AdoptionOptions) {
    this.#options = options;
  }

  /** Resolves when the namespace was looked through not long ago. */
  async settle(scope: Scope, maxAgeSeconds = this.#options.limits.foreignDocumentsSeconds): Promise<void> {
    const id = scopeKeyOf(scope);
    const before = this.#looked.get(id);
    // The machine's own clock: how long ago it was has nothing to do with the time of documents.
    const nowMs = performance.now();
    if (before !== undefined && nowMs - before.atMs < maxAgeSeconds * 1000) return before.done;
    if (this.#looked.size > rememberedMax) this.#looked.clear();
    const done = this.#look(scope);
    this.#looked.set(id, { atMs: nowMs, done });
    try {
      await done;
    } catch (error) {
      this.#looked.delete(id);
      throw error;
    }
  }

  async #look(scope: Scope): Promise<void> {
    const { client, tables, limits } = this.#options;
    let start: Item | undefined;
    do {
      const page = await client.call('Query', {
        TableName: tables.documents,
        IndexName: tables.seedIndex,
        KeyConditionExpression: '#userId = :userId AND #namespace = :namespace',
        FilterExpression: 'attribute_not_exists(#indexedAt) OR #indexedAt <> #updatedAt',
        ProjectionExpression: '#id',
        ExpressionAttributeNames: { '#userId': 'userId', '#namespace': 'namespace', '#indexedAt': 'indexedAt', '#updatedAt': 'updatedAt', '#id': '_id' },
        ExpressionAttributeValues: { ':userId': { S: scope.user }, ':namespace': { S: scope.namespace } },
        ...(start !== undefined && { ExclusiveStartKey: start }),
      });
      await mapInFlight(page.Items ?? [], limits.backendInFlightMax, (entry) => this.#adopt(scope, entry['_id']?.S ?? ''));
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  }

  async #adopt(scope: Scope, id: string): Promise<void> {
    const { client, tables, onAgents } = this.#options;
    const { Item: item } = await client.call('GetItem', { TableName: tables.documents, Key: { _id: { S: id } }, ConsistentRead: true });
    // The index may lag behind, and an index without `indexedAt` names every document.
    if (item === undefined || !isOf(scope, item) || item['updatedAt'] === undefined || item['indexedAt']?.S === item['updatedAt'].S) return;
    const sizeBytes = item['value'] === undefined ? 0 : Buffer.byteLength(nativeJson(item['value']));
    try {
      await client.call('UpdateItem', {
        TableName: tables.documents,
        Key: { _id: { S: id } },
        UpdateExpression: 'SET #scopeKey = :scopeKey, #sizeBytes = :sizeBytes, #indexedAt = :updatedAt',
        ConditionExpression: '#updatedAt = :updatedAt AND #userId = :userId AND #namespace = :namespace',
        ExpressionAttributeNames: { '#scopeKey': 'scopeKey', '#sizeBytes': 'sizeBytes', '#indexedAt': 'indexedAt', '#updatedAt': 'updatedAt', '#userId': 'userId', '#namespace': 'namespace' },
        ExpressionAttributeValues: {
          ':scopeKey': { S: scopeKeyOf(scope) },
          ':sizeBytes': { N: String(sizeBytes) },
          ':updatedAt': item['updatedAt'],
          ':userId': { S: scope.user },
          ':namespace': { S: scope.namespace },
        },
      });
    } catch (error) {
      // Written or deleted in between: whoever wrote it last decides, and the next look finds it.
      if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
    }
    await onAgents(scope, [item['createdByAgent']?.S ?? null, item['lastAccessedByAgent']?.S ?? null]);
  }
}
