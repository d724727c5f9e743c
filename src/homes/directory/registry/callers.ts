/** The agents in whose names requests are made: made with their first write, and present while they call. */
import { userKey } from '../../../identity/user-key.js';
import { NanosecondClock, makeAgentId } from '../../../registry/ids.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import type { IdentitiesOf } from '../identity/caller-check.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import { type DirectoryStep, step } from '../step.js';
import type { CallerAgents } from '../writer.js';
import { agentNamed } from './rows.js';
import type { RegistryVerbs } from './verbs.js';

export class RegistryCallers implements CallerAgents {
  readonly identitiesOf: IdentitiesOf;
  readonly #kernel: Kernel;
  readonly #verbs: RegistryVerbs;
  readonly #clock = new NanosecondClock();

  constructor(kernel: Kernel, verbs: RegistryVerbs, identitiesOf: IdentitiesOf) {
    this.identitiesOf = identitiesOf;
    this.#kernel = kernel;
    this.#verbs = verbs;
  }

  makeId(user: Buffer, name: string): string {
    return makeAgentId(user, name, this.#clock.next(this.#kernel.nowMs()));
  }

  isFresh(agent: ActingAgent, nowMs: number, untilMs = 0): boolean {
    return this.#verbs.recent.isFresh(agent, nowMs, untilMs);
  }

  /**
   * The agent in whose name a write is made, inside that write: made if it is new, and its id entered in
   * shard
   * 00. Without the transaction of shard 00, a new agent is not made.
   */
  called(
    tx: Transaction,
    root: Transaction | null,
    agent: ActingAgent,
    untilMs: number,
  ): StoredAgent | undefined {
    const makeId = (owner: Buffer): string => {
      const id = this.makeId(owner, agent.agent);
      if (root !== null) this.#kernel.enterIn(root, id, owner);
      return id;
    };
    return this.#verbs.agents.called(tx, agent, untilMs, root === null ? null : makeId);
  }

  /** The id of an agent inside a write. With `acts`, the agent is the one that writes: it is made if it is new. */
  idIn(tx: Transaction, root: Transaction, agent: ActingAgent, acts: boolean): string | undefined {
    return acts
      ? this.called(tx, root, agent, 0)?.record.agent_id
      : agentNamed(tx, userKey(agent.user), agent.agent);
  }

  /** Renews the presence of an agent that called without a write. */
  saw(user: string, agent: string): DirectoryStep<void> {
    return step(this.#kernel.storeOf(userKey(user)), (tx) => {
      if (!this.isFresh({ user, agent }, this.#kernel.nowMs()))
        this.#verbs.agents.called(tx, { user, agent }, 0, null);
    });
  }
}
