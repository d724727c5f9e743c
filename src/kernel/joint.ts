/** Several operations as one transaction: what each would commit by itself is collected and committed together. */
import { StoaError } from '../errors.js';
import type { Kernel } from './kernel.js';
import { type Store, isStoreRefusal } from './store.js';
import type { Transaction } from './transaction.js';

/** `root` writes into shard 00; it is the same transaction where the body belongs to that shard. */
type Body = (tx: Transaction, root: Transaction) => unknown;
/** Asked in the transaction itself, before the operations. */
export type JointCheck = (tx: Transaction, store: Store) => void;

/** Told in the transaction itself what each operation came to; what it throws refuses that operation. */
export type JointResult = (index: number, result: unknown) => void;

/** One operation of a commit: it calls a service that was built over `joint.kernel`, once. */
export type JointOperation = () => Promise<unknown>;

/** Which operation refused, and why. */
export class OperationRefused extends Error {
  constructor(
    readonly index: number,
    readonly reason: unknown,
  ) {
    super(`Operation ${index} was refused.`, { cause: reason });
    this.name = 'OperationRefused';
  }
}

interface Registered {
  index: number;
  store: Store;
  needsRoot: boolean;
  body: Body;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}

/**
 * Services that are built over `joint.kernel` behave as over the kernel itself, but that inside
 * `commit` their transactions wait for each other and then run as one. So an operation in a commit
 * is the same code as the operation alone. A service used here must make its whole change in one
 * transaction; one that tries a second is refused.
 */
export class Joint {
  readonly kernel: Kernel;
  /** The kernel itself. */
  readonly base: Kernel;
  #open: OpenCommit | undefined;
  /** Commits collect their operations one commit at a time; waiting for the disk is not part of it. */
  #collecting: Promise<void> = Promise.resolve();

  constructor(kernel: Kernel) {
    this.base = kernel;
    this.kernel = kernelOver(
      kernel,
      (store) => this.#joined(store),
      (own, body) =>
        this.#open === undefined ? kernel.transactBoth(own, body) : this.#open.register(own, body, true),
    );
  }

  /** Runs the operations in order as one transaction, after `check` has agreed. Throws OperationRefused, or what `check` threw. */
  async commit(
    operations: readonly JointOperation[],
    check: JointCheck,
    onResult?: JointResult,
  ): Promise<unknown[]> {
    const turn = this.#collecting;
    const { promise, resolve: release } = withResolvers();
    this.#collecting = promise;
    await turn;
    const open = new OpenCommit(this.base);
    this.#open = open;
    let running: Promise<unknown>[];
    let done: Promise<void>;
    try {
      running = await open.collect(operations);
      done = open.run(check, onResult);
    } finally {
      this.#open = undefined;
      release();
    }
    await done;
    return Promise.all(running);
  }

  #joined(store: Store): Store {
    return faceOf(store, {
      transact: (body: (tx: Transaction) => unknown) =>
        this.#open === undefined ? store.transact(body) : this.#open.register(store, body, false),
    });
  }
}

class OpenCommit {
  readonly #kernel: Kernel;
  readonly #registered: Registered[] = [];
  #index = 0;
  #onRegistered: (() => void) | undefined;
  #refused: OperationRefused | undefined;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  register(store: Store, body: Body, needsRoot: boolean): Promise<unknown> {
    if (this.#registered.some(({ index }) => index === this.#index)) {
      this.#refused = new OperationRefused(
        this.#index,
        new StoaError(
          'unsupported',
          'This operation takes more than one transaction and cannot be part of a commit.',
        ),
      );
      return Promise.reject(this.#refused.reason);
    }
    return new Promise((resolve, reject) => {
      this.#registered.push({ index: this.#index, store, needsRoot, body, resolve, reject });
      this.#onRegistered?.();
    });
  }

  /** Starts each operation and waits until it has said what it would commit, or has ended without. */
  async collect(operations: readonly JointOperation[]): Promise<Promise<unknown>[]> {
    const running: Promise<unknown>[] = [];
    for (const [index, operation] of operations.entries()) {
      this.#index = index;
      const { promise: registered, resolve } = withResolvers();
      this.#onRegistered = resolve;
      const result = operation();
      // Its failure is reported once, by the commit; here it must not count as unheard.
      result.catch(() => undefined);
      running.push(result);
      try {
        await Promise.race([registered, result]);
      } catch (reason) {
        for (const { reject } of this.#registered) reject(reason);
        throw new OperationRefused(index, reason);
      }
    }
    return running;
  }

  /** The one transaction. Throws when it was refused or failed; then every operation has failed too. */
  async run(check: JointCheck, onResult?: JointResult): Promise<void> {
    const [first] = this.#registered;
    const progress = { index: -1 };
    try {
      if (this.#refused !== undefined) throw this.#refused;
      if (first === undefined) return;
      this.#refuseSeveralStores(first.store);
      const runAll = (tx: Transaction, root: Transaction): unknown[] => {
        check(tx, first.store);
        return this.#registered.map(({ index, body }) => {
          progress.index = index;
          const result = body(tx, root);
          onResult?.(index, result);
          return result;
        });
      };
      const results = await (this.#registered.some(({ needsRoot }) => needsRoot)
        ? this.#kernel.transactBoth(first.store, runAll)
        : first.store.transact((tx) => runAll(tx, tx)));
      for (const [place, { resolve }] of this.#registered.entries()) resolve(results[place]);
    } catch (reason) {
      for (const { reject } of this.#registered) reject(reason);
      // A failed disk is nobody's fault: only what a body threw belongs to its operation.
      throw progress.index >= 0 && !isStoreRefusal(reason)
        ? new OperationRefused(progress.index, reason)
        : reason;
    }
  }

  #refuseSeveralStores(first: Store): void {
    const other = this.#registered.find(({ store }) => store !== first);
    if (other === undefined) return;
    throw new OperationRefused(
      other.index,
      new StoaError('unsupported', 'The operations belong to different shards; a commit has one.', {
        fix: 'Commit them apart, or keep the data in one shard.',
      }),
    );
  }
}

/** The same kernel with another face for each of its stores, for services over it that share the timers of those over the kernel itself. */
export function kernelOver(
  kernel: Kernel,
  faceOfStore: (store: Store) => Store,
  transactBoth: (own: Store, body: Body) => Promise<unknown>,
): Kernel {
  const stores = new Map(kernel.stores.map((store) => [store, faceOfStore(store)]));
  const bases = new Map(Array.from(stores, ([store, face]) => [face, store]));
  // Every store of the kernel is in the maps.
  const over = (store: Store): Store => stores.get(store) as Store;
  return faceOf(kernel, {
    root: over(kernel.root),
    stores: kernel.stores.map(over),
    storeOf: (userKey: Buffer) => over(kernel.storeOf(userKey)),
    locate: (id: string) => {
      const store = kernel.locate(id);
      return store === undefined ? undefined : over(store);
    },
    transactBoth: (own: Store, body: Body) => transactBoth(bases.get(own) as Store, body),
    handleTimer: () => undefined,
  });
}

/** The same object but for a few members; methods still run on the object itself. */
export function faceOf<T extends object>(target: T, members: Partial<Record<keyof T, unknown>>): T {
  return new Proxy(target, {
    get: (object, name) => {
      if (Object.hasOwn(members, name)) return members[name as keyof T];
      const value: unknown = Reflect.get(object, name, object);
      return typeof value === 'function' ? value.bind(object) : value;
    },
  });
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve: (() => void) | undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  // The executor runs before the constructor returns.
  return { promise, resolve: resolve as unknown as () => void };
}
