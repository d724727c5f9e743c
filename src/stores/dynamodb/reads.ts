/** Reads of items on DynamoDB: by id, and from the index by scope and key. */
import { checkWanted } from '../../core/waiting/cancellation.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import type { DocumentRecord, Scope } from '../../datastore/model.js';
import type { KeyRange } from '../../datastore/port.js';
import { chunksOf, mapInFlight } from '../in-flight.js';
import type { StoreOptions } from '../options.js';
import { scopeOf } from '../owners.js';
import type { Adoption } from './adoption.js';
import type { DynamodbClient, Item } from './client.js';
import { fromItem, idOf, isLiveItem, isOf, scopeKeyOf } from './items.js';
import type { TableNames } from './tables.js';

/** The number of items in one request to DynamoDB. */
const batchGetMax = 100;

export class DynamodbReads {
  readonly #client: DynamodbClient;
  readonly #tables: TableNames;
  readonly #options: StoreOptions;
  readonly #adoption: Adoption;

  constructor(client: DynamodbClient, tables: TableNames, options: StoreOptions, adoption: Adoption) {
    this.#client = client;
    this.#tables = tables;
    this.#options = options;
    this.#adoption = adoption;
  }

  async item(scope: Scope, key: string): Promise<Item | undefined> {
    const { Item: item } = await this.#client.call('GetItem', {
      TableName: this.#tables.documents,
      Key: { _id: { S: idOf(scope, key) } },
      ConsistentRead: true,
    });
    return item;
  }

  /** Items by key, including those of another owner. */
  async items(scope: Scope, keys: readonly string[]): Promise<Map<string, Item>> {
    const keyOf = new Map(keys.map((key) => [idOf(scope, key), key]));
    const pages = await mapInFlight(
      chunksOf([...keyOf.keys()], batchGetMax),
      this.#options.limits.backendInFlightMax,
      (ids) => this.#client.batchGet(this.#tables.documents, ids),
    );
    return new Map(pages.flat().map((item) => [keyOf.get(item['_id']?.S ?? '') ?? '', item]));
  }

  isLive(item: Item): boolean {
    return isLiveItem(item, this.#options.nowMs());
  }

  visible(scope: Scope, item: Item | undefined): DocumentRecord | undefined {
    return item !== undefined && isOf(scope, item) && this.isLive(item) ? fromItem(item) : undefined;
  }

  /** The owners of those document ids that are stored. */
  async owners(documents: readonly DocumentRecord[]): Promise<Map<string, Item>> {
    const owners = new Map<string, Item>();
    const ids = new Set(documents.map((record) => idOf(scopeOf(record), record.key)));
    for (const chunk of chunksOf([...ids], batchGetMax)) {
      const found = await this.#client.batchGet(this.#tables.documents, chunk, [
        '_id',
        'userId',
        'namespace',
      ]);
      for (const item of found) owners.set(item['_id']?.S ?? '', item);
    }
    return owners;
  }

  /** Pages of the index by scope and key, in code-point order: DynamoDB sorts text by its UTF-8 bytes. */
  async *entries(scope: Scope, { prefix, after, limit, signal }: KeyRange): AsyncGenerator<Item[]> {
    await this.#adoption.settle(scope);
    // The previous page may have ended before the prefix, or after it.
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
}
