/** Writes of single items on DynamoDB, each only if no other client wrote in between. */
import {
  checkVersion,
  idCollision,
  isLive,
  mergeDocument,
  resultOf,
} from '../../datastore/documents/merge-document.js';
import type { DocumentRecord, Scope } from '../../datastore/model.js';
import type { DocumentDelete, DocumentWrite, WriteResult } from '../../datastore/port.js';
import type { StoreOptions } from '../options.js';
import { backOff, contended } from '../retries.js';
import { hasWrite, newWriteId } from '../write-ids.js';
import { type DynamodbClient, type Item, isReason } from './client.js';
import { fromItem, idOf, isOf, setExpression, toItem, unchangedCondition, writeIdsOf } from './items.js';
import type { DynamodbReads } from './reads.js';

export class DynamodbWrites {
  readonly #client: DynamodbClient;
  readonly #table: string;
  readonly #reads: DynamodbReads;
  readonly #options: StoreOptions;

  constructor(client: DynamodbClient, table: string, reads: DynamodbReads, options: StoreOptions) {
    this.#client = client;
    this.#table = table;
    this.#reads = reads;
    this.#options = options;
  }

  /** Reads, decides, and writes unless another client wrote in between. `first` saves the first read. */
  async set(
    scope: Scope,
    write: DocumentWrite,
    first: { item: Item | undefined } | null,
  ): Promise<WriteResult> {
    const writeId = newWriteId();
    let current = first === null ? await this.#reads.item(scope, write.key) : first.item;
    let merged: DocumentRecord | undefined;
    for (let attempts = 1; ; attempts += 1) {
      // An attempt whose answer was lost may have succeeded: then this is its result.
      if (merged !== undefined && hasWrite(writeIdsOf(current), writeId)) return resultOf(merged);
      const id = idOf(scope, write.key);
      if (current !== undefined && !isOf(scope, current)) throw idCollision(id);
      const existing = current === undefined ? undefined : fromItem(current);
      merged = mergeDocument(scope, existing, write, this.#options.nowMs(), this.#options.limits);
      const continues = existing !== undefined && isLive(existing, this.#options.nowMs());
      const set = setExpression(
        toItem(merged, writeId, current),
        new Set(continues && current?.['accessCount'] !== undefined ? ['accessCount'] : []),
      );
      const condition = unchangedCondition(current);
      try {
        await this.#client.call('UpdateItem', {
          TableName: this.#table,
          Key: { _id: { S: id } },
          UpdateExpression: set.expression,
          ConditionExpression: condition.expression,
          ExpressionAttributeValues: { ...set.values, ...condition.values },
        });
        return resultOf(merged);
      } catch (error) {
        if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
        if (attempts >= this.#options.limits.updateAttemptsMax) throw contended(write.key, attempts);
      }
      if (attempts > 1) await backOff(attempts - 1, this.#options.limits);
      current = await this.#reads.item(scope, write.key);
    }
  }

  async delete(scope: Scope, { key, ifVersion }: DocumentDelete): Promise<boolean> {
    for (let attempts = 1; ; attempts += 1) {
      const seen = ifVersion === null ? undefined : await this.#reads.item(scope, key);
      if (ifVersion !== null) {
        const record = this.#reads.visible(scope, seen);
        checkVersion(key, record?.version ?? 0, ifVersion);
        if (record === undefined) return false;
      }
      const ownership = {
        expression: '#userId = :userId AND #namespace = :namespace',
        values: { ':userId': { S: scope.user }, ':namespace': { S: scope.namespace } },
      };
      const condition = seen === undefined ? ownership : unchangedCondition(seen);
      let isUnsure = false;
      try {
        const request = {
          TableName: this.#table,
          Key: { _id: { S: idOf(scope, key) } },
          ReturnValues: 'ALL_OLD' as const,
          ConditionExpression: condition.expression,
          ExpressionAttributeValues: condition.values,
        };
        const { Attributes } = await this.#client.call('DeleteItem', request, () => (isUnsure = true));
        return Attributes !== undefined && this.#reads.isLive(Attributes);
      } catch (error) {
        if (!isReason(error, 'ConditionalCheckFailedException')) throw error;
        // Gone after an attempt whose answer was lost: this attempt probably deleted it.
        if (isUnsure && this.#reads.visible(scope, await this.#reads.item(scope, key)) === undefined)
          return true;
        if (seen === undefined) return false;
        if (attempts >= this.#options.limits.updateAttemptsMax) throw contended(key, attempts);
      }
      await backOff(attempts, this.#options.limits);
    }
  }
}
