/**
 * The registry in the directory: reads of the user's shard, and steps there, together with shard 00 if an id
 * is entered.
 */
import { versionFailure } from '../../../core/errors.js';
import type { Writer } from '../../../core/write.js';
import { forgetAgent } from '../../../registry/lifecycle/forgetting.js';
import { step, stepWithRoot } from '../step.js';
import { userKey } from '../../../identity/user-key.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import { idBytes, makeSessionId } from '../../../registry/ids.js';
import { decodeAgent } from '../../../registry/layout/codec.js';
import { agentCountKey } from '../../../registry/layout/keys.js';
import { checkFence, counted, settled } from '../../../registry/lifecycle/lease.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { AgentView, RegistryPort } from '../../../registry/port.js';
import { agentNotFound, leaseNumberDiffers, sessionExists } from '../../../registry/refusals.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { RegistryCallers } from './callers.js';
import { registryFamilies as families } from './families.js';
import { IdentityNames } from './links/names.js';
import { IdentityLinks } from './links/steps.js';
import { linkDirectoryId } from './links/links.js';
import { each, matches, matchingAgents, mergedPage, sessionKeys, userKeys } from './lists.js';
import { agentNamed, findAgent, readAgents, readCount, readSession } from './rows.js';
import { Scopes } from './scopes.js';
import { RegistryVerbs } from './verbs.js';

export class DirectoryRegistry implements RegistryPort {
  readonly verbs: RegistryVerbs;
  /** The agents in whose names requests are made; for the writer of the home too. */
  readonly callers: RegistryCallers;
  /** The removals that are under way. */
  forgetting: Promise<void> = Promise.resolve();
  readonly #kernel: Kernel;
  readonly #identityNames: IdentityNames;
  readonly #scopes: Scopes;
  readonly #links: IdentityLinks;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#identityNames = new IdentityNames(kernel);
    this.verbs = new RegistryVerbs(kernel);
    this.callers = new RegistryCallers(kernel, this.verbs, (user, agent) => this.identitiesOf(user, agent));
    this.#scopes = new Scopes(kernel);
    this.#links = new IdentityLinks(kernel, this.#scopes, this.verbs.agents);
  }

  readonly nowMs: RegistryPort['nowMs'] = () => this.#kernel.nowMs();

  /** Removes agents that were away for too long, with the writer of the home. */
  forgetAbsent(writer: Writer, onError: (error: unknown, about: string) => void): void {
    this.verbs.leases.onForgotten = ({ record }) => {
      this.forgetting = this.forgetting
        .then(() => forgetAgent(writer, this, record.agent_id))
        .catch((error: unknown) => onError(error, 'forgetting a lost agent'));
    };
  }

  readonly createAgent: RegistryPort['createAgent'] = (input) => {
    const user = userKey(input.user);
    const agentId = this.callers.makeId(user, input.name);
    return stepWithRoot(this.#kernel.storeOf(user), (tx, root) => {
      this.#kernel.enterIn(root, agentId, user);
      return this.#view(this.verbs.agents.create(tx, agentId, input));
    });
  };

  readonly putAgent: RegistryPort['putAgent'] = (input, guard) => {
    const user = userKey(input.user);
    return stepWithRoot(this.#kernel.storeOf(user), (tx, root) => {
      if (this.#scopes.isOfAnother(root, input.agentId, user)) throw agentNotFound(input.agentId);
      this.#kernel.enterIn(root, input.agentId, user);
      return this.#view(this.verbs.agents.put(tx, root, input, guard));
    });
  };

  readonly getAgent: RegistryPort['getAgent'] = async (scope, agentId) => {
    const { store, user } = this.#scopes.place(scope, agentId);
    const found = findAgent(store, user, agentId);
    return found === undefined ? undefined : this.#view(found);
  };

  agentNamed(user: string, name: string): string | undefined {
    const key = this.#scopes.keyOf(user);
    return agentNamed(this.#kernel.storeOf(key), key, name);
  }

  readonly someNames: RegistryPort['someNames'] = async (user, limit) => {
    const key = this.#scopes.keyOf(user);
    const rows = this.#kernel.storeOf(key).range(families.agents, { ...prefixRange(key), limit });
    return Array.from(rows, ({ value }) => decodeAgent(value).name);
  };

  readonly listAgents: RegistryPort['listAgents'] = async (scope, filter, page) => {
    const user = scope === null ? null : this.#scopes.keyOf(scope);
    const stores = user === null ? this.#kernel.stores : [this.#kernel.storeOf(user)];
    const { items, nextKey } = await mergedPage(
      stores,
      (store, after) => matchingAgents(store, filter, user, after, this.#kernel.limits.listSeeksMax),
      readAgents,
      page,
      'hex',
    );
    return { items: items.map((agent) => this.#view(agent)), nextKey };
  };

  readonly countAgents: RegistryPort['countAgents'] = async (user) => {
    const key = this.#scopes.keyOf(user);
    return readCount(this.#kernel.storeOf(key), agentCountKey(key));
  };

  readonly updateAgent: RegistryPort['updateAgent'] = (scope, agentId, change, guard) => {
    const { store, user } = this.#scopes.place(scope, agentId);
    const run = (tx: Transaction, root: Transaction): AgentView =>
      this.#view(this.verbs.agents.update(tx, root, user, agentId, change, guard));
    // The identity that the server keeps for the agent is in shard 00, and shows the agent's name.
    return change.name === undefined ? step(store, (tx) => run(tx, tx)) : stepWithRoot(store, run);
  };

  readonly moveAgent: RegistryPort['moveAgent'] = (scope, agentId, verb, guard) =>
    this.#scopes.step(scope, agentId, (tx, user) =>
      this.#view(this.verbs.agents.move(tx, user, agentId, verb, guard)),
    );

  readonly deleteSomeSessions: RegistryPort['deleteSomeSessions'] = (
    scope,
    agentId,
    guard,
    forgets = false,
  ) => {
    const { store, user } = this.#scopes.place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const thinned = this.verbs.agents.deleteSomeSessions(tx, user, agentId, guard, forgets);
      for (const id of thinned) this.#kernel.leaveIn(root, id);
      return thinned.length > 0;
    });
  };

  readonly deleteAgent: RegistryPort['deleteAgent'] = (scope, agentId, guard, forgets = false) => {
    const { store, user } = this.#scopes.place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const { sessions, identities } = this.verbs.agents.delete(tx, root, user, agentId, guard, forgets);
      for (const id of [agentId, ...sessions, ...identities.map(linkDirectoryId)])
        this.#kernel.leaveIn(root, id);
    });
  };

  readonly requireAgentVersion: RegistryPort['requireAgentVersion'] = (scope, agentId, version) =>
    this.#scopes.step(scope, agentId, (tx, user) => {
      const current = findAgent(tx, user, agentId)?.meta.version ?? 0;
      if (current !== version) throw versionFailure(`The agent ${agentId}`, current, version);
    });

  readonly heartbeat: RegistryPort['heartbeat'] = (scope, agentId, holder, guard) => {
    const { agents, leases } = this.verbs;
    return this.#scopes.step(scope, agentId, (tx, user) =>
      counted(leases.heartbeat(tx, agents.require(tx, user, agentId), holder, guard), leases.times()),
    );
  };

  readonly releaseLease: RegistryPort['releaseLease'] = (scope, agentId, holder, guard) =>
    this.#scopes.step(scope, agentId, (tx, user) =>
      this.verbs.leases.release(tx, this.verbs.agents.require(tx, user, agentId), holder, guard),
    );

  readonly requireLease: RegistryPort['requireLease'] = (scope, agentId, fence) =>
    this.#scopes.step(scope, agentId, (tx, user) => {
      const lease = findAgent(tx, user, agentId)?.lease ?? null;
      // The lease as of now: the sweeper may not have ended it yet.
      const current = lease === null ? 0 : settled(lease, this.verbs.leases.times(), tx.nowMs).fence;
      if (current !== fence) throw leaseNumberDiffers(agentId, current, fence);
    });

  readonly checkFence: RegistryPort['checkFence'] = async (user, agentId, fence) => {
    const agent = await this.getAgent(user, agentId);
    checkFence(agent?.lease ?? null, fence, this.verbs.leases.times(), this.nowMs());
  };

  readonly openSession: RegistryPort['openSession'] = (scope, agentId, sessionId, guard) => {
    const { store, user } = this.#scopes.place(scope, agentId);
    const id = sessionId ?? makeSessionId(this.nowMs());
    return stepWithRoot(store, (tx, root) => {
      const session = this.verbs.sessions.open(tx, user, agentId, id, guard);
      const owner = idBytes(session.user_id);
      if (this.#scopes.isOfAnother(root, id, owner)) throw sessionExists(id);
      this.#kernel.enterIn(root, id, owner);
      return session;
    });
  };

  readonly getSession: RegistryPort['getSession'] = async (scope, sessionId) => {
    const { store, user } = this.#scopes.place(scope, sessionId);
    return this.verbs.sessions.find(store, user, sessionId);
  };

  readonly listSessions: RegistryPort['listSessions'] = async (scope, agentId, status, page) => {
    const store = this.#scopes.storeOfAgent(scope, agentId);
    return mergedPage(
      [store],
      (reader, after) => matches(sessionKeys(reader, idBytes(agentId), status, after)),
      each(readSession),
      page,
      'hex',
    );
  };

  readonly closeSession: RegistryPort['closeSession'] = (scope, agentId, sessionId, guard) =>
    this.#scopes.step(scope, sessionId, (tx, user) =>
      this.verbs.sessions.close(tx, user, agentId, sessionId, guard),
    );

  readonly putUser: RegistryPort['putUser'] = (user, change) =>
    step(this.#kernel.storeOf(userKey(user)), (tx) => this.verbs.users.put(tx, user, change));

  readonly getUser: RegistryPort['getUser'] = async (user) => {
    const key = this.#scopes.keyOf(user);
    return this.verbs.users.read(this.#kernel.storeOf(key), key);
  };

  readonly listUsers: RegistryPort['listUsers'] = async (page) =>
    mergedPage(
      this.#kernel.stores,
      (store, after) => matches(userKeys(store, after)),
      each((store, key) => this.verbs.users.read(store, key)),
      page,
      'hex',
    );

  readonly recordUserCall: RegistryPort['recordUserCall'] = (user) =>
    step(this.#kernel.storeOf(userKey(user)), (tx) => this.verbs.users.saw(tx, user));

  readonly recordAgentCall: RegistryPort['recordAgentCall'] = (user, agent) => this.callers.saw(user, agent);

  agentIdIn(tx: Transaction, root: Transaction, agent: ActingAgent, acts: boolean): string | undefined {
    return this.callers.idIn(tx, root, agent, acts);
  }

  readonly linkIdentity: RegistryPort['linkIdentity'] = (scope, agentId, identity) =>
    this.#links.link(scope, agentId, identity);

  readonly unlinkIdentity: RegistryPort['unlinkIdentity'] = (scope, identity) =>
    this.#links.unlink(scope, identity);

  readonly listIdentities: RegistryPort['listIdentities'] = async (scope, agentId, page) =>
    this.#links.list(scope, agentId, page);

  readonly linkedAgent: RegistryPort['linkedAgent'] = async (identity) => {
    const agent = this.#links.agentOf(identity);
    return agent === undefined ? undefined : this.#view(agent);
  };

  readonly isLinked: RegistryPort['isLinked'] = async (user, agentId, identity) =>
    this.#links.isLinked(user, agentId, identity) && (await this.getAgent(user, agentId)) !== undefined;

  identitiesOf(user: string, agent: string): readonly string[] {
    return this.#identityNames.of(user, agent);
  }

  #view(agent: StoredAgent): AgentView {
    return { ...agent, lease: agent.lease && counted(agent.lease, this.verbs.leases.times()) };
  }
}
