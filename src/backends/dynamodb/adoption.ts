/** Documents that other programs wrote into the table: given their place in the index by scope and key. */
import type { Scope } from '../../datastore/model.js';
import { messageOf } from '../../errors.js';
import type { Limits } from '../../limits.js';
import { mapInFlight } from '../in-flight.js';
import { nativeJson } from './attributes.js';
import { type DynamodbClient, type Item, isReason } from './client.js';
import { isOf, namespaceKey, scopeKeyOf } from './items.js';
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
 * Such a document is in the seed's index and not in ours, so lists would miss it. A namespace is looked
 * through before its first list, and later again behind the lists: the seed's index does not say which of
 * its entries are new, and reading all of it takes its time. When that was is kept beside the agents,
 * for every process.
 */
export class Adoption {
  readonly #options: AdoptionOptions;
  /** When each namespace was last looked through, and what lists wait for. */
  readonly #looks = new Map<string, { atMs: number; done: Promise<void> }>();
  #isClosed = false;

  constructor(options: AdoptionOptions) {
    this.#options = options;
  }

  /** Resolves when the namespace has been looked through; with `isFresh`, by a look that begins now. */
  async settle(scope: Scope, isFresh = this.#options.limits.foreignDocumentsSeconds === 0): Promise<void> {
    const id = scopeKeyOf(scope);
    if (this.#looks.size > rememberedMax) this.#looks.clear();
    let last = isFresh ? undefined : this.#looks.get(id);
    if (last === undefined) {
      const keptAtMs = isFresh ? null : await this.#keptLook(scope);
      last = keptAtMs === null ? this.#begin(scope) : { atMs: keptAtMs, done: Promise.resolve() };
      this.#looks.set(id, last);
    }
    try {
      await last.done;
    } catch (error) {
      this.#looks.delete(id);
      throw error;
    }
    if (Date.now() - last.atMs < this.#options.limits.foreignDocumentsSeconds * 1000 || isFresh) return;
    const next = this.#begin(scope);
    this.#looks.set(id, { atMs: next.atMs, done: Promise.resolve() });
    next.done.catch((error: unknown) => {
      this.#looks.delete(id);
      if (!this.#isClosed)
        process.emitWarning(
          `looking for documents of other programs in "${scope.namespace}": ${messageOf(error)}`,
        );
    });
  }

  /** A look that is still under way ends with the connection. */
  close(): void {
    this.#isClosed = true;
  }

  #begin(scope: Scope): { atMs: number; done: Promise<void> } {
    const atMs = Date.now();
    return { atMs, done: this.#look(scope).then(() => this.#keepLook(scope, atMs)) };
  }

  async #keptLook(scope: Scope): Promise<number | null> {
    const { client, tables } = this.#options;
    const { Item: kept } = await client.call('GetItem', {
      TableName: tables.namespaces,
      Key: namespaceKey(scope),
      ConsistentRead: true,
    });
    return kept?.['lookedAtMs']?.N === undefined ? null : Number(kept['lookedAtMs'].N);
  }

  async #keepLook(scope: Scope, atMs: number): Promise<void> {
    const { client, tables } = this.#options;
    await client.call('UpdateItem', {
      TableName: tables.namespaces,
      Key: namespaceKey(scope),
      UpdateExpression: 'SET #lookedAtMs = :atMs',
      ExpressionAttributeNames: { '#lookedAtMs': 'lookedAtMs' },
      ExpressionAttributeValues: { ':atMs': { N: String(atMs) } },
    });
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
        ExpressionAttributeNames: {
          '#userId': 'userId',
          '#namespace': 'namespace',
          '#indexedAt': 'indexedAt',
          '#updatedAt': 'updatedAt',
          '#id': '_id',
        },
        ExpressionAttributeValues: { ':userId': { S: scope.user }, ':namespace': { S: scope.namespace } },
        ...(start !== undefined && { ExclusiveStartKey: start }),
      });
      await mapInFlight(page.Items ?? [], limits.backendInFlightMax, (entry) =>
        this.#adopt(scope, entry['_id']?.S ?? ''),
      );
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  }

  async #adopt(scope: Scope, id: string): Promise<void> {
    const { client, tables, onAgents } = this.#options;
    const { Item: item } = await client.call('GetItem', {
      TableName: tables.documents,
      Key: { _id: { S: id } },
      ConsistentRead: true,
    });
    // The index may lag behind, and an index without `indexedAt` names every document.
    if (
      item === undefined ||
      !isOf(scope, item) ||
      item['updatedAt'] === undefined ||
      item['indexedAt']?.S === item['updatedAt'].S
    )
      return;
    const sizeBytes = item['value'] === undefined ? 0 : Buffer.byteLength(nativeJson(item['value']));
    try {
      await client.call('UpdateItem', {
        TableName: tables.documents,
        Key: { _id: { S: id } },
        UpdateExpression: 'SET #scopeKey = :scopeKey, #sizeBytes = :sizeBytes, #indexedAt = :updatedAt',
        ConditionExpression: '#updatedAt = :updatedAt AND #userId = :userId AND #namespace = :namespace',
        ExpressionAttributeNames: {
          '#scopeKey': 'scopeKey',
          '#sizeBytes': 'sizeBytes',
          '#indexedAt': 'indexedAt',
          '#updatedAt': 'updatedAt',
          '#userId': 'userId',
          '#namespace': 'namespace',
        },
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
