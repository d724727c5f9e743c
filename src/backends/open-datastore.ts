/** The backend of the data store that a setting names. Drivers are loaded only when they are chosen. */
import type { DataStorePort } from '../datastore/port.js';
import { hasQuota } from '../datastore/quota.js';
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';

export interface DataBackendOptions {
  limits: Limits;
  nowMs: () => number;
}

/** The schemes of the URLs that name a backend outside of the data directory. */
type OpenBackend = (url: URL, options: DataBackendOptions) => Promise<DataStorePort>;

const postgres: OpenBackend = async (url, options) => (await import('./postgres/datastore.js')).openPostgresDataStore(url, options);

const couchdb: OpenBackend = async (url, options) => (await import('./couchdb/datastore.js')).openCouchDataStore(url, options);

const backends: Readonly<Record<string, OpenBackend>> = {
  postgres,
  postgresql: postgres,
  dynamodb: async (url, options) => (await import('./dynamodb/datastore.js')).openDynamodbDataStore(url, options),
  firestore: async (url, options) => (await import('./firestore/datastore.js')).openFirestoreDataStore(url, options),
  couchdb,
  couchdbs: couchdb,
  memory: async (_url, options) => new (await import('./memory/datastore.js')).MemoryDataStore(options),
};

/** Opens the backend behind a URL, with its tables and indexes made and usable. */
export async function openDataBackend(url: string, options: DataBackendOptions): Promise<DataStorePort> {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() ?? '';
  const open = backends[scheme];
  if (open === undefined || !URL.canParse(url)) {
    throw new StoaError('invalid_config', `"${withoutPassword(url)}" names no backend of the data store.`, {
      fix: `Use embedded, or a URL that begins with ${Object.keys(backends).map((name) => `${name}://`).join(', ')}.`,
    });
  }
  const port = await open(new URL(url), options);
  if (hasQuota(options.limits) && !port.capabilities.quotas) {
    await port.close();
    throw new StoaError('unsupported', `The backend ${port.capabilities.backend} cannot keep quotas of the data store.`, {
      fix: 'Set dataDocumentsPerUserMax, dataBytesPerUserMax and dataNamespacesPerUserMax to 0, or choose embedded or PostgreSQL.',
    });
  }
  return port;
}

/** A URL for messages: whoever reads a log must not learn the password. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//…@');
}

/** A backend that a command has opened for itself. */
export interface OpenedStore {
  port: DataStorePort;
  close(): Promise<void>;
}

/** Opens a backend by URL, or the data directory at a path, which no server may be using. */
export async function openDataStoreAt(place: string, options: DataBackendOptions & { mustExist: boolean }): Promise<OpenedStore> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(place)) {
    const port = await openDataBackend(place, options);
    return { port, close: () => port.close() };
  }
  const [{ openKernel }, { embeddedFamilies }, { EmbeddedDataStore }, { UserVerbs }, { stat }] = await Promise.all([
    import('../kernel/kernel.js'),
    import('./embedded/families.js'),
    import('./embedded/datastore.js'),
    import('./embedded/registry-users.js'),
    import('node:fs/promises'),
  ]);
  if (options.mustExist && !(await stat(place).then((found) => found.isDirectory(), () => false))) {
    throw new StoaError('not_found', `There is no data directory at ${place}.`);
  }
  const kernel = await openKernel({ dataDir: place, families: embeddedFamilies, limits: options.limits, clock: options.nowMs });
  const users = new UserVerbs(options.limits);
  const port = new EmbeddedDataStore({ kernel, ensureUser: (tx, user) => void users.ensure(tx, user) });
  return {
    port,
    close: async () => {
      await port.close();
      await kernel.close();
    },
  };
}
