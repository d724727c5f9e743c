/** Opens the home on PostgreSQL and Redis: domain by domain, then what connects them. */
import { type Closing, closeAll } from '../../core/close-all.js';
import { StoaError } from '../../core/errors.js';
import { withoutPassword } from '../../core/text/printable-url.js';
import { type KeyRing, openKeyRing } from '../../secrets/key-ring.js';
import { Secrets } from '../../secrets/secrets.js';
import { isOnlyRead, refusePartOfMove } from '../../transfer/move/port.js';
import { type PostgresBase, openPostgresBase } from './base.js';
import { clearFact, readFact, writeFact } from './cluster/facts.js';
import { noteKeys } from './cluster/key-checks.js';
import { checkRequirements } from './cluster/requirements.js';
import { checkOperatorToken, noCredentials, operatorCredentials } from './cluster/operator-token.js';
import { migrateCluster } from './cluster/schema.js';
import { Servers } from './cluster/servers.js';
import { migrateCommits } from './commit/schema.js';
import { PostgresDataStore } from './datastore/datastore.js';
import { PostgresNamespaceSettings } from './datastore/settings.js';
import { PostgresFind } from './find/find.js';
import { openPostgresIdentity } from './identity/identity.js';
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

/** Opens the home, or refuses with what to do. What was opened before a refusal is closed again. */
export async function openPostgresHome(options: PostgresHomeOptions): Promise<PostgresHome> {
  const { limits, onError, sweepIntervalMs, clock: given } = options;
  const opened: Closing[] = [];
  const ring = await openRing(options.secretKeys);
  if (options.operatorToken !== undefined) checkOperatorToken(options.operatorToken);
  const plan = await checkRequirements({ ...options, ring });
  const onlyRead = isOnlyRead(options.move);
  if (onlyRead) refuseUnfinished(plan, options.postgres);
  let registry: PostgresRegistry | undefined;
  try {
    const releaseDatabase =
      options.move === 'from' || options.move === 'to'
        ? await holdDatabase(options.postgres, limits)
        : undefined;
    if (releaseDatabase !== undefined) opened.unshift(releaseDatabase);
    const base = await openPostgresBase(new URL(options.postgres), {
      limits,
      onError,
      checkFence: (work, caller) => checkCallerFence(work, caller, given),
      // No request is written before the registry is open.
      agents: {
        isFresh: (agent, nowMs, untilMs) => registry?.callers.isFresh(agent, nowMs, untilMs) ?? true,
        called: async (work, agent, untilMs) => registry?.callers.called(work, agent, untilMs),
      },
      onCall: (verb, milliseconds, failed) =>
        options.onCall({ domain: 'home', backend: 'postgres', verb, milliseconds, failed }),
      isOnlyRead: onlyRead,
      ...(given && { skewMs: () => given() - Date.now() }),
    });
    opened.unshift(() => base.close());
    const { sql, beats, clock, writer, feed } = base;
    const nowMs = (): number => clock.nowMs();
    await migrateCluster(sql);
    if (options.move === undefined) await refuseDuringMove(sql, options.postgres);
    else await refusePartOfMove(factMark(sql), withoutPassword(options.postgres), options.move);
    const storeId = (await readFact(sql, 'store_id')) ?? '';
    if (!onlyRead) await noteKeys(sql, ring);
    const { secrets, servers } = openSharedSecrets(base, ring, onError);
    const credentials =
      options.move === undefined
        ? await operatorCredentials(sql, options.operatorToken, (warning) =>
            onError(warning, 'the token of the operator was replaced'),
          )
        : noCredentials;
    const opening = await openPostgresRegistry({ sql, limits, ...(given && { clock: given }) });
    registry = opening;
    const users = new KnownUsers((work, user) => opening.ensureUser(work, user));
    const identity = await openPostgresIdentity({
      sql,
      beats,
      limits,
      ...(given && { clock: given }),
      onRemoved: options.onTokenRemoved,
      onMissed: options.onTokensMissed,
      onError: (error) => onError(error, 'listening for removed tokens'),
    });
    opened.unshift(async () => identity.removals.close());
    const data = new PostgresDataStore(sql, writer, { limits, nowMs, users, onError });
    opened.unshift(() => data.close());
    const namespaceSettings = new PostgresNamespaceSettings(sql, users, limits);
    const workspaces = await openPostgresWorkspaces(sql, writer, {
      limits,
      clock,
      sealer: secrets.sealer,
      users,
      onError,
      sweepIntervalMs,
      isMoved: options.move !== undefined,
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
      agents: opening,
      isOnlyRead: onlyRead,
    });
    opened.unshift(() => messaging.close());
    followAgents(opening, { workspaces, locks, messaging });
    await migrateCommits(sql);
    const find = new PostgresFind({
      sql,
      writer,
      limits,
      nowMs,
      messages: messaging.searched(),
      onError,
      intervalMs: sweepIntervalMs,
      isOnlyRead: onlyRead,
    });
    opened.unshift(() => find.close());
    base.limitStatements();
    if (options.move === undefined) {
      opened.unshift(() => servers.close());
      await servers.start();
      // A move that started in the meantime has seen this server, or is seen by it here.
      await refuseDuringMove(sql, options.postgres);
    }
    const parts: HomeParts = {
      releaseDatabase,
      storeId,
      registry: opening,
      identity,
      data,
      namespaceSettings,
      workspaces,
      locks,
      messaging,
      find,
      secrets,
      servers,
      credentials,
    };
    return new PostgresHome(base, parts, options);
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => onError(failure, 'closing what was opened'));
    throw error;
  }
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
      if (await workspaces.holdsClaims(work, meta.user, [record.agent_id, record.name]))
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
      'A Stoa on PostgreSQL has no key ring: STOA_SECRET_KEYS is not set.',
      {
        fix: 'Make a key with "openssl rand -hex 32", and set STOA_SECRET_KEYS to it on every server.',
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
