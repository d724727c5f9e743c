/** Creates missing tables and indexes, and waits until they can be used. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { type DynamodbClient, type IndexDefinition, type TableDescription, isReason } from './client.js';

/** The index of the seed. An index with the same keys under another name is used too. */
const seedIndex: IndexDefinition = {
  IndexName: 'userId-namespace-index',
  KeySchema: [
    { AttributeName: 'userId', KeyType: 'HASH' },
    { AttributeName: 'namespace', KeyType: 'RANGE' },
  ],
  // Other programs read whole documents from it.
  Projection: { ProjectionType: 'ALL' },
};

/** Our own: the keys of a namespace in order, with what lists show. Counted reads do not change it. */
const orderIndex: IndexDefinition = {
  IndexName: 'stoa-scope-key-index',
  KeySchema: [
    { AttributeName: 'scopeKey', KeyType: 'HASH' },
    { AttributeName: 'key', KeyType: 'RANGE' },
  ],
  Projection: {
    ProjectionType: 'INCLUDE',
    NonKeyAttributes: ['version', 'sizeBytes', 'updatedAt', 'expiresAt'],
  },
};

export interface TableNames {
  documents: string;
  /** Beside the documents, so that readers of the seed's table find only documents there. */
  namespaces: string;
  seedIndex: string;
  orderIndex: string;
}

/** The names of the tables and indexes that `ensureTables` creates. */
export function tableNames(table: string): TableNames {
  return {
    documents: table,
    namespaces: `${table}_namespaces`,
    seedIndex: seedIndex.IndexName,
    orderIndex: orderIndex.IndexName,
  };
}

/** Creates missing tables and indexes. Another process may do the same at the same time. */
export async function ensureTables(
  client: DynamodbClient,
  table: string,
  limits: Limits,
): Promise<TableNames> {
  const { namespaces } = tableNames(table);
  await create(client, table, ['_id'], [seedIndex, orderIndex]);
  await create(client, namespaces, ['userId', 'namespace'], []);
  const deadline = Date.now() + limits.backendReadySecondsMax * 1000;
  await active(client, namespaces, deadline);
  const first = await active(client, table, deadline);
  checkKeys(table, first);
  await ensureIndex(client, table, seedIndex, deadline);
  await ensureIndex(client, table, orderIndex, deadline);
  await ensureTimeToLive(client, table);
  const description = await active(client, table, deadline);
  return {
    documents: table,
    namespaces,
    seedIndex: indexName(description, seedIndex),
    orderIndex: indexName(description, orderIndex),
  };
}

async function create(
  client: DynamodbClient,
  table: string,
  keys: readonly string[],
  indexes: IndexDefinition[],
): Promise<void> {
  if ((await describe(client, table)) !== undefined) return;
  const attributes = new Set([
    ...keys,
    ...indexes.flatMap(({ KeySchema }) => KeySchema.map(({ AttributeName }) => AttributeName)),
  ]);
  try {
    await client.call('CreateTable', {
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [...attributes].map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
      KeySchema: keys.map((AttributeName, index) => ({
        AttributeName,
        KeyType: index === 0 ? 'HASH' : 'RANGE',
      })),
      ...(indexes.length > 0 && { GlobalSecondaryIndexes: indexes }),
    });
  } catch (error) {
    // Another process was faster.
    if (!isReason(error, 'ResourceInUseException')) throw error;
  }
}

/** Adds an index to a table that another program made; DynamoDB builds one at a time. */
async function ensureIndex(
  client: DynamodbClient,
  table: string,
  index: IndexDefinition,
  deadline: number,
): Promise<void> {
  for (;;) {
    const description = await active(client, table, deadline);
    if (findIndex(description, index) !== undefined) return;
    const isOnDemand = description.BillingModeSummary?.BillingMode === 'PAY_PER_REQUEST';
    const { ReadCapacityUnits = 1, WriteCapacityUnits = 1 } = description.ProvisionedThroughput ?? {};
    try {
      await client.call('UpdateTable', {
        TableName: table,
        AttributeDefinitions: index.KeySchema.map(({ AttributeName }) => ({
          AttributeName,
          AttributeType: 'S',
        })),
        GlobalSecondaryIndexUpdates: [
          {
            Create: {
              ...index,
              ...(!isOnDemand && { ProvisionedThroughput: { ReadCapacityUnits, WriteCapacityUnits } }),
            },
          },
        ],
      });
    } catch (error) {
      if (!isReason(error, 'ResourceInUseException', 'LimitExceededException')) throw error;
      await pause(deadline, `The index ${index.IndexName} of table ${table} cannot be created yet`);
    }
  }
}

/** DynamoDB then deletes expired items. If this cannot be set, expired documents stay stored but hidden. */
async function ensureTimeToLive(client: DynamodbClient, table: string): Promise<void> {
  try {
    const { TimeToLiveDescription } = await client.call('DescribeTimeToLive', { TableName: table });
    if (TimeToLiveDescription?.TimeToLiveStatus !== 'DISABLED') return;
    await client.call('UpdateTimeToLive', {
      TableName: table,
      TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAtSeconds' },
    });
  } catch (error) {
    // The emulator does not support it, the credentials do not allow it, or another process is setting it.
    if (!isReason(error, 'UnknownOperationException', 'AccessDeniedException', 'ValidationException'))
      throw error;
  }
}

async function active(client: DynamodbClient, table: string, deadline: number): Promise<TableDescription> {
  for (;;) {
    const description = await describe(client, table);
    const indexes = description?.GlobalSecondaryIndexes ?? [];
    // A table whose settings are being changed can be used.
    const isReady =
      description?.TableStatus === 'ACTIVE' ||
      (description?.TableStatus === 'UPDATING' &&
        indexes.every(({ IndexStatus }) => IndexStatus !== 'CREATING'));
    if (
      description !== undefined &&
      isReady &&
      indexes.every(({ IndexStatus }) => IndexStatus === 'ACTIVE' || IndexStatus === 'UPDATING')
    )
      return description;
    await pause(deadline, `The table ${table} is not ready yet (${description?.TableStatus ?? 'missing'})`);
  }
}

async function describe(client: DynamodbClient, table: string): Promise<TableDescription | undefined> {
  try {
    return (await client.call('DescribeTable', { TableName: table })).Table;
  } catch (error) {
    if (isReason(error, 'ResourceNotFoundException')) return undefined;
    throw error;
  }
}

const pauseMs = 200;

async function pause(deadline: number, about: string): Promise<void> {
  if (Date.now() > deadline)
    throw new StoaError('backend_unavailable', `${about}.`, {
      fix: 'Start Stoa again when the table is ready.',
    });
  await sleep(pauseMs);
}

function checkKeys(table: string, { KeySchema = [] }: TableDescription): void {
  const [hash] = KeySchema;
  if (KeySchema.length === 1 && hash?.AttributeName === '_id') return;
  throw new StoaError(
    'invalid_config',
    `The table ${table} has the wrong key schema. Expected one partition key, "_id".`,
    { fix: 'Name another table in the URL.' },
  );
}

function findIndex(
  { GlobalSecondaryIndexes = [] }: TableDescription,
  wanted: IndexDefinition,
): string | undefined {
  return GlobalSecondaryIndexes.find(({ KeySchema }) => spelled(KeySchema) === spelled(wanted.KeySchema))
    ?.IndexName;
}

function spelled(schema: IndexDefinition['KeySchema'] = []): string {
  return schema
    .map(({ AttributeName, KeyType }) => `${KeyType} ${AttributeName}`)
    .toSorted()
    .join();
}

function indexName(description: TableDescription, index: IndexDefinition): string {
  return findIndex(description, index) ?? index.IndexName;
}
