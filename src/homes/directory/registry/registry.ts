/**
 * The registry in the directory: reads of the user's shard, and steps there, together with shard 00 if an id
 * is entered.
 */
import type { Writer } from '../../../core/write.js';
import { forgetAgent } from '../../../registry/forgetting.js';
import type { CallerAgents } from '../writer.js';
import { versionFailure } from '../../../core/version-failure.js';
import { type DirectoryStep, type Now, step, stepWithRoot } from '../step.js';
import { userKey } from '../../../identity/user-key.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import { RowCache } from '../kernel/row-cache.js';
import type { Store } from '../kernel/store.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { AgentChange } from '../../../registry/lifecycle/changes.js';
import { NanosecondClock, idBytes, makeAgentId, makeSessionId } from '../../../registry/ids.js';
import { decodeAgent } from '../../../registry/layout/codec.js';
import { agentCountKey, linkByIdentityKey, sessionStatusPrefix } from '../../../registry/layout/keys.js';
import { type CountedLease, checkFence, counted, settled } from '../../../registry/lifecycle/lease.js';
import type { SessionRecord, SessionStatus, StoredAgent, StoredUser } from '../../../registry/model.js';
import type {
  AgentFilter,
  AgentView,
  CreateAgent,
  KeyedPage,
  KeyedPageRequest,
  PutAgent,
  RegistryPort,
  UserChange,
  UserScope,
  WriteGuard,
} from '../../../registry/port.js';
import {
  agentNotFound,
  identityTaken,
  leaseNumberDiffers,
  linkNotFound,
  sessionExists,
} from '../../../registry/refusals.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import type { AgentVerb } from '../../../registry/lifecycle/transitions.js';
import { registryFamilies as families } from './families.js';
import { IdentityNames } from './identity-names.js';
import { linkDirectoryId, linkIdentity, linkedAgent, linkedIdentities, unlinkIdentity } from './links.js';
import { each, matches, matchingAgents, mergedPage } from './lists.js';
import { agentIdOfRow, agentNamed, findAgent, readAgents, readCount, readSession } from './rows.js';
import { keyOfUser } from './users.js';
import { RegistryVerbs } from './verbs.js';

export { registryFamilies } from './families.js';
export { decodeRegistryEntry } from './inspect.js';
export type { PresenceLostHook } from './leases.js';

/** The store to read, and the key of the user whose records are visible. */
interface Place {
  store: Store;
  user: Buffer | null;
}

export class DirectoryRegistry implements RegistryPort {
  readonly verbs: RegistryVerbs;
  /** The removals that are under way. */
  forgetting: Promise<void> = Promise.resolve();
  readonly #kernel: Kernel;
  readonly #clock = new NanosecondClock();
  /** By id. An agent is three rows: it saves 16 µs, a quarter of a GET of the agent. */
  readonly #agents: RowCache<AgentView>;
  readonly #identityNames: IdentityNames;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#agents = new RowCache(kernel.stores, kernel.limits.agentsCachedMax, agentIdOfRow);
    this.#identityNames = new IdentityNames(kernel);
    this.verbs = new RegistryVerbs(kernel);
  }

  nowMs(): number {
    return this.#kernel.nowMs();
  }

  /** For the writer of the home. */
  readonly callerAgents: CallerAgents = {
    isFresh: (agent, nowMs, untilMs) => this.verbs.recent.isFresh(agent, nowMs, untilMs),
    called: (tx, root, agent, untilMs) => void this.calledIn(tx, root, agent, untilMs),
  };

  /** Removes agents that were away for too long, with the writer of the home. */
  forgetAbsent(writer: Writer, onError: (error: unknown, about: string) => void): void {
    this.verbs.leases.onForgotten = ({ record }) => {
      this.forgetting = this.forgetting
        .then(() => forgetAgent(writer, this, record.agent_id))
        .catch((error: unknown) => onError(error, 'forgetting a lost agent'));
    };
  }

  createAgent(input: CreateAgent): DirectoryStep<AgentView> {
    const user = userKey(input.user);
    const agentId = makeAgentId(user, input.name, this.#clock.next(this.nowMs()));
    return stepWithRoot(this.#kernel.storeOf(user), (tx, root) => {
      this.#kernel.enterIn(root, agentId, user);
      return this.#view(this.verbs.agents.create(tx, agentId, input));
    });
  }

  putAgent(input: PutAgent, guard: WriteGuard): DirectoryStep<AgentView> {
    const user = userKey(input.user);
    return stepWithRoot(this.#kernel.storeOf(user), (tx, root) => {
      if (this.#isOfAnother(root, input.agentId, user)) throw agentNotFound(input.agentId);
      this.#kernel.enterIn(root, input.agentId, user);
      return this.#view(this.verbs.agents.put(tx, root, input, guard));
    });
  }

  async getAgent(scope: UserScope, agentId: string): Promise<AgentView | undefined> {
    const known = this.#agents.get(agentId);
    // The agent belongs to another user, or to this user in another spelling: the rows decide.
    if (known !== undefined && (scope === null || scope === known.meta.user)) return known;
    const { store, user } = this.#place(scope, agentId);
    const found = findAgent(store, user, agentId);
    if (found === undefined) return undefined;
    const view = this.#view(found);
    this.#agents.set(agentId, view);
    return view;
  }

  agentNamed(user: string, name: string): string | undefined {
    const key = this.#userOf(user);
    return agentNamed(this.#kernel.storeOf(key), key, name);
  }

  async someNames(user: string, limit: number): Promise<string[]> {
    const key = this.#userOf(user);
    const rows = this.#kernel.storeOf(key).range(families.agents, { ...prefixRange(key), limit });
    return Array.from(rows, ({ value }) => decodeAgent(value).name);
  }

  async listAgents(
    scope: UserScope,
    filter: AgentFilter,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<AgentView>> {
    const user = scope === null ? null : this.#userOf(scope);
    const stores = user === null ? this.#kernel.stores : [this.#kernel.storeOf(user)];
    const { items, nextKey } = await mergedPage(
      stores,
      (store, after) => matchingAgents(store, filter, user, after, this.#kernel.limits.listSeeksMax),
      readAgents,
      page,
      'hex',
    );
    return { items: items.map((agent) => this.#view(agent)), nextKey };
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
  ): DirectoryStep<AgentView> {
    const { store, user } = this.#place(scope, agentId);
    const run = (tx: Transaction, root: Transaction): AgentView =>
      this.#view(this.verbs.agents.update(tx, root, user, agentId, change, guard));
    // The identity that the server keeps for the agent is in shard 00, and shows the agent's name.
    return change.name === undefined ? step(store, (tx) => run(tx, tx)) : stepWithRoot(store, run);
  }

  moveAgent(scope: UserScope, agentId: string, verb: AgentVerb, guard: WriteGuard): DirectoryStep<AgentView> {
    return this.#step(scope, agentId, (tx, user) =>
      this.#view(this.verbs.agents.move(tx, user, agentId, verb, guard)),
    );
  }

  thinSessions(
    scope: UserScope,
    agentId: string,
    guard: WriteGuard,
    forgets = false,
  ): DirectoryStep<boolean> {
    const { store, user } = this.#place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const thinned = this.verbs.agents.thinSessions(tx, user, agentId, guard, forgets);
      for (const id of thinned) this.#kernel.leaveIn(root, id);
      return thinned.length > 0;
    });
  }

  deleteAgent(scope: UserScope, agentId: string, guard: WriteGuard, forgets = false): DirectoryStep<void> {
    const { store, user } = this.#place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const { sessions, identities } = this.verbs.agents.delete(tx, root, user, agentId, guard, forgets);
      for (const id of [agentId, ...sessions, ...identities.map(linkDirectoryId)])
        this.#kernel.leaveIn(root, id);
    });
  }

  requireAgentVersion(scope: UserScope, agentId: string, version: number): DirectoryStep<void> {
    return this.#step(scope, agentId, (tx, user) => {
      const current = findAgent(tx, user, agentId)?.meta.version ?? 0;
      if (current !== version) throw versionFailure(`The agent ${agentId}`, current, version);
    });
  }

  heartbeat(
    scope: UserScope,
    agentId: string,
    holder: string,
    guard: WriteGuard,
  ): DirectoryStep<CountedLease> {
    const { agents, leases } = this.verbs;
    return this.#step(scope, agentId, (tx, user) =>
      counted(leases.heartbeat(tx, agents.require(tx, user, agentId), holder, guard), leases.times()),
    );
  }

  releaseLease(
    scope: UserScope,
    agentId: string,
    holder: string | null,
    guard: WriteGuard,
  ): DirectoryStep<void> {
    return this.#step(scope, agentId, (tx, user) =>
      this.verbs.leases.release(tx, this.verbs.agents.require(tx, user, agentId), holder, guard),
    );
  }

  requireLease(scope: UserScope, agentId: string, fence: number): DirectoryStep<void> {
    return this.#step(scope, agentId, (tx, user) => {
      const lease = findAgent(tx, user, agentId)?.lease ?? null;
      // The lease as of now: the sweeper may not have ended it yet.
      const current = lease === null ? 0 : settled(lease, this.verbs.leases.times(), tx.nowMs).fence;
      if (current !== fence) throw leaseNumberDiffers(agentId, current, fence);
    });
  }

  async checkFence(user: string, agentId: string, fence: number | null): Promise<void> {
    const agent = await this.getAgent(user, agentId);
    checkFence(agent?.lease ?? null, fence, this.verbs.leases.times(), this.nowMs());
  }

  openSession(
    scope: UserScope,
    agentId: string,
    sessionId: string | null,
    guard: WriteGuard,
  ): DirectoryStep<SessionRecord> {
    const { store, user } = this.#place(scope, agentId);
    const id = sessionId ?? makeSessionId(this.nowMs());
    return stepWithRoot(store, (tx, root) => {
      const session = this.verbs.sessions.open(tx, user, agentId, id, guard);
      const owner = idBytes(session.user_id);
      if (this.#isOfAnother(root, id, owner)) throw sessionExists(id);
      this.#kernel.enterIn(root, id, owner);
      return session;
    });
  }

  async getSession(scope: UserScope, sessionId: string): Promise<SessionRecord | undefined> {
    const { store, user } = this.#place(scope, sessionId);
    return this.verbs.sessions.find(store, user, sessionId);
  }

  async listSessions(
    scope: UserScope,
    agentId: string,
    status: SessionStatus | undefined,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<SessionRecord>> {
    const store = this.#storeOfAgent(scope, agentId);
    const agent = idBytes(agentId);
    const family = status === undefined ? families.sessionsByAgent : families.sessionsByStatus;
    const prefix = status === undefined ? agent : sessionStatusPrefix(status, agent);
    const keys = function* (reader: Reader, after: Buffer | null) {
      const bounds = prefixRange(prefix);
      if (after !== null) Object.assign(bounds, { gte: undefined, gt: Buffer.concat([prefix, after]) });
      for (const { key } of reader.range(family, bounds)) yield key.subarray(prefix.length);
    };
    return mergedPage(
      [store],
      (reader, after) => matches(keys(reader, after)),
      each(readSession),
      page,
      'hex',
    );
  }

  closeSession(
    scope: UserScope,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): DirectoryStep<SessionRecord> {
    return this.#step(scope, sessionId, (tx, user) =>
      this.verbs.sessions.close(tx, user, agentId, sessionId, guard),
    );
  }

  putUser(user: string, change: UserChange): DirectoryStep<StoredUser> {
    return step(this.#kernel.storeOf(userKey(user)), (tx) => this.verbs.users.put(tx, user, change));
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
      'hex',
    );
  }

  sawUser(user: string): DirectoryStep<void> {
    return step(this.#kernel.storeOf(userKey(user)), (tx) => this.verbs.users.saw(tx, user));
  }

  sawAgent(user: string, agent: string): DirectoryStep<void> {
    return step(this.#kernel.storeOf(userKey(user)), (tx) => {
      if (!this.isSeenLately(user, agent)) this.verbs.agents.called(tx, { user, agent }, 0, null);
    });
  }

  isSeenLately(user: string, agent: string): boolean {
    return this.verbs.recent.isFresh({ user, agent }, this.nowMs());
  }

  /**
   * The agent in whose name a write is made, inside that write: made if it is new, and its id entered in shard
   * 00. Without the transaction of shard 00, a new agent is not made.
   */
  calledIn(
    tx: Transaction,
    root: Transaction | null,
    agent: ActingAgent,
    untilMs: number,
  ): StoredAgent | undefined {
    const makeId = (owner: Buffer): string => {
      const id = makeAgentId(owner, agent.agent, this.#clock.next(this.nowMs()));
      if (root !== null) this.#kernel.enterIn(root, id, owner);
      return id;
    };
    return this.verbs.agents.called(tx, agent, untilMs, root === null ? null : makeId);
  }

  /** The id of an agent inside a write. With `acts`, the agent is the one that writes: it is made if it is new. */
  agentIdIn(tx: Transaction, root: Transaction, agent: ActingAgent, acts: boolean): string | undefined {
    return acts
      ? this.calledIn(tx, root, agent, 0)?.record.agent_id
      : agentNamed(tx, userKey(agent.user), agent.agent);
  }

  linkIdentity(scope: UserScope, agentId: string, identity: string): DirectoryStep<void> {
    const { store, user } = this.#place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const agent = this.verbs.agents.require(tx, user, agentId);
      const owner = idBytes(agent.record.user_id);
      if (this.#isOfAnother(root, linkDirectoryId(identity), owner)) throw identityTaken(identity);
      linkIdentity(tx, agent, identity);
      this.#kernel.enterIn(root, linkDirectoryId(identity), owner);
    });
  }

  unlinkIdentity(scope: UserScope, identity: string): DirectoryStep<void> {
    const id = linkDirectoryId(identity);
    const { store, user } = this.#place(scope, id);
    return stepWithRoot(store, (tx, root) => {
      const linked = linkedAgent(tx, identity);
      const isOfAnother =
        user !== null &&
        (this.#isOfAnother(root, id, user) ||
          (linked !== undefined && !idBytes(linked.record.user_id).equals(user)));
      if (isOfAnother) throw linkNotFound(identity);
      if (linked === undefined) return;
      unlinkIdentity(tx, linked, identity);
      this.#kernel.leaveIn(root, id);
    });
  }

  async listIdentities(
    scope: UserScope,
    agentId: string,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<string>> {
    return mergedPage(
      [this.#storeOfAgent(scope, agentId)],
      (store, after) => matches(linkedIdentities(store, idBytes(agentId), after)),
      each((_store, key) => key.toString()),
      page,
      'utf8',
    );
  }

  async linkedAgent(identity: string): Promise<AgentView | undefined> {
    const { store } = this.#place(null, linkDirectoryId(identity));
    const agent = linkedAgent(store, identity);
    return agent === undefined ? undefined : this.#view(agent);
  }

  async isLinked(user: string, agentId: string, identity: string): Promise<boolean> {
    const linked = this.#kernel
      .storeOf(userKey(user))
      .get(families.identityLinks, linkByIdentityKey(identity));
    return linked?.equals(idBytes(agentId)) === true && (await this.getAgent(user, agentId)) !== undefined;
  }

  /**
   * The store of a record in this scope. An id that the directory of ids does not know is looked up in shard
   * 00, where it is not found.
   */
  #place(scope: UserScope, id: string): Place {
    if (scope === null) return { store: this.#kernel.locate(id) ?? this.#kernel.root, user: null };
    const user = this.#userOf(scope);
    return { store: this.#kernel.storeOf(user), user };
  }

  identitiesOf(user: string, agent: string): readonly string[] {
    return this.#identityNames.of(user, agent);
  }

  #storeOfAgent(scope: UserScope, agentId: string): Store {
    const { store, user } = this.#place(scope, agentId);
    if (findAgent(store, user, agentId) === undefined) throw agentNotFound(agentId);
    return store;
  }

  /** Whether shard 00 knows the id as another user's. */
  #isOfAnother(root: Transaction, id: string, user: Buffer): boolean {
    return this.#kernel.ownerIn(root, id)?.equals(user) === false;
  }

  #userOf(user: string): Buffer {
    return keyOfUser(this.#kernel.storeOf(userKey(user)), user);
  }

  #view(agent: StoredAgent): AgentView {
    return { ...agent, lease: agent.lease && counted(agent.lease, this.verbs.leases.times()) };
  }

  #step<Result>(
    scope: UserScope,
    id: string,
    run: (tx: Transaction, user: Buffer | null) => Result & Now<Result>,
  ): DirectoryStep<Result> {
    const { store, user } = this.#place(scope, id);
    return step<Result>(store, (tx) => run(tx, user));
  }
}

function* userKeysAfter(store: Store, after: Buffer | null): Generator<Buffer> {
  for (const { key } of store.range(families.users, after === null ? {} : { gt: after })) yield key;
}
