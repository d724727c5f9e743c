/** The table of the data store as another program would use it: with the driver's own document client. */
import { DeleteTableCommand, DynamoDBClient, ResourceNotFoundException } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';

export function dynamodb(endpoint: string, table: string): string {
  return `dynamodb://test:test@local/${table}?${new URLSearchParams({ endpoint })}`;
}

/** Every value in DynamoDB's own types, as a program of the seed writes it. */
export async function putNative(
  endpoint: string,
  table: string,
  document: Readonly<Record<string, unknown>>,
): Promise<void> {
  await withClient(endpoint, (client) => client.send(new PutCommand({ TableName: table, Item: document })));
}

export async function getNative(
  endpoint: string,
  table: string,
  id: string,
): Promise<Record<string, unknown> | undefined> {
  const { Item } = await withClient(endpoint, (client) =>
    client.send(new GetCommand({ TableName: table, Key: { _id: id }, ConsistentRead: true })),
  );
  return Item;
}

/**
 * Ends what a test has made. DynamoDB Local keeps one of its ten threads busy for each table whose documents
 * can expire: with seven of them left behind, no index is added to any table any more.
 */
export async function dropTable(endpoint: string, table: string): Promise<void> {
  for (const name of [table, `${table}_namespaces`])
    try {
      await withClient(endpoint, (client) => client.send(new DeleteTableCommand({ TableName: name })));
    } catch (error) {
      if (!(error instanceof ResourceNotFoundException)) throw error;
    }
}

async function withClient<T>(
  endpoint: string,
  work: (client: DynamoDBDocumentClient) => Promise<T>,
): Promise<T> {
  const client = new DynamoDBClient({
    endpoint,
    region: 'local',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  try {
    return await work(DynamoDBDocumentClient.from(client));
  } finally {
    client.destroy();
  }
}
