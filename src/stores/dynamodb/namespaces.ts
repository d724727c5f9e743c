/** Namespaces on DynamoDB: their names, their totals, and the agents that worked in them. */
import type { Limits } from '../../core/settings/limits.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import type { AgentsStore } from '../namespace-agents.js';
import type { StoreOptions } from '../options.js';
import { type NamespaceReads, addKey, emptySummary } from '../summaries.js';
import type { DynamodbClient } from './client.js';
import { namespaceKey, toSummary } from './items.js';
import type { DynamodbReads } from './reads.js';
import type { TableNames } from './tables.js';

export class DynamodbNamespaces implements NamespaceReads {
  readonly #client: DynamodbClient;
  readonly #tables: TableNames;
  readonly #reads: DynamodbReads;
  readonly #limits: Limits;

  constructor(client: DynamodbClient, tables: TableNames, reads: DynamodbReads, { limits }: StoreOptions) {
    this.#client = client;
    this.#tables = tables;
    this.#reads = reads;
    this.#limits = limits;
  }

  readonly next: NamespaceReads['next'] = async (user, after) => {
    const { Items = [] } = await this.#client.call('Query', {
      TableName: this.#tables.documents,
      IndexName: this.#tables.seedIndex,
      KeyConditionExpression:
        after === null ? '#userId = :userId' : '#userId = :userId AND #namespace > :after',
      ProjectionExpression: '#namespace',
      ExpressionAttributeValues: {
        ':userId': { S: user },
        ...(after !== null && { ':after': { S: after } }),
      },
      Limit: 1,
    });
    return Items[0]?.['namespace']?.S;
  };

  /** Adds up the entries of the index, which hold no values. */
  readonly summarise: NamespaceReads['summarise'] = async (scope, signal) => {
    const summary = emptySummary(scope);
    for await (const page of this.#reads.entries(scope, {
      prefix: '',
      after: null,
      limit: this.#limits.clearStepMax,
      signal,
    })) {
      for (const entry of page.filter((item) => this.#reads.isLive(item))) addKey(summary, toSummary(entry));
    }
    const { Item: kept } = await this.#client.call('GetItem', {
      TableName: this.#tables.namespaces,
      Key: namespaceKey(scope),
      ConsistentRead: true,
    });
    summary.agents = (kept?.['agents']?.SS ?? []).toSorted(compareCodePoints);
    return summary;
  };
}

/** Agents are kept in the table of namespaces. */
export class DynamodbAgents implements AgentsStore {
  readonly #client: DynamodbClient;
  readonly #table: string;

  constructor(client: DynamodbClient, table: string) {
    this.#client = client;
    this.#table = table;
  }

  readonly add: AgentsStore['add'] = async (scope, agents) => {
    await this.#client.call('UpdateItem', {
      TableName: this.#table,
      Key: namespaceKey(scope),
      UpdateExpression: 'ADD #agents :agents',
      ExpressionAttributeValues: { ':agents': { SS: [...agents] } },
    });
  };

  readonly remove: AgentsStore['remove'] = async (scope) => {
    await this.#client.call('DeleteItem', { TableName: this.#table, Key: namespaceKey(scope) });
  };
}
