/** Adds documents that other programs wrote into the table to the index by scope and key. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import type { Scope } from '../../datastore/model.js';
import { messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
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

/** Namespaces whose time of the next scan is cached. */
const rememberedMax = 10_000;

/**
 * The largest share of the time in which a namespace is scanned: a scan reads all of it and costs capacity.
 */
const scanShare = 0.1;

interface Scan {
  /**
   * When the next scan may begin, by the clock of this process, which is never set back; Infinity while a
   * scan waits or runs.
   */
  dueMs: number;
  /** Lists wait for this. */
  done: Promise<void>;
}

/**
 * Such a document is in the seed's index and not in ours, so lists would miss it. A namespace is scanned
 * before its first list, and later in the background: the seed's index does not show which of its entries are
 * new, and reading all of it takes long. The first scan of a namespace is recorded beside its agents, for
 * every process.
 */
export class Adoption {
  readonly #options: AdoptionOptions;
  /** By namespace; a failed scan is dropped. It saves a round trip to DynamoDB for each list. */
  readonly #scans = new LRUCache<string, Scan>(entriesAtMost(rememberedMax));
  /** Scans in the background, one at a time. */
  #behind = Promise.resolve();
  #isClosed = false;

  constructor(options: AdoptionOptions) {
    this.#options = options;
  }

  /** Resolves when the namespace was scanned once; with `isFresh`, after a scan that begins now. */
  async settle(scope: Scope, isFresh = this.#options.limits.foreignDocumentsSeconds === 0): Promise<void> {
    if (isFresh) {
      await this.#scan(scope);
      return;
    }
    const id = scopeKeyOf(scope);
    let scan = this.#scans.get(id);
    if (scan === undefined) {
      scan = { dueMs: Infinity, done: Promise.resolve() };
      scan.done = this.#first(scope, scan);
      this.#scans.set(id, scan);
    }
    try {
      await scan.done;
    } catch (error) {
      this.#scans.delete(id);
      throw error;
    }
    if (performance.now() >= scan.dueMs) this.#scanInBackground(scope, scan);
  }

  /** A running scan ends with the connection. */
  close(): void {
    this.#isClosed = true;
  }

  /** Another process may have scanned it first: then the next scan runs in the background. */
  async #first(scope: Scope, scan: Scan): Promise<void> {
    if (await this.#wasScanned(scope)) {
      scan.dueMs = 0;
      return;
    }
    await this.#timed(scope, scan);
    await this.#recordScan(scope);
  }

  #scanInBackground(scope: Scope, scan: Scan): void {
    scan.dueMs = Infinity;
    this.#behind = this.#behind
      .then(() => (this.#isClosed ? undefined : this.#timed(scope, scan)))
      .catch((error: unknown) => {
        scan.dueMs = performance.now() + this.#options.limits.foreignDocumentsSeconds * 1_000;
        if (!this.#isClosed)
          process.emitWarning(
            `scanning for documents of other programs in "${scope.namespace}": ${messageOf(error)}`,
          );
      });
  }

  async #timed(scope: Scope, scan: Scan): Promise<void> {
    const startMs = performance.now();
    await this.#scan(scope);
    const restMs = (performance.now() - startMs) * (1 / scanShare - 1);
    scan.dueMs = performance.now() + Math.max(this.#options.limits.foreignDocumentsSeconds * 1_000, restMs);
  }

  async #wasScanned(scope: Scope): Promise<boolean> {
    const { client, tables } = this.#options;
    const { Item: kept } = await client.call('GetItem', {
      TableName: tables.namespaces,
      Key: namespaceKey(scope),
      ConsistentRead: true,
    });
    return kept?.['lookedAtMs'] !== undefined;
  }

  async #recordScan(scope: Scope): Promise<void> {
    const { client, tables } = this.#options;
    await client.call('UpdateItem', {
      TableName: tables.namespaces,
      Key: namespaceKey(scope),
      UpdateExpression: 'SET #lookedAtMs = :atMs',
      ExpressionAttributeValues: { ':atMs': { N: String(Date.now()) } },
    });
  }

  async #scan(scope: Scope): Promise<void> {
    const { client, tables, limits } = this.#options;
    let start: Item | undefined;
    do {
      const page = await client.call('Query', {
        TableName: tables.documents,
        IndexName: tables.seedIndex,
        KeyConditionExpression: '#userId = :userId AND #namespace = :namespace',
        FilterExpression: 'attribute_not_exists(#indexedAt) OR #indexedAt <> #updatedAt',
        ProjectionExpression: '#_id',
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
        ExpressionAttributeValues: {
          ':scopeKey': { S: scopeKeyOf(scope) },
          ':sizeBytes': { N: String(sizeBytes) },
          ':updatedAt': item['updatedAt'],
          ':userId': { S: scope.user },
          ':namespace': { S: scope.namespace },
        },
      });
    } catch (error) {
      // Another writer changed the document in between; its write wins, and the next scan finds the document.
      if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
    }
    await onAgents(scope, [item['createdByAgent']?.S ?? null, item['lastAccessedByAgent']?.S ?? null]);
  }
}
