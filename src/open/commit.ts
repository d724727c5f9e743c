/** Commits where the domains are: in the data directory, or in the PostgreSQL that several of them share. */
import type { CommitSteps } from '../commit/operations.js';
import type { CommitDomain, CommitHome, DomainPlace } from '../commit/placement.js';
import { CommitService, type CommitServiceOptions } from '../commit/service.js';
import type { Step, Writer } from '../core/write.js';
import type { Kernel } from '../homes/directory/kernel/kernel.js';
import type { MessagingService } from '../messaging/service.js';
import { isPostgres } from '../core/settings/settings.js';
import { checkFenceFromOutside } from '../homes/directory/fence.js';
import type { PostgresCommit } from '../homes/postgres/commit/commit.js';
import { type BackendCall, backendName, timedPort } from './timed.js';

export interface OpenCommitOptions {
  kernel: Kernel;
  /** Of the data directory. */
  writer: Writer;
  steps: CommitSteps;
  messaging: MessagingService;
  checkName: CommitServiceOptions['checkName'];
  /** The URL of each domain, or `embedded`. */
  urls: Readonly<Record<'data' | 'workspaces' | 'messaging', string>>;
  onCall: (call: BackendCall) => void;
  onError: (error: unknown, about: string) => void;
  sweepIntervalMs?: number | undefined;
}

const inDirectory: DomainPlace = { backend: 'embedded', place: 'embedded' };

export async function openCommit(options: OpenCommitOptions): Promise<CommitService> {
  const { kernel, steps, writer, messaging, urls } = options;
  const places: Record<CommitDomain, DomainPlace> = {
    data: await placeOf(urls.data),
    registry: inDirectory,
    workspaces: await placeOf(urls.workspaces),
    messaging: await placeOf(urls.messaging),
  };
  const directory: CommitHome = {
    writer,
    hasOutbox: false,
    messages: (caller) => async (operation) => {
      const [step, ...before] = (await messaging.steps.postInCommit(caller, operation)).toReversed();
      // The last of at least one step is the message.
      return { step: step as Step<unknown>, checks: before as Step<void>[] };
    },
  };
  const homes = new Map<string, CommitHome>([[inDirectory.place, directory]]);
  const opened: PostgresCommit[] = [];
  try {
    for (const [domain, url] of Object.entries(urls)) {
      // The keys of `urls` are domains.
      const { backend, place } = places[domain as CommitDomain];
      if (!isPostgres(url) || homes.has(place)) continue;
      const home = await openPostgres(options, places, url);
      opened.push(home);
      homes.set(place, timedPort(home, 'commit', backend, options.onCall));
    }
  } catch (error) {
    for (const home of opened) await home.close();
    throw error;
  }
  return new CommitService({
    steps,
    placement: { places, homes },
    limits: kernel.limits,
    position: () => kernel.feed.newest(),
    checkName: options.checkName,
    outboxes: () => Promise.all(opened.map((home) => home.outbox())),
    close: async () => {
      for (const home of opened) await home.close();
    },
  });
}

async function placeOf(url: string): Promise<DomainPlace> {
  if (url === 'embedded') return inDirectory;
  const backend = isPostgres(url) ? 'postgres' : backendName(url);
  return {
    backend,
    place: isPostgres(url) ? (await import('../homes/postgres/connection.js')).databaseOf(url) : backend,
  };
}

async function openPostgres(
  { kernel, messaging, urls, onError, sweepIntervalMs }: OpenCommitOptions,
  places: Readonly<Record<CommitDomain, DomainPlace>>,
  url: string,
): Promise<PostgresCommit> {
  const { openPostgresCommit } = await import('../homes/postgres/commit/commit.js');
  return openPostgresCommit(new URL(url), {
    limits: kernel.limits,
    messaging,
    checkFence: (caller) => checkFenceFromOutside(kernel, caller),
    hasDocuments: isPostgres(urls.data) && (await placeOf(url)).place === places.data.place,
    messagingStore: urls.messaging === 'embedded' ? kernel.manifest.id : places.messaging.place,
    onError: (error) => onError(error, 'commits in PostgreSQL'),
    sweepIntervalMs,
  });
}
