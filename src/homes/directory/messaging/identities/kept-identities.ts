/** The identities that the server keeps for users and agents: they are in shard 00, the agents in their own. */
import { Outdated, type Step } from '../../../../core/write.js';
import { userKey } from '../../../../identity/user-key.js';
import { ownerOfUser } from '../../../../messaging/identities/kept-owner.js';
import type { KeptFor, KeptIdentity, SealedIdentity } from '../../../../messaging/port.js';
import type { ActingAgent } from '../../../../registry/recent-agents.js';
import { unknownAgent } from '../../../../registry/refusals.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Transaction } from '../../kernel/transaction.js';
import { DirectoryStep, directorySteps } from '../../step.js';
import * as identities from './identities.js';

/** The agents of the registry, by user and name. */
export interface KnownAgents {
  agentNamed(user: string, name: string): string | undefined;
  /** Inside a write. With `acts`, the agent is the one that writes, and it is made if it is new. */
  agentIdIn(tx: Transaction, root: Transaction, agent: ActingAgent, acts: boolean): string | undefined;
}

export class KeptIdentities {
  readonly #kernel: Kernel;
  readonly #agents: KnownAgents;

  constructor(kernel: Kernel, agents: KnownAgents) {
    this.#kernel = kernel;
    this.#agents = agents;
  }

  keepFirst<Result>(kept: readonly KeptIdentity[], given: Step<Result>): Step<Result> {
    const [first] = kept;
    if (first === undefined) return given;
    const [writing] = directorySteps([given]);
    // All are of one user: only the user's agents are named as recipients.
    const own = this.#kernel.storeOf(userKey(first.keptFor.user));
    return new DirectoryStep<Result>(own, true, (tx, root) => {
      for (const one of kept)
        if (this.#keepIn(tx, root, one).identity.id !== one.id)
          throw new Outdated('The identity that the server keeps for the caller');
      // The result of this very step.
      return writing?.run(writing.store === own ? tx : root, root) as Result;
    });
  }

  #keepIn(tx: Transaction, root: Transaction, kept: KeptIdentity): SealedIdentity {
    const { user, agent } = kept.keptFor;
    if (agent === null) return identities.keep(root, kept, null);
    const id = this.#agents.agentIdIn(tx, root, { user, agent }, kept.acts);
    if (id === undefined) throw unknownAgent(agent, []);
    return identities.keep(root, kept, { id, name: agent });
  }

  find({ user, agent }: KeptFor): SealedIdentity | undefined {
    const owner = agent === null ? ownerOfUser(user) : this.#agents.agentNamed(user, agent);
    return owner === undefined ? undefined : identities.readKept(this.#kernel.root, owner);
  }

  async reseal(reseal: (sealedSeed: string, id: string) => string): Promise<number> {
    let changed = 0;
    let after: Buffer | null = null;
    do {
      const resealed: { changed: number; next: Buffer | null } = await this.#kernel.root.transact((tx) =>
        identities.resealStep(tx, after, this.#kernel.limits.workspaceStepRowsMax, reseal),
      );
      changed += resealed.changed;
      after = resealed.next;
    } while (after !== null);
    return changed;
  }
}
