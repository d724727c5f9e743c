/** The backend of the data store that a setting names. Drivers are loaded only when they are chosen. */
import type { DataCapabilities, Documents, DocumentStore } from '../datastore/port.js';
import { hasQuota } from '../datastore/quota.js';
import { type StoreDocuments, storeDocuments } from '../datastore/document-store/documents.js';
import type { StoreNotes } from '../datastore/document-store/notes-port.js';
import { StoaError } from '../core/errors.js';
import type { OnCall } from '../core/timed-call.js';
import type { Limits } from '../core/settings/limits.js';
import { hasStrayAt, withoutPassword } from '../core/text/printable-url.js';
import type { BackendCall } from '../homes/home.js';

export interface DataBackendOptions {
  limits: Limits;
  nowMs: () => number;
  /** False if documents are only exported: nothing is created. */
  prepare?: boolean;
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
  /** The home, for a store that has no transactions to share with it. */
  notes?: StoreNotes;
  /** Called after each call of the database, with the time it took. */
  onCall?: (call: BackendCall) => void;
}

type OpenBackend = (url: URL, options: DataBackendOptions) => Promise<StoreDocuments>;

/** A store beside the home. */
const store =
  (open: (url: URL, options: DataBackendOptions) => Promise<DocumentStore>): OpenBackend =>
  async (url, options) => {
    const { limits, notes, onCall, onError } = options;
    const onStoreCall: OnCall | undefined =
      onCall &&
      ((verb, milliseconds, failed) =>
        onCall({ domain: 'data', backend: backendName(url.href), verb, milliseconds, failed }));
    return storeDocuments(await open(url, options), limits, { notes, onCall: onStoreCall, onError });
  };

const couchdb = store(async (url, options) =>
  (await import('../stores/couchdb/open.js')).openCouchDataStore(url, options),
);

/** By the schemes of the URLs that name a backend outside of the data directory. */
const backends: Readonly<Record<string, OpenBackend>> = {
  dynamodb: store(async (url, options) =>
    (await import('../stores/dynamodb/open.js')).openDynamodbDataStore(url, options),
  ),
  firestore: store(async (url, options) =>
    (await import('../stores/firestore/open.js')).openFirestoreDataStore(url, options),
  ),
  couchdb,
  couchdbs: couchdb,
  memory: store(
    async (_url, options) => new (await import('../stores/memory/datastore.js')).MemoryDataStore(options),
  ),
};

/** Opens the backend of a URL and makes its tables and indexes usable. */
export async function openDataBackend(url: string, options: DataBackendOptions): Promise<StoreDocuments> {
  const documents = await backendOf(url).open(new URL(url), options);
  const { port } = documents;
  if (hasQuota(options.limits) && !port.capabilities.quotas) {
    await port.close();
    throw new StoaError(
      'unsupported',
      `The backend ${port.capabilities.backend} cannot keep quotas of the data store.`,
      {
        fix: 'Set dataDocumentsPerUserMax, dataBytesPerUserMax and dataNamespacesPerUserMax to 0, or keep the documents in the home.',
      },
    );
  }
  return documents;
}

/** `couchdb` of `couchdb://host/database`: never the rest, which may hold a password. */
export function backendName(url: string): string {
  return url.split(':')[0] ?? url;
}

/** What a backend can hold, known without a connection to it. */
export async function capacityOf(
  place: string,
): Promise<Pick<DataCapabilities, 'backend' | 'valueBytesMax'>> {
  if (!isUrl(place)) return { backend: 'directory', valueBytesMax: null };
  const { backend } = backendOf(place);
  if (backend === 'dynamodb')
    return { backend, valueBytesMax: (await import('../stores/dynamodb/items.js')).valueBytesMax };
  if (backend === 'firestore')
    return { backend, valueBytesMax: (await import('../stores/firestore/documents.js')).valueBytesMax };
  return { backend, valueBytesMax: null };
}

/** The backend in memory is for tests. */
const publicSchemes = Object.keys(backends).filter((name) => name !== 'memory');

function isUrl(place: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(place);
}

function backendOf(url: string): { backend: string; open: OpenBackend } {
  const backend = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase() ?? '';
  // Not an inherited name, such as "constructor".
  const open = Object.hasOwn(backends, backend) ? backends[backend] : undefined;
  if (open === undefined || !isUrl(url) || !URL.canParse(url)) {
    throw new StoaError('invalid_config', `Unknown backend of the data store in "${withoutPassword(url)}".`, {
      fix: `Use a URL that begins with ${publicSchemes.map((name) => `${name}://`).join(', ')}.`,
    });
  }
  if (hasStrayAt(url)) {
    throw new StoaError('invalid_config', `"${withoutPassword(url)}" has an "@" after the server name.`, {
      fix: 'In a password, write %2F for /, %3F for ?, %23 for # and %40 for @.',
    });
  }
  return { backend, open };
}

/** A backend that a command has opened for itself. */
export interface OpenedStore extends Documents {
  close(): Promise<void>;
}

/**
 * Opens a backend by URL, or the data directory at a path, which no server may be using. With `prepare:
 * false` it must exist.
 */
export async function openDataStoreAt(place: string, options: DataBackendOptions): Promise<OpenedStore> {
  if (isUrl(place)) {
    const documents = await openDataBackend(place, options);
    return { ...documents, close: () => documents.port.close() };
  }
  const [
    { openKernel },
    { readManifest },
    { directoryFamilies },
    { DirectoryDataStore },
    { UserVerbs },
    { DirectoryWriter },
  ] = await Promise.all([
    import('../homes/directory/kernel/open-kernel.js'),
    import('../homes/directory/kernel/directory/manifest.js'),
    import('../homes/directory/families.js'),
    import('../homes/directory/datastore/datastore.js'),
    import('../homes/directory/registry/users.js'),
    import('../homes/directory/writer.js'),
  ]);
  if (options.prepare === false && (await readManifest(place)) === undefined) {
    throw new StoaError('not_found', `There is no data directory at ${place}.`, { fix: 'Check the path.' });
  }
  const kernel = await openKernel({
    dataDir: place,
    families: directoryFamilies,
    limits: options.limits,
    clock: options.nowMs,
  });
  const users = new UserVerbs(options.limits);
  const port = new DirectoryDataStore({ kernel, ensureUser: (tx, user) => void users.ensure(tx, user) });
  return {
    port,
    writer: new DirectoryWriter(kernel),
    close: async () => {
      await port.close();
      await kernel.close();
    },
  };
}
