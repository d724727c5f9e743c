/** Opens the services of the domains on a home. */
import type { Closing } from '../core/close-all.js';
import type { Listeners } from '../core/listeners.js';
import type { Limits } from '../core/settings/limits.js';
import type { Documents } from '../datastore/port.js';
import { DataService } from '../datastore/service.js';
import type { BackendCall, Home } from '../homes/home.js';
import { IdentityService } from '../identity/service.js';
import { hashToken, newOperatorToken } from '../identity/tokens.js';
import { LocksService } from '../locks/service.js';
import { MessagingService } from '../messaging/service.js';
import { RegistryService } from '../registry/service.js';
import type { Secrets } from '../secrets/secrets.js';
import { WorkspacesService } from '../workspaces/service.js';
import { openDataBackend } from './datastore.js';
import type { Stoa, StoaOptions } from './stoa.js';

/** What the services are opened with. */
export interface Opening {
  readonly home: Home;
  readonly options: StoaOptions;
  readonly limits: Limits;
  readonly onError: Stoa['onError'];
  readonly calls: Listeners<BackendCall>;
  /** What is open, the newest first. It is closed in this order. */
  readonly opened: Closing[];
}

export type Domains = Pick<
  Stoa,
  'identity' | 'operatorToken' | 'registry' | 'workspaces' | 'locks' | 'data' | 'messaging'
>;

export async function openDomains(opening: Opening): Promise<Domains> {
  const { home, options, limits, opened } = opening;
  const { writer, secrets, feed } = home;
  const { sealer } = secrets;
  const { identity, operatorToken } = openIdentity(opening);
  const registry = new RegistryService({ writer, port: home.registry, limits });
  const workspaces = new WorkspacesService({ writer, port: home.workspaces, limits, sealer });
  opened.unshift(() => workspaces.close());
  const locks = new LocksService({ writer, port: home.locks, limits, feed });
  const data = await openData(opening);
  opened.unshift(
    () => data.close(),
    () => identity.close(),
  );
  const messaging = new MessagingService({
    writer,
    port: home.messaging,
    limits,
    sealer,
    feed,
    agents: registry.agents,
    ...(options.messagingSettings && { settings: options.messagingSettings }),
  });
  opened.unshift(async () => messaging.close());
  holdSecrets(secrets, workspaces, messaging);
  opened.unshift(() => secrets.close());
  return { identity, operatorToken, registry, workspaces, locks, data, messaging };
}

function openIdentity({ home, limits, onError }: Opening): Pick<Stoa, 'identity' | 'operatorToken'> {
  const operatorToken = home.operatorToken ?? newOperatorToken();
  // Where the home has only a hash, this process uses a token that no other process knows.
  const ownHashes = home.operatorToken === null ? [hashToken(operatorToken)] : [];
  const identity = new IdentityService({
    writer: home.writer,
    port: home.identity,
    limits,
    operatorTokenHashes: async () => [await home.operatorTokenHash(), ...ownHashes],
    nowMs: () => home.nowMs(),
    onError,
  });
  return { identity, operatorToken };
}

/** The documents of the home, or of a store beside it. */
async function openData({ home, options, limits, calls, onError }: Opening): Promise<DataService> {
  const nowMs = (): number => home.nowMs();
  const service = (documents: Documents): DataService =>
    new DataService({ ...documents, limits, nowMs, feed: home.feed, onError });
  const url = options.datastore ?? null;
  if (url === null) return service({ port: home.data, writer: home.writer });
  const { current, ...documents } = await openDataBackend(url, {
    limits,
    nowMs,
    notes: home.storeNotes,
    onCall: (call) => calls.tell(call),
    onError: (error) => onError(error, 'background work on the data store'),
  });
  if (current !== null) home.find.useStore(current);
  return service(documents);
}

/** Both re-encrypt their secrets when the key changes. */
function holdSecrets(secrets: Secrets, workspaces: WorkspacesService, messaging: MessagingService): void {
  secrets.addHolder({
    name: 'workspaces',
    reseal: (onProgress) => workspaces.port.reseal(onProgress),
    begin: () => workspaces.port.beginReseal(),
  });
  secrets.addHolder({
    name: 'messaging',
    reseal: (_onProgress, signal) =>
      messaging.port.resealKept((sealed, id) => {
        signal.throwIfAborted();
        return secrets.sealer.reseal(sealed, id);
      }),
  });
}
