/** Opens the services that use several domains: search, commit, transfer and operations. */
import { readFile } from 'node:fs/promises';
import { CommitService } from '../commit/service.js';
import { StoaError } from '../core/errors.js';
import { NamespaceSettingsService } from '../datastore/namespaces/namespace-settings.js';
import { ChangesService } from '../feed/service.js';
import { FindService } from '../find/service.js';
import { Embedding } from '../find/vectors/embedding.js';
import { noEmbedder } from '../find/vectors/search.js';
import { VectorsService } from '../find/vectors/service.js';
import { directoryArchive } from '../homes/directory/archive.js';
import { IdentityLinks } from '../messaging/identities/links.js';
import { OperationsService } from '../operations/service.js';
import { DocumentRecords } from '../transfer/documents.js';
import type { RecordStore } from '../transfer/port.js';
import { TransferService } from '../transfer/service.js';
import type { Domains, Opening } from './domains.js';
import type { Stoa } from './stoa.js';
import { backendName } from './datastore.js';

type Services = Omit<Stoa, 'limits' | 'home' | 'secrets' | 'onError' | 'onGroup' | 'onBackendCall' | 'close'>;

export function openServices(opening: Opening, domains: Domains): Services {
  const { home, limits } = opening;
  const { registry, messaging, data } = domains;
  const changes = new ChangesService(home.feed, limits);
  const searches = openSearches(opening, domains);
  const commit = openCommit(opening, domains);
  return {
    ...domains,
    ...searches,
    changes,
    commit,
    links: new IdentityLinks({ writer: home.writer, registry, messaging }),
    operations: openOperations(opening, { changes, commit, data, messaging, vectors: searches.vectors }),
    transfer: new TransferService({
      stores: new Map<string, RecordStore>([...home.records(), ['data.document', new DocumentRecords(data)]]),
      storeId: home.id,
      limits,
      nowMs: () => home.nowMs(),
      flush: () => data.tracker.flush(),
    }),
  };
}

function openSearches(
  { home, options, limits, onError, opened }: Opening,
  { data, messaging, registry, workspaces }: Domains,
): Pick<Stoa, 'vectors' | 'namespaceSettings' | 'find'> {
  const nowMs = (): number => home.nowMs();
  const embedding = options.embedder === undefined ? null : new Embedding(options.embedder, limits);
  const vectors = new VectorsService({
    port: home.find.vectors,
    embedding,
    limits,
    nowMs,
    onError,
    intervalMs: options.sweepIntervalMs,
  });
  opened.unshift(() => vectors.close());
  const namespaceSettings = new NamespaceSettingsService({
    port: home.namespaceSettings,
    writer: home.writer,
    limits,
    checkEmbeds: () => checkEmbeds(embedding, storeName(options.datastore)),
  });
  const find = new FindService({
    port: home.find,
    embedding,
    namespaceSettings: home.namespaceSettings,
    data: data.port,
    workspaces: home.workspaces,
    messaging: home.messaging,
    limits,
    nowMs,
    findProject: (caller, project) => workspaces.references.project({ ...caller, everyUser: false }, project),
    findRoom: async (caller, room) => (await messaging.rooms.find(caller, room)).id,
    findAgent: async (caller, agent) => {
      // A search finds what one user can see, also for an operator that names no user.
      const name = await registry.agents.nameOf({ ...caller, everyUser: false }, agent);
      return { name, identities: await messaging.identities.of(caller.user, name) };
    },
  });
  return { vectors, namespaceSettings, find };
}

function openCommit({ home, options, limits, opened }: Opening, domains: Domains): CommitService {
  const { data, registry, workspaces, locks, messaging } = domains;
  const commit = new CommitService({
    steps: { data: data.steps, registry: registry.steps, workspaces: workspaces.steps, locks: locks.steps },
    home: home.commits(messaging),
    store: storeName(options.datastore),
    limits,
    position: () => home.feed.newest(),
    agents: registry.agents,
    projects: workspaces.references,
  });
  // Closed before messaging: a delivery that is under way needs messaging.
  opened.unshift(() => commit.close());
  return commit;
}

function openOperations(
  { home, options, limits, onError }: Opening,
  shown: Pick<Stoa, 'changes' | 'commit' | 'data' | 'messaging' | 'vectors'>,
): OperationsService {
  return new OperationsService({
    ...shown,
    port: home.operations,
    archive: directoryArchive,
    limits,
    readKey: () => readFile(home.secrets.ring.fileForCopy()),
    syncWrites: home.syncWrites,
    keptElsewhere: storeName(options.datastore) === null ? [] : ['data'],
    onError,
  });
}

/** Throws if a namespace cannot ask for vectors here. */
function checkEmbeds(embedding: Embedding | null, store: string | null): void {
  if (embedding === null) throw noEmbedder();
  if (store !== null)
    throw new StoaError('unsupported', `Documents in ${store} cannot have vectors.`, {
      fix: 'Keep the documents in the home, or search them with mode=text.',
    });
}

/** Null if the home keeps the documents. */
function storeName(url: string | null | undefined): string | null {
  return url === null || url === undefined ? null : backendName(url);
}
