/** Opens the home on PostgreSQL and Redis: domain by domain, then what connects them. */
import { type Closing, closeAll } from '../../core/close-all.js';
import { StoaError } from '../../core/errors.js';
import { withoutPassword } from '../../core/text/printable-url.js';
import { type KeyRing, newKeyText, openKeyRing } from '../../secrets/key-ring.js';
import { Secrets } from '../../secrets/secrets.js';
import { isOnlyRead, refusePartOfMove } from '../../transfer/move/port.js';
import { type PostgresBase, openPostgresBase } from './base.js';
import { clearFact, readFact, writeFact } from './cluster/facts.js';
import { noteKeys } from './cluster/key-checks.js';
import { checkRequirements } from './cluster/requirements.js';
import { checkOperatorToken, noCredentials, operatorCredentials } from './cluster/operator-token.js';
import { clusterTables } from './cluster/schema.js';
import { Servers } from './cluster/servers.js';
import { commitTables } from './commit/schema.js';
import { migrate } from './database/migrate.js';
import { PostgresDataStore } from './datastore/datastore.js';
import { PostgresNamespaceSettings } from './datastore/settings.js';
import { PostgresFind } from './find/find.js';
import { type PostgresIdentity, openPostgresIdentity } from './identity/identity.js';
import { KnownUsers } from './known-users.js';
import { openPostgresLocks } from './locks/locks.js';
import { openPostgresMessaging } from './messaging/open.js';
import { checkCallerFence } from './registry/fence.js';
import { renameWhileHolding } from '../../registry/refusals.js';
import { type PostgresRegistry, openPostgresRegistry } from './registry/registry.js';
import { identitiesOf } from './registry/links.js';
import { factMark, holdDatabase, refuseDuringMove } from './transfer/move.js';
import { openPostgresWorkspaces } from './workspaces/open.js';

import { type HomeParts, PostgresHome, type PostgresHomeOptions } from './home.js';

/** What a part of the home is opened with. */
interface Opening {
  readonly options: PostgresHomeOptions;
  readonly ring: KeyRing;
  readonly isOnlyRead: boolean;
  /** What is open, the newest first. It is closed in this order. */
  readonly opened: Closing[];
}

/** Opens the home, or refuses with what to do. What was opened before a refusal is closed again. */
export async function openPostgresHome(options: PostgresHomeOptions): Promise<PostgresHome> {
  const opened: Closing[] = [];
  const ring = await openRing(options.secretKeys);
  if (options.operatorToken !== undefined) checkOperatorToken(options.operatorToken);
  const plan = await checkRequirements({ ...options, ring });
  const onlyRead = isOnlyRead(options.move);
  if (onlyRead) refuseUnfinished(plan, options.postgres);
  try {
    return await openParts({ options, ring, isOnlyRead: onlyRead, opened });
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => options.onError(failure, 'closing what was opened'));
    throw error;
  }
}

async function openParts(opening: Opening): Promise<PostgresHome> {
  const { options, ring, opened } = opening;
  const { move, postgres, limits, onError } = options;
  const releaseDatabase = move === 'from' || move === 'to' ? await holdDatabase(postgres, limits) : undefined;
  if (releaseDatabase !== undefined) opened.unshift(releaseDatabase);
  // No request is written before the registry is open.
  const agents: { callers?: PostgresRegistry['callers'] } = {};
  const base = await openBase(opening, agents);
  const { sql } = base;
  await migrate(sql, clusterTables);
  if (move === undefined) await refuseDuringMove(sql, postgres);
  else await refusePartOfMove(factMark(sql), withoutPassword(postgres), move);
  const storeId = (await readFact(sql, 'store_id')) ?? '';
  if (!opening.isOnlyRead) await noteKeys(sql, ring);
  const { secrets, servers } = openSharedSecrets(base, ring, onError);
  const credentials =
    move === undefined
      ? await operatorCredentials(sql, options.operatorToken, (warning) =>
          onError(warning, 'the token of the operator was replaced'),
        )
      : noCredentials;
  const domains = await openDomains(opening, base, storeId, secrets);
  agents.callers = domains.registry.callers;
  base.limitStatements();
  if (move === undefined) {
    opened.unshift(() => servers.close());
    await servers.start();
    // A move that started in the meantime has seen this server, or is seen by it here.
    await refuseDuringMove(sql, postgres);
  }
  const parts: HomeParts = { releaseDatabase, storeId, ...domains, secrets, servers, credentials };
  return new PostgresHome(base, parts, options);
}

async function openBase(
  { options, isOnlyRead, opened }: Opening,
  agents: { readonly callers?: PostgresRegistry['callers'] },
): Promise<PostgresBase> {
  const { limits, onError, clock: given } = options;
  const base = await openPostgresBase(new URL(options.postgres), {
    limits,
    onError,
    checkFence: (work, caller) => checkCallerFence(work, caller, given),
    agents: {
      isFresh: (agent, nowMs, untilMs) => agents.callers?.isFresh(agent, nowMs, untilMs) ?? true,
      called: async (work, agent, untilMs, makes) => agents.callers?.called(work, agent, untilMs, makes),
    },
    onCall: (verb, milliseconds, failed) =>
      options.onCall({ domain: 'home', backend: 'postgres', verb, milliseconds, failed }),
    isOnlyRead,
    ...(given && { skewMs: () => given() - Date.now() }),
  });
  opened.unshift(() => base.close());
  return base;
}

type Domains = Pick<
  HomeParts,
  'registry' | 'identity' | 'data' | 'namespaceSettings' | 'workspaces' | 'locks' | 'messaging' | 'find'
>;

/** The registry and the tokens: each drops what it remembers when the other has missed something. */
async function openCallers(
  { options, opened }: Opening,
  { sql, clock }: PostgresBase,
): Promise<Pick<Domains, 'registry' | 'identity'>> {
  const { limits, onError, clock: given } = options;
  const heard: { identity?: PostgresIdentity } = {};
  const registry = await openPostgresRegistry({
    sql,
    limits,
    nowMs: () => clock.nowMs(),
    isReceiving: () => heard.identity?.isCacheValid() ?? false,
    ...(given && { clock: given }),
  });
  const identity = await openPostgresIdentity({
    sql,
    databaseClock: clock,
    limits,
    ...(given && { clock: given }),
    onRemoved: options.onTokenRemoved,
    onAgentForgotten: (agent) => registry.callers.recent.forgetNamed(agent),
    onMissed: () => {
      options.onTokensMissed();
      registry.callers.recent.clear();
    },
    onError: (error) => onError(error, 'listening for removed tokens'),
  });
  heard.identity = identity;
  opened.unshift(() => identity.removals.close());
  return { registry, identity };
}

async function openDomains(
  opening: Opening,
  base: PostgresBase,
  storeId: string,
  { sealer }: Secrets,
): Promise<Domains> {
  const { options, isOnlyRead, opened } = opening;
  const { sql, beats, clock, writer, feed } = base;
  const { limits, onError, sweepIntervalMs } = options;
  const nowMs = (): number => clock.nowMs();
  const { registry, identity } = await openCallers(opening, base);
  const users = new KnownUsers((work, user) => registry.ensureUser(work, user));
  const data = new PostgresDataStore(sql, writer, { limits, nowMs, users, onError });
  opened.unshift(() => data.close());
  const namespaceSettings = new PostgresNamespaceSettings(sql, users, limits);
  const isMoved = options.move !== undefined;
  const workspaces = await openPostgresWorkspaces(sql, writer, {
    limits,
    clock,
    sealer,
    users,
    onError,
    sweepIntervalMs,
    isMoved,
  });
  opened.unshift(() => workspaces.close());
  const locks = await openPostgresLocks({ sql, limits, users, nowMs });
  const messaging = await openPostgresMessaging({
    sql,
    beats,
    writer,
    feed,
    redis: options.redis,
    storeId,
    limits,
    nowMs,
    onError,
    agents: registry,
    isOnlyRead,
  });
  opened.unshift(() => messaging.close());
  followAgents(registry, { workspaces, locks, messaging });
  await migrate(sql, commitTables);
  const find = new PostgresFind({
    sql,
    writer,
    limits,
    nowMs,
    messages: messaging.searched(),
    onError,
    intervalMs: sweepIntervalMs,
    isOnlyRead,
  });
  opened.unshift(() => find.close());
  feed.forgetWithEpoch(() => {
    users.clear();
    for (const domain of [registry, identity, find]) domain.forgetAll();
  });
  return { registry, identity, data, namespaceSettings, workspaces, locks, messaging, find };
}

/** What the other domains do, in the same transaction, when an agent is lost, renamed or removed. */
function followAgents(
  registry: PostgresRegistry,
  { workspaces, locks, messaging }: Pick<HomeParts, 'workspaces' | 'locks' | 'messaging'>,
): void {
  registry.onPresenceEnded.push(
    (work, { meta, record }) => workspaces.releaseClaims(work, meta.user, [record.agent_id, record.name]),
    (work, { meta, record }) => locks.releaseHeldBy(work, meta.user, [record.agent_id, record.name]),
  );
  registry.onRename.push(
    async (work, { meta, record }) => {
      if (await workspaces.holdsClaims(work.sql, meta.user, [record.agent_id, record.name]))
        throw renameWhileHolding(record.name);
    },
    (work, { meta, record }, name) => locks.renameHolder(work, meta.user, record.name, name),
    async (work, { record }, name) => {
      const linked = await identitiesOf(work.sql, record.user_id, record.agent_id);
      await messaging.renameAgent(work, record.agent_id, name, linked);
    },
  );
  registry.onRemoved.push((work, { record }) => messaging.forgetKept(work, record.agent_id));
}

/** A move makes no tables in what it only reads. */
function refuseUnfinished(plan: readonly string[], url: string): void {
  if (plan.length > 0)
    throw new StoaError(
      'conflict',
      `A start on ${withoutPassword(url)} would change the database, and a move only reads its source: ${plan.join(' ')}`,
      { fix: 'Start one server of this version on the database and stop it, then move.' },
    );
}

/** Refuses to start without a key ring: with a new ring, this server could not read the secrets of the others. */
function openRing(secretKeys: string | undefined): Promise<KeyRing> {
  if (secretKeys === undefined || secretKeys.trim() === '')
    throw new StoaError(
      'invalid_config',
      'STOA_SECRET_KEYS is not set. A Stoa on PostgreSQL has no other key ring.',
      {
        fix: `Set it to the same keys on every server, and keep them. A new Stoa can use: STOA_SECRET_KEYS=${newKeyText()}`,
      },
    );
  return openKeyRing({ file: null, environment: secretKeys });
}

/** What a start on these databases adds, in sentences, or its refusal. Nothing is changed. */
export async function planPostgresHome(
  options: Pick<PostgresHomeOptions, 'postgres' | 'redis' | 'secretKeys' | 'limits' | 'onError' | 'move'>,
): Promise<string[]> {
  return checkRequirements({ ...options, ring: await openRing(options.secretKeys) });
}

/** The key ring of all servers. */
function openSharedSecrets(
  { sql, beats, feed }: PostgresBase,
  ring: KeyRing,
  onError: PostgresHomeOptions['onError'],
): { secrets: Secrets; servers: Servers } {
  const servers = new Servers({
    pool: sql,
    sql: beats,
    keyIds: () => ring.keyIds,
    feedSeq: () => feed.reachedSeq,
    onError,
  });
  const mark = {
    read: () => readFact(sql, 'rekeying'),
    write: (keyId: string) => writeFact(sql, 'rekeying', keyId),
    clear: (keyId: string) => clearFact(sql, 'rekeying', keyId),
  };
  const secrets = new Secrets(ring, mark, async (keyId) => {
    const without = await servers.withoutKey(keyId);
    if (without.length > 0)
      throw new StoaError(
        'conflict',
        `These servers do not have the key ${keyId} yet: ${without.join(', ')}.`,
        {
          fix: 'Add the key to STOA_SECRET_KEYS on every server and restart them, then re-key.',
        },
      );
  });
  return { secrets, servers };
}
