/** Requests to DynamoDB: the driver is loaded on demand, requests are retried, errors are those of Stoa. */
import { type ErrorCode, StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { importOptional } from '../../core/optional-package.js';
import { backOff, withRetries } from '../retries.js';

/** An attribute in a request or an answer: it has exactly one member. */
export interface AttributeValue {
  S?: string;
  N?: string;
  BOOL?: boolean;
  NULL?: boolean;
  M?: Record<string, AttributeValue>;
  L?: AttributeValue[];
  SS?: string[];
  NS?: string[];
  B?: Uint8Array;
  BS?: Uint8Array[];
}
export type Item = Record<string, AttributeValue>;

/** In expressions `#name` stands for the attribute `name`, because many names are reserved. */
interface Expressions {
  ConditionExpression?: string;
  FilterExpression?: string;
  KeyConditionExpression?: string;
  ProjectionExpression?: string;
  UpdateExpression?: string;
  ExpressionAttributeValues?: Item;
}

interface KeyElement {
  AttributeName: string;
  KeyType: 'HASH' | 'RANGE';
}
export interface IndexDefinition {
  IndexName: string;
  KeySchema: KeyElement[];
  Projection: { ProjectionType: 'ALL' | 'INCLUDE' | 'KEYS_ONLY'; NonKeyAttributes?: string[] };
}
interface Throughput {
  ReadCapacityUnits: number;
  WriteCapacityUnits: number;
}
export interface TableDescription {
  TableStatus?: string;
  KeySchema?: KeyElement[];
  GlobalSecondaryIndexes?: (Partial<IndexDefinition> & { IndexStatus?: string })[];
  BillingModeSummary?: { BillingMode?: string };
  ProvisionedThroughput?: Throughput;
}
interface AttributeDefinition {
  AttributeName: string;
  AttributeType: 'S' | 'N';
}

interface Page {
  Items?: Item[];
  LastEvaluatedKey?: Item;
}
export type WriteRequest = { PutRequest: { Item: Item } } | { DeleteRequest: { Key: Item } };
interface BatchKeys {
  Keys: Item[];
  ConsistentRead?: boolean;
  ProjectionExpression?: string;
  ExpressionAttributeNames?: Record<string, string>;
}

/** The requests that the backend makes, as the driver's commands take and answer them. */
export interface Operations {
  GetItem: { input: { TableName: string; Key: Item; ConsistentRead: boolean }; output: { Item?: Item } };
  BatchGetItem: {
    input: { RequestItems: Record<string, BatchKeys> };
    output: { Responses?: Record<string, Item[]>; UnprocessedKeys?: Record<string, BatchKeys> };
  };
  BatchWriteItem: {
    input: { RequestItems: Record<string, WriteRequest[]> };
    output: { UnprocessedItems?: Record<string, WriteRequest[]> };
  };
  UpdateItem: { input: { TableName: string; Key: Item } & Expressions; output: object };
  DeleteItem: {
    input: { TableName: string; Key: Item; ReturnValues?: 'ALL_OLD' } & Expressions;
    output: { Attributes?: Item };
  };
  Query: {
    input: { TableName: string; IndexName: string; Limit?: number; ExclusiveStartKey?: Item } & Expressions;
    output: Page;
  };
  Scan: {
    input: { TableName: string; Limit: number; ExclusiveStartKey?: Item; ConsistentRead: boolean };
    output: Page;
  };
  DescribeTable: { input: { TableName: string }; output: { Table?: TableDescription } };
  CreateTable: {
    input: {
      TableName: string;
      BillingMode: 'PAY_PER_REQUEST';
      AttributeDefinitions: AttributeDefinition[];
      KeySchema: KeyElement[];
      GlobalSecondaryIndexes?: IndexDefinition[];
    };
    output: object;
  };
  UpdateTable: {
    input: {
      TableName: string;
      AttributeDefinitions: AttributeDefinition[];
      GlobalSecondaryIndexUpdates: { Create: IndexDefinition & { ProvisionedThroughput?: Throughput } }[];
    };
    output: object;
  };
  DescribeTimeToLive: {
    input: { TableName: string };
    output: { TimeToLiveDescription?: { TimeToLiveStatus?: string; AttributeName?: string } };
  };
  UpdateTimeToLive: {
    input: { TableName: string; TimeToLiveSpecification: { Enabled: boolean; AttributeName: string } };
    output: object;
  };
}

/** The part of @aws-sdk/client-dynamodb that is used. */
interface Driver {
  DynamoDBClient: new (settings: Record<string, unknown>) => {
    send(command: object): Promise<unknown>;
    destroy(): void;
  };
}
type Commands = {
  [Name in keyof Operations as `${Name}Command`]: new (input: Operations[Name]['input']) => object;
};

/** An error of DynamoDB; `reason` is its name there. */
class DynamodbError extends StoaError {
  constructor(
    code: ErrorCode,
    message: string,
    readonly reason: string,
    options: { cause: unknown; fix?: string },
  ) {
    super(code, message, options);
  }
}

export function isReason(error: unknown, ...reasons: readonly string[]): boolean {
  return error instanceof DynamodbError && reasons.includes(error.reason);
}

export interface ClientSettings {
  region: string;
  endpoint: string | null;
  credentials: { accessKeyId: string; secretAccessKey: string } | null;
  limits: Limits;
}

export class DynamodbClient {
  readonly #commands: Commands;
  readonly #client: InstanceType<Driver['DynamoDBClient']>;
  readonly #limits: Limits;
  #isClosed = false;

  private constructor(driver: Driver & Commands, settings: ClientSettings) {
    const { region, endpoint, credentials, limits } = settings;
    const timeoutMs = limits.backendRequestSecondsMax * 1000;
    this.#commands = driver;
    this.#limits = limits;
    this.#client = new driver.DynamoDBClient({
      region,
      ...(endpoint !== null && { endpoint }),
      ...(credentials !== null && { credentials }),
      // Attempts are counted here, in one place, by the limits of this process.
      maxAttempts: 1,
      requestHandler: {
        connectionTimeout: timeoutMs,
        requestTimeout: timeoutMs,
        throwOnRequestTimeout: true,
      },
    });
  }

  static async open(settings: ClientSettings): Promise<DynamodbClient> {
    return new DynamodbClient(
      await importOptional<Driver & Commands>('@aws-sdk/client-dynamodb', 3),
      settings,
    );
  }

  /** `onUnanswered` is called for each attempt whose result is unknown. */
  async call<Name extends keyof Operations>(
    name: Name,
    input: Operations[Name]['input'],
    onUnanswered: () => void = () => undefined,
  ): Promise<Operations[Name]['output']> {
    // The key keeps input and name together.
    const Command = this.#commands[`${name}Command`] as new (input: Operations[Name]['input']) => object;
    try {
      const again = (error: unknown): boolean => {
        if (isUnreachable(error)) onUnanswered();
        return mayPass(error);
      };
      return (await withRetries(this.#limits, again, () =>
        this.#send(new Command({ ...input, ...namesIn(input) })),
      )) as Operations[Name]['output'];
    } catch (error) {
      throw error instanceof StoaError ? error : translated(name, error);
    }
  }

  /** Gets any number of items; items that the server leaves unprocessed are requested again. */
  async batchGet(table: string, ids: readonly string[], projection?: readonly string[]): Promise<Item[]> {
    const items: Item[] = [];
    const projected =
      projection === undefined
        ? {}
        : { ProjectionExpression: projection.map((name) => `#${name}`).join(', ') };
    let asked: Record<string, BatchKeys> = {
      [table]: {
        Keys: ids.map((id) => ({ _id: { S: id } })),
        ConsistentRead: true,
        ...projected,
        ...namesIn(projected),
      },
    };
    for (let emptyAnswers = 0; ;) {
      const { Responses, UnprocessedKeys } = await this.call('BatchGetItem', { RequestItems: asked });
      const found = Responses?.[table] ?? [];
      items.push(...found);
      const left = UnprocessedKeys?.[table]?.Keys.length ?? 0;
      if (UnprocessedKeys === undefined || left === 0) return items;
      // A full answer also leaves keys unprocessed, so only answers without progress count as attempts.
      emptyAnswers = left < (asked[table]?.Keys.length ?? 0) ? 0 : emptyAnswers + 1;
      await this.#waitForUnprocessed(emptyAnswers);
      asked = UnprocessedKeys;
    }
  }

  /**
   * Writes any number of items without conditions; items that the server leaves unprocessed are sent again.
   */
  async batchWrite(table: string, requests: WriteRequest[]): Promise<void> {
    let asked = requests;
    for (let emptyAnswers = 0; ;) {
      const { UnprocessedItems } = await this.call('BatchWriteItem', { RequestItems: { [table]: asked } });
      const left = UnprocessedItems?.[table] ?? [];
      if (left.length === 0) return;
      emptyAnswers = left.length < asked.length ? 0 : emptyAnswers + 1;
      await this.#waitForUnprocessed(emptyAnswers);
      asked = left;
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#client.destroy();
  }

  /** The driver would open new connections for calls after the close. */
  async #send(command: object): Promise<unknown> {
    if (this.#isClosed) throw new StoaError('closed', 'The connection to DynamoDB is closed.');
    return this.#client.send(command);
  }

  async #waitForUnprocessed(emptyAnswers: number): Promise<void> {
    if (emptyAnswers >= this.#limits.backendAttemptsMax)
      throw throttled(new Error('DynamoDB left items unprocessed.'), 'UnprocessedItems');
    await backOff(emptyAnswers + 1, this.#limits);
  }
}

/** The attributes that the expressions of a request name. */
function namesIn(input: object): { ExpressionAttributeNames?: Record<string, string> } {
  const expressions = Object.entries(input).filter(([field]) => field.endsWith('Expression'));
  const names = expressions.flatMap(([, expression]) => String(expression).match(/#\w+/g) ?? []);
  return names.length === 0
    ? {}
    : { ExpressionAttributeNames: Object.fromEntries(names.map((name) => [name, name.slice(1)])) };
}

const throttlingNames = new Set([
  'ProvisionedThroughputExceededException',
  'ThrottlingException',
  'RequestLimitExceeded',
  'Throttling',
  'TooManyRequestsException',
]);
const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

function mayPass(error: unknown): boolean {
  return throttlingNames.has(nameOf(error)) || isUnreachable(error);
}

function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // The fields that the driver adds to its errors.
  const { $metadata, code } = error as { $metadata?: { httpStatusCode?: number }; code?: unknown };
  return (
    ($metadata?.httpStatusCode ?? 0) >= 500 ||
    connectionCodes.has(String(code)) ||
    nameOf(error) === 'TimeoutError'
  );
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : '';
}

function throttled(error: unknown, reason: string): DynamodbError {
  return new DynamodbError(
    'backend_unavailable',
    `DynamoDB throttled the request: ${messageOf(error)}`,
    reason,
    {
      fix: 'Try again later, raise the capacity of the table and its indexes, or use on-demand capacity.',
      cause: error,
    },
  );
}

function translated(operation: string, error: unknown): DynamodbError {
  const name = nameOf(error);
  if (throttlingNames.has(name)) return throttled(error, name);
  if (isUnreachable(error))
    return new DynamodbError('backend_unavailable', `DynamoDB does not answer: ${describe(error)}`, name, {
      cause: error,
    });
  if (name === 'ValidationException' && /item size/i.test(messageOf(error)))
    return new DynamodbError('too_large', `DynamoDB rejected the item: ${messageOf(error)}`, name, {
      cause: error,
      fix: 'Split the value over several keys, or shorten its metadata.',
    });
  if (
    name === 'CredentialsProviderError' ||
    name === 'UnrecognizedClientException' ||
    name === 'AccessDeniedException'
  ) {
    return new DynamodbError('invalid_config', `DynamoDB rejected ${operation}: ${messageOf(error)}`, name, {
      fix: 'Check the credentials and their permissions (docs/backends/dynamodb.md).',
      cause: error,
    });
  }
  return new DynamodbError('engine', `DynamoDB rejected ${operation}: ${name}: ${messageOf(error)}`, name, {
    cause: error,
  });
}

/** A refused connection on two addresses has an empty message and the reasons inside. */
function describe(error: unknown): string {
  const inner = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : messageOf(error);
  return inner === '' ? String(error) : inner;
}
