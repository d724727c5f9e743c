/** Firestore's client with requests that can be made to fail, as the driver fails when the server does. */
import type { Firestore as DriverFirestore } from '@google-cloud/firestore';
import type { Firestore } from '../../../src/stores/firestore/client.js';

/** What ends in a request to the server. */
const requests = new Set(['get', 'getAll', 'set', 'update', 'delete', 'create', 'commit']);
/** Methods of a batch have the same names, but only collect. */
const isBatch = (target: object): boolean => 'commit' in target;

export class FaultyFirestore {
  readonly #firestore: DriverFirestore;
  readonly #originals = new WeakMap<object, object>();
  #failures: { status: number; message: string; left: number } | undefined;
  /** Requests that went through to the server and whose answer is then lost, as many as this. */
  answersLost = 0;
  /** Runs once, right after an answer was lost. */
  afterLost: (() => Promise<void>) | undefined;
  /** Runs once, right before the next commit reaches the server. */
  beforeCommit: (() => Promise<void>) | undefined;

  constructor(firestore: DriverFirestore) {
    this.#firestore = firestore;
  }

  /** The next requests fail, or all until `recover`. */
  fail(status: number, message: string, times = Infinity): void {
    this.#failures = { status, message, left: times };
  }

  recover(): void {
    this.#failures = undefined;
  }

  /** A separate client, as another process would have; closing it leaves the server open. */
  client(): Firestore {
    return this.#wrapped(this.#firestore) as unknown as Firestore; // The proxy keeps the driver's shape.
  }

  #wrapped<T extends object>(target: T): T {
    const proxy = new Proxy(target, {
      get: (_, name) => {
        if (name === 'terminate') return async () => undefined;
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          const originals = args.map((arg) =>
            typeof arg === 'object' && arg !== null ? (this.#originals.get(arg) ?? arg) : arg,
          );
          const call = (): unknown => value.apply(target, originals);
          const asks = requests.has(String(name)) && (!isBatch(target) || name === 'commit');
          return asks ? this.#ask(name === 'commit' || name === 'update', call) : this.#again(call());
        };
      },
    });
    this.#originals.set(proxy, target);
    return proxy;
  }

  /** References and queries are passed to the driver unchanged. */
  #again(result: unknown): unknown {
    const isClient =
      typeof result === 'object' &&
      result !== null &&
      ['get', 'commit', 'doc'].some((name) => name in result && !('exists' in result));
    return isClient ? this.#wrapped(result as object) : result;
  }

  async #ask(isCommit: boolean, call: () => unknown): Promise<unknown> {
    const failures = this.#failures;
    if (failures !== undefined && failures.left > 0) {
      failures.left -= 1;
      throw grpcError(failures.status, failures.message);
    }
    if (isCommit && this.beforeCommit !== undefined) {
      const { beforeCommit } = this;
      this.beforeCommit = undefined;
      await beforeCommit();
    }
    const answer = await call();
    if (isCommit && this.answersLost > 0) {
      this.answersLost -= 1;
      const { afterLost } = this;
      this.afterLost = undefined;
      await afterLost?.();
      throw grpcError(14, 'The answer was lost');
    }
    return answer;
  }
}

function grpcError(code: number, message: string): Error {
  return Object.assign(new Error(`${code} ${message}`), { code });
}
