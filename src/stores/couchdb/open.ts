/** Opens the data store on CouchDB that a URL names. */
import { collectionName } from '../../datastore/model.js';
import type { StoreOptions } from '../options.js';
import { CouchDatabase } from './database.js';
import { CouchTransport } from './transport.js';
import { CouchDataStore } from './datastore.js';

/** `couchdb://user:password@host:5984[/database]`; `couchdbs://` for TLS. */
export async function openCouchDataStore(url: URL, options: StoreOptions): Promise<CouchDataStore> {
  const name = decodeURIComponent(url.pathname.slice(1)) || collectionName;
  const store = new CouchDataStore(
    new CouchDatabase(new CouchTransport(url, options.limits), name, options.limits),
    options,
  );
  if (options.prepare !== false) await store.prepare();
  return store;
}
