/** Opens the data store on DynamoDB that a URL names. */
import { StoaError } from '../../core/errors.js';
import { collectionName } from '../../datastore/model.js';
import type { StoreOptions } from '../options.js';
import { DynamodbClient } from './client.js';
import { DynamodbDataStore } from './datastore.js';
import { ensureTables, tableNames } from './tables.js';

/** `dynamodb://[key:secret@]region/table?endpoint=…`; the default table is `agent_data_store`. */
export async function openDynamodbDataStore(url: URL, options: StoreOptions): Promise<DynamodbDataStore> {
  if (url.hostname === '')
    throw new StoaError('invalid_config', 'The DynamoDB URL has no region.', {
      fix: 'Write the URL as dynamodb://eu-central-1/agent_data_store.',
    });
  const { username, password } = url;
  const client = await DynamodbClient.open({
    region: url.hostname,
    endpoint: url.searchParams.get('endpoint'),
    credentials:
      username === ''
        ? null
        : { accessKeyId: decodeURIComponent(username), secretAccessKey: decodeURIComponent(password) },
    limits: options.limits,
  });
  try {
    const table = decodeURIComponent(url.pathname.slice(1)) || collectionName;
    const tables =
      options.prepare === false ? tableNames(table) : await ensureTables(client, table, options.limits);
    return new DynamodbDataStore(client, tables, options);
  } catch (error) {
    client.close();
    throw error;
  }
}
