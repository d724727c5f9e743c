/** Writes of the directory home: key, fence, checks and steps in one transaction of the kernel. */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { Refused, Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import { TurnTime } from '../../core/waiting/turn-time.js';
import { userKey } from '../../identity/user-key.js';
import { type ActingAgent, actingAgent } from '../../registry/recent-agents.js';
import type { Kernel } from './kernel/kernel.js';
import type { Store } from './kernel/store.js';
import type { Transaction } from './kernel/transaction.js';
import { checkCallerFence } from './fence.js';
import { type IdentitiesOf, checkCaller } from './identity/caller-check.js';
import { findAnswer, forgetAnswer, keepAnswer, keptAnswerTimer } from './kept-answers.js';
import { type DirectoryStep, directorySteps } from './step.js';

/** The checks and steps of one write. */
interface Parts {
  readonly checks: readonly DirectoryStep<unknown>[];
  readonly steps: readonly DirectoryStep<unknown>[];
}

/** Shows that the agent of a caller is at work, and makes it with its first write. */
export interface CallerAgents {
  readonly identitiesOf: IdentitiesOf;
  isFresh(agent: ActingAgent, nowMs: number, untilMs?: number): boolean;
  /** Without a transaction of shard 00, a new agent is not made. */
  called(tx: Transaction, root: Transaction | null, agent: ActingAgent, untilMs: number): void;
}

/** The transactions of a write. */
interface Open {
  readonly own: Store;
  readonly tx: Transaction;
  readonly root: Transaction;
  /** Whether `root` writes into shard 00. */
  readonly hasRoot: boolean;
}

export class DirectoryWriter implements Writer {
  readonly #kernel: Kernel;
  /** Null for a store of documents alone, which has no agents. */
  readonly #agents: CallerAgents | null;
  readonly #turns = new TurnTime();

  constructor(kernel: Kernel, agents: CallerAgents | null = null) {
    this.#kernel = kernel;
    this.#agents = agents;
    kernel.handleTimer(keptAnswerTimer, forgetAnswer);
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const parts = { checks: directorySteps(request.checks ?? []), steps: directorySteps(steps) };
    const results = await this.#turns.run(() =>
      this.#transact([...parts.checks, ...parts.steps], request, (open) =>
        this.#runAll(open, request, parts),
      ),
    );
    // Each result has the index of its step.
    return results as Results<Steps>;
  }

  async answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    return findAnswer(this.#kernel.storeOf(userKey(caller.user)), idempotency, this.#kernel.nowMs());
  }

  /** In one shard, or in one shard and shard 00. Other pairs are refused before anything happens. */
  async #transact(
    all: readonly DirectoryStep<unknown>[],
    { caller, idempotency }: WriteRequest,
    body: (open: Open) => unknown[],
  ): Promise<unknown[]> {
    const { root } = this.#kernel;
    let own = root;
    let needsRoot = false;
    for (const one of all) {
      needsRoot ||= one.needsRoot || one.store === root;
      if (one.store === root || one.store === own) continue;
      if (own !== root) throw severalShards(all);
      own = one.store;
    }
    // A repeat looks for the answer in the same shard, also if the agent was noted in between.
    if (own === root && idempotency !== null && idempotency !== undefined) {
      own = this.#kernel.storeOf(userKey(caller.user));
      needsRoot = true;
    }
    const agent = actingAgent(caller);
    if (agent !== null && this.#agents?.isFresh(agent, this.#kernel.nowMs()) === false) {
      // The agent's record is in the shard of its user, and its id in shard 00.
      if (own === root) own = this.#kernel.storeOf(userKey(agent.user));
      needsRoot = true;
    }
    if (own === root || !needsRoot)
      return own.transact((tx) => body({ own, tx, root: tx, hasRoot: own === root }));
    return this.#kernel.transactBoth(own, (tx, rootTx) => body({ own, tx, root: rootTx, hasRoot: true }));
  }

  #runAll(
    { own, tx, root, hasRoot }: Open,
    { caller, idempotency, isAnswer, onRefused }: WriteRequest,
    { checks, steps }: Parts,
  ): unknown[] {
    tx.agent = root.agent = caller.agent;
    checkCaller(this.#kernel, caller, tx.nowMs, this.#agents?.identitiesOf);
    const before = findAnswer(tx, idempotency, tx.nowMs);
    if (before !== undefined) return before;
    checkCallerFence(this.#kernel, own, tx, caller);
    const runPart = (part: Refused['part'], parts: readonly DirectoryStep<unknown>[]): unknown[] =>
      parts.map(({ run, store }, index) => {
        try {
          return run(store === own ? tx : root, root);
        } catch (error) {
          throw onRefused === undefined ? error : onRefused({ part, index }, error);
        }
      });
    runPart('check', checks);
    const results = runPart('step', steps);
    const isAnswered = isAnswer?.(results) !== false;
    this.#noteCall(own, tx, hasRoot && isAnswered ? root : null, caller);
    if (idempotency !== null && idempotency !== undefined && isAnswered)
      keepAnswer(tx, userKey(caller.user), idempotency, results, this.#kernel.limits);
    return results;
  }

  /** After the steps, because one of them may register the agent itself. */
  #noteCall(own: Store, tx: Transaction, root: Transaction | null, caller: Caller): void {
    const agent = actingAgent(caller);
    if (agent === null || this.#agents?.isFresh(agent, tx.nowMs, tx.heldUntilMs) !== false) return;
    // The operator can write the records of another user, in another shard, in the name of an agent.
    if (own === this.#kernel.storeOf(userKey(agent.user)))
      this.#agents.called(tx, root, agent, tx.heldUntilMs);
  }
}

function severalShards(all: readonly DirectoryStep<unknown>[]): StoaError {
  const { size } = new Set(all.map(({ store }) => store));
  return new StoaError(
    'unsupported',
    `The operations belong to ${size} shards. One write can change only one shard and shard 00.`,
    { fix: 'Send the operations in separate requests, or use a data directory with one shard.' },
  );
}
