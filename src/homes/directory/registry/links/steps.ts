/** Steps and reads of the links between messaging identities and agents. Shard 00 knows whose an identity is. */
import { userKey } from '../../../../identity/user-key.js';
import { idBytes } from '../../../../registry/ids.js';
import { linkByIdentityKey } from '../../../../registry/layout/keys.js';
import type { StoredAgent } from '../../../../registry/model.js';
import type { KeyedPage, KeyedPageRequest, UserScope } from '../../../../registry/port.js';
import { identityTaken, linkNotFound } from '../../../../registry/refusals.js';
import type { Kernel } from '../../kernel/kernel.js';
import { type DirectoryStep, stepWithRoot } from '../../step.js';
import type { AgentVerbs } from '../agents.js';
import { registryFamilies as families } from '../families.js';
import { linkDirectoryId, linkIdentity, linkedAgent, linkedIdentities, unlinkIdentity } from './links.js';
import { each, matches, mergedPage } from '../lists.js';
import type { Scopes } from '../scopes.js';

export class IdentityLinks {
  readonly #kernel: Kernel;
  readonly #scopes: Scopes;
  readonly #agents: AgentVerbs;

  constructor(kernel: Kernel, scopes: Scopes, agents: AgentVerbs) {
    this.#kernel = kernel;
    this.#scopes = scopes;
    this.#agents = agents;
  }

  link(scope: UserScope, agentId: string, identity: string): DirectoryStep<void> {
    const { store, user } = this.#scopes.place(scope, agentId);
    return stepWithRoot(store, (tx, root) => {
      const agent = this.#agents.require(tx, user, agentId);
      const owner = idBytes(agent.record.user_id);
      if (this.#scopes.isOfAnother(root, linkDirectoryId(identity), owner)) throw identityTaken(identity);
      linkIdentity(tx, agent, identity);
      this.#kernel.enterIn(root, linkDirectoryId(identity), owner);
    });
  }

  unlink(scope: UserScope, identity: string): DirectoryStep<void> {
    const id = linkDirectoryId(identity);
    const { store, user } = this.#scopes.place(scope, id);
    return stepWithRoot(store, (tx, root) => {
      const linked = linkedAgent(tx, identity);
      const isOfAnother =
        user !== null &&
        (this.#scopes.isOfAnother(root, id, user) ||
          (linked !== undefined && !idBytes(linked.record.user_id).equals(user)));
      if (isOfAnother) throw linkNotFound(identity);
      if (linked === undefined) return;
      unlinkIdentity(tx, linked, identity);
      this.#kernel.leaveIn(root, id);
    });
  }

  async list(scope: UserScope, agentId: string, page: KeyedPageRequest): Promise<KeyedPage<string>> {
    return mergedPage(
      [this.#scopes.storeOfAgent(scope, agentId)],
      (store, after) => matches(linkedIdentities(store, idBytes(agentId), after)),
      each((_store, key) => key.toString()),
      page,
      'utf8',
    );
  }

  /** The agent that an identity speaks for. */
  agentOf(identity: string): StoredAgent | undefined {
    return linkedAgent(this.#scopes.place(null, linkDirectoryId(identity)).store, identity);
  }

  isLinked(user: string, agentId: string, identity: string): boolean {
    const linked = this.#kernel
      .storeOf(userKey(user))
      .get(families.identityLinks, linkByIdentityKey(identity));
    return linked?.equals(idBytes(agentId)) === true;
  }
}
