/** A step of the directory home: a synchronous function of the kernel's transaction. */
import type { Step } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import type { Store } from './kernel/store.js';
import type { Transaction } from './kernel/transaction.js';

/** A transaction is never open across an await: a body that returns a promise does not compile. */
export type Now<T> = T extends PromiseLike<unknown> ? never : T;

/**
 * `tx` writes into the step's own shard, `root` into shard 00; if that is the same shard, both are the same
 * transaction.
 */
type Body<Result> = (tx: Transaction, root: Transaction) => Result;

export class DirectoryStep<Result> implements Step<Result> {
  constructor(
    /** The shard that the step changes. */
    readonly store: Store,
    /** It writes into shard 00 too. */
    readonly needsRoot: boolean,
    readonly run: Body<Result>,
  ) {}

  map<Shown>(show: (result: Result) => Shown): DirectoryStep<Shown> {
    return new DirectoryStep(this.store, this.needsRoot, (tx, root) => show(this.run(tx, root)));
  }

  after(act: (result: Result) => void): DirectoryStep<Result> {
    return new DirectoryStep(this.store, this.needsRoot, (tx, root) => {
      const result = this.run(tx, root);
      tx.onDurable(() => act(result));
      return result;
    });
  }
}

/** A step in one shard. */
export function step<Result>(
  store: Store,
  run: (tx: Transaction) => Result & Now<Result>,
): DirectoryStep<Result> {
  return new DirectoryStep<Result>(store, false, run);
}

/** A step in one shard that also writes into shard 00: the directory of ids, messages, links. */
export function stepWithRoot<Result>(
  store: Store,
  run: (tx: Transaction, root: Transaction) => Result & Now<Result>,
): DirectoryStep<Result> {
  return new DirectoryStep<Result>(store, true, run);
}

/** The steps of a write, narrowed to this home's type. A step of another home is a bug in the composition. */
export function directorySteps(steps: readonly Step<unknown>[]): DirectoryStep<unknown>[] {
  return steps.map((one) => {
    if (one instanceof DirectoryStep) return one;
    throw new StoaError('internal', 'The directory home received a step of another home.');
  });
}
