/** Opens the data store on CouchDB that a URL names. */
import { collectionName } from '../../datastore/model.js';
import type { StoreOptions } from '../options.js';
import { CouchClient } from './client.js';
import { CouchDataStore } from './datastore.js';

/** `couchdb://user:password@host:5984[/database]`; `couchdbs://` for TLS. */
export async function openCouchDataStore(url: URL, options: StoreOptions): Promise<CouchDataStore> {
  const database = decodeURIComponent(url.pathname.slice(1)) || collectionName;
  const store = new CouchDataStore(new CouchClient(url, options.limits), database, options);
  if (options.prepare !== false) await store.prepare();
  return store;
}
