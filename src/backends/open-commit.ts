/** Commits where the domains are: in the data directory, or in the PostgreSQL that several of them share. */
import type { CommitDomain, CommitPlace, Home } from '../commit/placement.js';
import { PlacedCommit } from '../commit/placement.js';
import { CommitService, type CommitServiceOptions } from '../commit/service.js';
import type { DataService } from '../datastore/service.js';
import { Joint } from '../kernel/joint.js';
import type { Kernel } from '../kernel/kernel.js';
import type { MessagingService } from '../messaging/service.js';
import { RegistryService } from '../registry/service.js';
import type { Sealer } from '../secrets/sealer.js';
import { isPostgres } from '../settings.js';
import { WorkspacesService } from '../workspaces/service.js';
import { EmbeddedCommit } from './embedded/commit.js';
import { EmbeddedDataStore } from './embedded/datastore.js';
import { checkFenceFromOutside } from './embedded/fence.js';
import { EmbeddedMessaging } from './embedded/messaging.js';
import { EmbeddedRegistry } from './embedded/registry.js';
import { EmbeddedWorkspaces } from './embedded/workspaces.js';
import type { PostgresCommit } from './postgres/commit.js';
import type { PostgresDataStore } from './postgres/datastore.js';
import type { PostgresWorkspaces } from './postgres/workspaces.js';
import { type BackendCall, backendName, timedPort } from './timed.js';

export interface OpenCommitOptions {
  kernel: Kernel;
  data: DataService;
  workspaces: WorkspacesService;
  messaging: MessagingService;
  checkName: CommitServiceOptions['checkName'];
  sealer: Sealer;
  /** The URL of each domain, or `embedded`. */
  urls: Readonly<Record<'data' | 'workspaces' | 'messaging', string>>;
  onCall: (call: BackendCall) => void;
  onError: (error: unknown, about: string) => void;
  sweepIntervalMs?: number | undefined;
}

const embeddedHome: Home = { backend: 'embedded', place: 'embedded' };

export async function openCommit(options: OpenCommitOptions): Promise<CommitService> {
  const { kernel, urls } = options;
  const homes: Record<CommitDomain, Home> = {
    data: await homeOf(urls.data),
    registry: embeddedHome,
    workspaces: await homeOf(urls.workspaces),
    messaging: await homeOf(urls.messaging),
  };
  const places = new Map<string, CommitPlace>([
    ['embedded', { port: openEmbedded(options), hasOutbox: false }],
  ]);
  const opened: PostgresCommit[] = [];
  try {
    for (const [domain, url] of Object.entries(urls)) {
      // The keys of `urls` are domains.
      const { backend, place } = homes[domain as CommitDomain];
      if (!isPostgres(url) || places.has(place)) continue;
      const port = await openPostgres(options, homes, place, url);
      opened.push(port);
      places.set(place, { port: timedPort(port, 'commit', backend, options.onCall), hasOutbox: true });
    }
  } catch (error) {
    for (const port of opened) await port.close();
    throw error;
  }
  return new CommitService({
    port: new PlacedCommit({ homes, places }),
    limits: kernel.limits,
    position: () => kernel.feed.position,
    checkName: options.checkName,
    outboxes: () => Promise.all(opened.map((port) => port.outbox())),
    close: async () => {
      for (const port of opened) await port.close();
    },
  });
}

async function homeOf(url: string): Promise<Home> {
  if (url === 'embedded') return embeddedHome;
  const backend = isPostgres(url) ? 'postgres' : backendName(url);
  return {
    backend,
    place: isPostgres(url) ? (await import('./postgres/connection.js')).databaseOf(url) : backend,
  };
}

/** The same services once more, over a kernel that joins what they write. What is kept elsewhere stays outside. */
function openEmbedded({ kernel, data, workspaces, messaging, sealer }: OpenCommitOptions): EmbeddedCommit {
  const joint = new Joint(kernel);
  const { limits } = kernel;
  return new EmbeddedCommit(joint, {
    data: data.port instanceof EmbeddedDataStore ? data.over(data.port.over(joint.kernel)) : null,
    registry: new RegistryService({ port: new EmbeddedRegistry(joint.kernel), limits }),
    workspaces:
      workspaces.port instanceof EmbeddedWorkspaces
        ? new WorkspacesService({ port: workspaces.port.over(joint.kernel), limits, sealer })
        : null,
    messaging:
      messaging.port instanceof EmbeddedMessaging
        ? { ...messaging.over(messaging.port.over(joint.kernel)), signatures: messaging.signatures }
        : null,
  });
}

async function openPostgres(
  { kernel, data, workspaces, messaging, sealer, urls, onError, sweepIntervalMs }: OpenCommitOptions,
  homes: Readonly<Record<CommitDomain, Home>>,
  place: string,
  url: string,
): Promise<PostgresCommit> {
  const { openPostgresCommit } = await import('./postgres/commit.js');
  return openPostgresCommit(new URL(url), {
    limits: kernel.limits,
    nowMs: () => kernel.nowMs(),
    sealer,
    // A domain whose home is a PostgreSQL was opened with the port of it.
    data: homes.data.place === place ? { service: data, port: data.port as PostgresDataStore } : null,
    workspaces: homes.workspaces.place === place ? (workspaces.port as PostgresWorkspaces) : null,
    messaging,
    checkFence: (caller) => checkFenceFromOutside(kernel, caller),
    messagingStore: urls.messaging === 'embedded' ? kernel.manifest.id : homes.messaging.place,
    onError: (error) => onError(error, 'commits in PostgreSQL'),
    sweepIntervalMs,
  });
}
