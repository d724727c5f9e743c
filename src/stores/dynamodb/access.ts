/** Counted reads on DynamoDB: a field-level update that never touches what a write sets. */
import type { AccessRead } from '../../datastore/port.js';
import { newWriteId } from '../write-ids.js';
import { type DynamodbClient, type Item, isReason } from './client.js';
import { idOf } from './items.js';

/** Adds up the reads of one document. A deleted document, or one of another owner, is not changed. */
export async function recordAccess(client: DynamodbClient, table: string, read: AccessRead): Promise<void> {
  // If the answer was lost, the update is sent again. Its id prevents that it counts twice.
  const readsId = newWriteId();
  if (read.last !== null && (await update(client, table, read, read.last, readsId))) return;
  await update(client, table, read, null, readsId);
}

/** False if the document was deleted or, with a last reader, was read or written later by another client. */
async function update(
  client: DynamodbClient,
  table: string,
  { scope, key, count }: AccessRead,
  last: AccessRead['last'],
  readsId: string,
): Promise<boolean> {
  const values: Item = {
    ':zero': { N: '0' },
    ':count': { N: String(count) },
    ':userId': { S: scope.user },
    ':namespace': { S: scope.namespace },
    ':readsId': { S: readsId },
  };
  let set = 'SET #accessCount = if_not_exists(#accessCount, :zero) + :count, #readsId = :readsId';
  let condition =
    '#userId = :userId AND #namespace = :namespace AND (attribute_not_exists(#readsId) OR #readsId <> :readsId)';
  if (last !== null) {
    set += ', #lastAccessedAt = :at, #lastAccessedByAgent = :by';
    condition +=
      ' AND (attribute_not_exists(#lastAccessedAt) OR #lastAccessedAt < :before OR #lastAccessedAt = :whole)';
    Object.assign(values, { ':at': { S: last.at }, ':by': { S: last.agent }, ...textBounds(last.at) });
  }
  try {
    await client.call('UpdateItem', {
      TableName: table,
      Key: { _id: { S: idOf(scope, key) } },
      UpdateExpression: set,
      ConditionExpression: condition,
      ExpressionAttributeValues: values,
    });
    return true;
  } catch (error) {
    if (isReason(error, 'ConditionalCheckFailedException')) return false;
    throw error;
  }
}

/**
 * Times are compared as text. A whole second has no fraction and sorts after the fractions of the same second
 * (`Z` after `.`), so it is compared separately.
 */
function textBounds(at: string): Item {
  const second = at.slice(0, 'yyyy-mm-ddThh:mm:ss'.length);
  return { ':before': { S: at === `${second}Z` ? `${second}.` : at }, ':whole': { S: `${second}Z` } };
}
