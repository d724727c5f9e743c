/** The registry on the embedded kernel: each operation one transaction in the shard of its user. */
import { userKey } from '../../identity/user-key.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Idempotency } from '../../kernel/once.js';
import { RowCache } from '../../kernel/row-cache.js';
import type { Store } from '../../kernel/store.js';
import { KeyQueue } from '../../key-queue.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { AgentChange } from '../../registry/changes.js';
import { NanosecondClock, idBytes, isAgentId, makeAgentId, makeSessionId } from '../../registry/ids.js';
import { agentCountKey, linkByIdentityKey, nameKey, sessionStatusPrefix } from '../../registry/keys.js';
import type { LeaseTimes } from '../../registry/lease.js';
import type { Lease, SessionRecord, SessionStatus, StoredAgent, StoredUser } from '../../registry/model.js';
import type {
  AgentFilter,
  CreateAgent,
  KeyedPage,
  KeyedPageRequest,
  PutAgent,
  RegistryPort,
  UserChange,
  UserScope,
  WriteGuard,
} from '../../registry/port.js';
import type { AgentVerb } from '../../registry/transitions.js';
import { AgentVerbs, activityTimer, agentNotFound } from './registry-agents.js';
import { registryFamilies as families } from './registry-families.js';
import { LeaseVerbs, type PresenceLostHook, leaseTimer } from './registry-leases.js';
import {
  identityTaken,
  linkDirectoryId,
  linkIdentity,
  linkedAgent,
  linkedIdentities,
  unlinkIdentity,
} from './registry-links.js';
import { each, matches, matchingAgents, mergedPage } from './registry-lists.js';
import { agentIdOfRow, findAgent, readAgents, readCount, readSession } from './registry-rows.js';
import { SessionVerbs, sessionExists, sessionNotFound } from './registry-sessions.js';
import { UserVerbs, keyOfUser } from './registry-users.js';

const noBytes = Buffer.alloc(0);
const agentIdBytes = 32;

export { registryFamilies } from './registry-families.js';
export { decodeRegistryEntry } from './registry-inspect.js';
export type { PresenceLostHook } from './registry-leases.js';

/** The registry's operations over an open transaction, for joining them with those of other domains. */
export class RegistryVerbs {
  readonly users: UserVerbs;
  readonly leases: LeaseVerbs;
  readonly agents: AgentVerbs;
  readonly sessions: SessionVerbs;

  constructor(kernel: Kernel) {
    const { limits } = kernel;
    const outages = () => kernel.outages;
    this.users = new UserVerbs(limits);
    this.leases = new LeaseVerbs(limits, outages);
    this.agents = new AgentVerbs(limits, outages, this.users, this.leases);
    this.sessions = new SessionVerbs(limits, this.agents, this.leases);
    kernel.handleTimer(leaseTimer, (tx, reference) => this.leases.timerRang(tx, reference));
    kernel.handleTimer(activityTimer, (tx, reference) => this.agents.timerRang(tx, reference));
  }
}

export interface EmbeddedRegistryOptions {
  /** Run in the transaction in which an agent's presence ends. */
  onPresenceLost?: readonly PresenceLostHook[];
}

/** A scope's store and key: where to look, and whose things count. */
interface Place {
  store: Store;
  user: Buffer | null;
}

export class EmbeddedRegistry implements RegistryPort {
  readonly verbs: RegistryVerbs;
  readonly #kernel: Kernel;
  readonly #clock = new NanosecondClock();
  /** By id. An agent is three rows, and most agents are asked for far more often than they change. */
  readonly #agents: RowCache<StoredAgent>;
  /** By user and agent name: asked with each request that names an agent, and nearly always none. */
  readonly #identityNames = new Map<string, readonly string[]>();
  readonly #ids = new KeyQueue();

  constructor(kernel: Kernel, options: EmbeddedRegistryOptions = {}) {
    this.#kernel = kernel;
    this.#agents = new RowCache(kernel.stores, kernel.limits.agentsCachedMax, agentIdOfRow);
    for (const store of kernel.stores)
      store.onWritten((operations) => {
        if (
          operations.some(
            ({ family }) => family === families.identityLinks || family === families.agentsByName,
          )
        )
          this.#identityNames.clear();
      });
    this.verbs = new RegistryVerbs(kernel);
    this.verbs.leases.onPresenceLost.push(...(options.onPresenceLost ?? []));
  }

  leaseTimes(): LeaseTimes {
    return this.verbs.leases.times();
  }

  nowMs(): number {
    return this.#kernel.nowMs();
  }

  async createAgent(input: CreateAgent, idempotency: Idempotency | null): Promise<StoredAgent> {
    const user = userKey(input.user);
    const agentId = makeAgentId(user, input.name, this.#clock.next(this.nowMs()));
    return this.#madeUnder(
      agentId,
      user,
      (tx) => this.verbs.agents.create(tx, agentId, input, idempotency),
      (agent) => agent.record.agent_id,
    );
  }

  putAgent(input: PutAgent, guard: WriteGuard): Promise<StoredAgent> {
    return this.#inTurn(input.agentId, () => this.#putAgent(input, guard));
  }

  async #putAgent(input: PutAgent, guard: WriteGuard): Promise<StoredAgent> {
    const user = userKey(input.user);
    const store = this.#kernel.storeOf(user);
    const owner = this.#kernel.locate(input.agentId)?.get(families.agentsById, idBytes(input.agentId));
    // Another's entry in the directory stays as it is.
    if (owner !== undefined && !owner.equals(user)) throw agentNotFound(input.agentId);
    await this.#kernel.enter(input.agentId, user);
    return store.transact((tx) => this.verbs.agents.put(tx, input, guard));
  }

  getAgent(scope: UserScope, agentId: string): StoredAgent | undefined {
    const known = this.#agents.get(agentId);
    // Of another user, or of this one under another spelling: the rows decide.
    if (known !== undefined && (scope === null || scope === known.meta.user)) return known;
    const place = this.#place(scope, agentId);
    const found = place === undefined ? undefined : findAgent(place.store, place.user, agentId);
    if (found !== undefined) this.#agents.set(agentId, found);
    return found;
  }

  async listAgents(
    scope: UserScope,
    filter: AgentFilter,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<StoredAgent>> {
    const user = scope === null ? null : this.#userOf(scope);
    const stores = user === null ? this.#kernel.stores : [this.#kernel.storeOf(user)];
    return mergedPage(
      stores,
      (store, after) => matchingAgents(store, filter, user, after, this.#kernel.limits.listSeeksMax),
      readAgents,
      page,
    );
  }

  async countAgents(user: string): Promise<number> {
    const key = this.#userOf(user);
    return readCount(this.#kernel.storeOf(key), agentCountKey(key));
  }

  updateAgent(
    scope: UserScope,
    agentId: string,
    change: AgentChange,
    guard: WriteGuard,
  ): Promise<StoredAgent> {
    return this.#transact(scope, agentId, (tx, user) =>
      this.verbs.agents.update(tx, user, agentId, change, guard),
    );
  }

  moveAgent(scope: UserScope, agentId: string, verb: AgentVerb, guard: WriteGuard): Promise<StoredAgent> {
    return this.#transact(scope, agentId, (tx, user) =>
      this.verbs.agents.move(tx, user, agentId, verb, guard),
    );
  }

  async deleteAgent(scope: UserScope, agentId: string, guard: WriteGuard): Promise<void> {
    for (;;) {
      const thinned = await this.#transact(scope, agentId, (tx, user) =>
        this.verbs.agents.thinSessions(tx, user, agentId, guard),
      );
      if (thinned.length === 0) break;
      await this.#kernel.leave(thinned);
    }
    await this.#inTurn(agentId, async () => {
      const sessions = await this.#transact(scope, agentId, (tx, user) =>
        this.verbs.agents.delete(tx, user, agentId, guard),
      );
      await this.#kernel.leave([agentId, ...sessions]);
    });
  }

  heartbeat(scope: UserScope, agentId: string, holder: string, guard: WriteGuard): Promise<Lease> {
    return this.#transact(scope, agentId, (tx, user) =>
      this.verbs.leases.heartbeat(tx, this.verbs.agents.require(tx, user, agentId), holder, guard),
    );
  }

  releaseLease(scope: UserScope, agentId: string, holder: string | null, guard: WriteGuard): Promise<void> {
    return this.#transact(scope, agentId, (tx, user) =>
      this.verbs.leases.release(tx, this.verbs.agents.require(tx, user, agentId), holder, guard),
    );
  }

  async openSession(
    scope: UserScope,
    agentId: string,
    sessionId: string | null,
    guard: WriteGuard,
    idempotency: Idempotency | null,
  ): Promise<SessionRecord> {
    const place = this.#place(scope, agentId);
    const owner = place?.store.get(families.agentsById, idBytes(agentId));
    if (place === undefined || owner === undefined || place.user?.equals(owner) === false)
      throw agentNotFound(agentId);
    const open = (id: string) => (tx: Transaction) =>
      this.verbs.sessions.open(tx, place.user, agentId, id, guard, idempotency);
    if (sessionId === null) {
      const id = makeSessionId(this.nowMs());
      return this.#madeUnder(id, owner, open(id), (session) => session.session_id);
    }
    return this.#inTurn(sessionId, async () => {
      const known = this.#kernel.locate(sessionId);
      const isTaken = known !== undefined && this.verbs.sessions.find(known, null, sessionId) !== undefined;
      if (isTaken && known !== place.store) throw sessionExists(sessionId);
      // An id of the caller's own stays in the directory whatever happens: another attempt may be under way with it.
      if (!isTaken) await this.#kernel.enter(sessionId, owner);
      return place.store.transact(open(sessionId));
    });
  }

  async getSession(scope: UserScope, sessionId: string): Promise<SessionRecord | undefined> {
    const place = this.#place(scope, sessionId);
    return place === undefined ? undefined : this.verbs.sessions.find(place.store, place.user, sessionId);
  }

  async listSessions(
    scope: UserScope,
    agentId: string,
    status: SessionStatus | undefined,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<SessionRecord>> {
    const place = this.#place(scope, agentId);
    if (place === undefined || findAgent(place.store, place.user, agentId) === undefined)
      throw agentNotFound(agentId);
    const agent = idBytes(agentId);
    const family = status === undefined ? families.sessionsByAgent : families.sessionsByStatus;
    const prefix = status === undefined ? agent : sessionStatusPrefix(status, agent);
    const keys = function* (store: Store, after: Buffer | null) {
      const bounds = prefixRange(prefix);
      if (after !== null) Object.assign(bounds, { gte: undefined, gt: Buffer.concat([prefix, after]) });
      for (const { key } of store.range(family, bounds)) yield key.subarray(prefix.length);
    };
    return mergedPage([place.store], (store, after) => matches(keys(store, after)), each(readSession), page);
  }

  async closeSession(
    scope: UserScope,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): Promise<SessionRecord> {
    const place = this.#place(scope, sessionId);
    if (place === undefined) throw sessionNotFound(sessionId);
    return place.store.transact((tx) => this.verbs.sessions.close(tx, place.user, agentId, sessionId, guard));
  }

  putUser(user: string, change: UserChange): Promise<StoredUser> {
    return this.#kernel.storeOf(userKey(user)).transact((tx) => this.verbs.users.put(tx, user, change));
  }

  async getUser(user: string): Promise<StoredUser | undefined> {
    const key = this.#userOf(user);
    return this.verbs.users.read(this.#kernel.storeOf(key), key);
  }

  async listUsers(page: KeyedPageRequest): Promise<KeyedPage<StoredUser>> {
    return mergedPage(
      this.#kernel.stores,
      (store, after) => matches(userKeysAfter(store, after)),
      each((store, key) => this.verbs.users.read(store, key)),
      page,
    );
  }

  async sawUser(user: string): Promise<void> {
    const key = this.#userOf(user);
    const store = this.#kernel.storeOf(key);
    const known = this.verbs.users.read(store, key);
    if (known === undefined || this.verbs.users.isSeenLately(known.record, this.nowMs())) return;
    await store.transact((tx) => this.verbs.users.saw(tx, user));
  }

  linkIdentity(scope: UserScope, agentId: string, identity: string): Promise<void> {
    return this.#inTurn(linkDirectoryId(identity), () => this.#linkIdentity(scope, agentId, identity));
  }

  async #linkIdentity(scope: UserScope, agentId: string, identity: string): Promise<void> {
    const agent = this.getAgent(scope, agentId);
    if (agent === undefined) throw agentNotFound(agentId);
    const linked = await this.linkedAgent(identity);
    if (linked !== undefined && linked.record.agent_id !== agentId) throw identityTaken(identity);
    await this.#kernel.enter(linkDirectoryId(identity), idBytes(agent.record.user_id));
    await this.#transact(scope, agentId, (tx, user) =>
      linkIdentity(tx, this.verbs.agents.require(tx, user, agentId), identity),
    );
  }

  async listIdentities(
    scope: UserScope,
    agentId: string,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<string>> {
    const place = this.#place(scope, agentId);
    if (place === undefined || findAgent(place.store, place.user, agentId) === undefined)
      throw agentNotFound(agentId);
    return mergedPage(
      [place.store],
      (store, after) => matches(linkedIdentities(store, idBytes(agentId), after)),
      each((_store, key) => key.toString()),
      page,
    );
  }

  async unlinkIdentity(identity: string): Promise<void> {
    await this.#kernel.locate(linkDirectoryId(identity))?.transact((tx) => unlinkIdentity(tx, identity));
  }

  async linkedAgent(identity: string): Promise<StoredAgent | undefined> {
    const store = this.#kernel.locate(linkDirectoryId(identity));
    return store === undefined ? undefined : linkedAgent(store, identity);
  }

  isLinked(user: string, agentId: string, identity: string): boolean {
    return (
      this.#kernel
        .storeOf(userKey(user))
        .get(families.identityLinks, linkByIdentityKey(identity))
        ?.equals(idBytes(agentId)) ?? false
    );
  }

  identitiesOf(user: string, agent: string): readonly string[] {
    const name = `${user}\0${agent}`;
    const known = this.#identityNames.get(name);
    if (known !== undefined) return known;
    const key = userKey(user);
    const store = this.#kernel.storeOf(key);
    const named = Array.from(
      store.range(families.agentsByName, prefixRange(nameKey(agent, key, noBytes))),
      (row) => row.key.subarray(-agentIdBytes),
    );
    const byId = isAgentId(agent) && this.getAgent(user, agent) !== undefined ? [idBytes(agent)] : [];
    const found = [...named, ...byId].flatMap((id) => Array.from(linkedIdentities(store, id, null), String));
    if (this.#identityNames.size >= this.#kernel.limits.agentsCachedMax) this.#identityNames.clear();
    this.#identityNames.set(name, found);
    return found;
  }

  /** Where a thing of this scope lies: in the user's shard, or where the directory has it. */
  #place(scope: UserScope, id: string): Place | undefined {
    if (scope !== null) {
      const user = this.#userOf(scope);
      return { store: this.#kernel.storeOf(user), user };
    }
    const store = this.#kernel.locate(id);
    return store === undefined ? undefined : { store, user: null };
  }

  /**
   * For ids that callers choose themselves. With several shards the directory alone knows whose one is, in a transaction of
   * its own: two who want the same would both be let in.
   */
  #inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#kernel.stores.length === 1 ? work() : this.#ids.run(id, work);
  }

  /** Makes a thing under a new id that is in the directory before it; a refusal, or an earlier answer, takes the id out again. */
  async #madeUnder<T>(
    id: string,
    user: Buffer,
    make: (tx: Transaction) => T,
    idOf: (made: T) => string,
  ): Promise<T> {
    await this.#kernel.enter(id, user);
    let made: T;
    try {
      made = await this.#kernel.storeOf(user).transact(make);
    } catch (error) {
      await this.#kernel.leave([id]);
      throw error;
    }
    if (idOf(made) !== id) await this.#kernel.leave([id]);
    return made;
  }

  #userOf(user: string): Buffer {
    return keyOfUser(this.#kernel.storeOf(userKey(user)), user);
  }

  async #transact<T>(
    scope: UserScope,
    agentId: string,
    body: (tx: Transaction, user: Buffer | null) => T,
  ): Promise<T> {
    const place = this.#place(scope, agentId);
    if (place === undefined) throw agentNotFound(agentId);
    return place.store.transact((tx) => body(tx, place.user));
  }
}

function* userKeysAfter(store: Store, after: Buffer | null): Generator<Buffer> {
  for (const { key } of store.range(families.users, after === null ? {} : { gt: after })) yield key;
}
