/** Writes of the directory home: key, fence, checks and steps in one transaction of the kernel. */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Refused, Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import { userKey } from '../../identity/user-key.js';
import type { Kernel } from './kernel/kernel.js';
import type { Store } from './kernel/store.js';
import type { Transaction } from './kernel/transaction.js';
import { checkCallerFence } from './fence.js';
import { findAnswer, forgetAnswer, keepAnswer, keptAnswerTimer } from './kept-answers.js';
import { type DirectoryStep, directorySteps } from './step.js';

/** The checks and steps of one write. */
interface Parts {
  readonly checks: readonly DirectoryStep<unknown>[];
  readonly steps: readonly DirectoryStep<unknown>[];
}

export class DirectoryWriter implements Writer {
  readonly #kernel: Kernel;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    kernel.handleTimer(keptAnswerTimer, forgetAnswer);
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const parts = { checks: directorySteps(request.checks ?? []), steps: directorySteps(steps) };
    const results = await this.#transact([...parts.checks, ...parts.steps], (store, tx, root) =>
      this.#runAll(store, tx, root, request, parts),
    );
    // Each result has the index of its step.
    return results as Results<Steps>;
  }

  async answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    const nowMs = this.#kernel.nowMs();
    return (
      findAnswer(this.#kernel.storeOf(userKey(caller.user)), idempotency, nowMs) ??
      findAnswer(this.#kernel.root, idempotency, nowMs)
    );
  }

  /** In one shard, or in one shard and shard 00. Other pairs are refused before anything happens. */
  #transact(
    all: readonly DirectoryStep<unknown>[],
    body: (store: Store, tx: Transaction, root: Transaction) => unknown[],
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
    if (own === root || !needsRoot) return own.transact((tx) => body(own, tx, tx));
    return this.#kernel.transactBoth(own, (tx, rootTx) => body(own, tx, rootTx));
  }

  #runAll(
    own: Store,
    tx: Transaction,
    root: Transaction,
    { caller, idempotency, onRefused }: WriteRequest,
    { checks, steps }: Parts,
  ): unknown[] {
    tx.agent = root.agent = caller.agent;
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
    if (idempotency !== null && idempotency !== undefined)
      keepAnswer(tx, userKey(caller.user), idempotency, results, this.#kernel.limits);
    return results;
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
