/**
 * Documents in a store beside the home: each step is one write to the store, and the home records it right
 * after.
 */
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import { KeyQueue } from '../../core/waiting/key-queue.js';
import type { Limits } from '../../core/settings/limits.js';
import { StorePort, StoreStep } from './port.js';
import type { Documents, DocumentStore } from '../port.js';

/** What the home stores for a store that cannot take part in its transactions. */
export interface StoreNotes {
  /**
   * Refuses a caller whose lease has passed to another holder, or whose token was revoked. Called right
   * before each write of the store.
   */
  checkCaller(caller: Caller): Promise<void>;
  /** The stored answer for the key, or undefined. */
  answered(caller: Caller, idempotency: Idempotency): Promise<unknown[] | undefined>;
  /**
   * Records that the request begins, or returns the stored answer. Throws if an earlier request with the key
   * began and did not end.
   */
  begin(caller: Caller, idempotency: Idempotency): Promise<unknown[] | undefined>;
  /** Announces the changes of the store and stores the answer, in one write of the home. */
  end(
    caller: Caller,
    changes: readonly Change[],
    kept: { readonly idempotency: Idempotency; readonly results: readonly unknown[] } | null,
  ): Promise<void>;
  /** The request was refused and changed nothing: its key is free again. */
  abandon(caller: Caller, idempotency: Idempotency): Promise<void>;
}

/** For a store that is opened without a home: changes are not announced and answers are not stored. */
export const noNotes: StoreNotes = {
  checkCaller: async () => undefined,
  answered: async () => undefined,
  begin: async () => undefined,
  end: async () => undefined,
  abandon: async () => undefined,
};

/** The port and the writer of a store. */
export function storeDocuments(store: DocumentStore, limits: Limits, notes: StoreNotes = noNotes): Documents {
  return { port: new StorePort(store, limits), writer: new StoreWriter(notes) };
}

/** After these errors it is unknown whether the store did the write. */
const uncertain: ReadonlySet<string> = new Set(['backend_unavailable', 'engine', 'internal']);

class StoreWriter implements Writer {
  readonly #notes: StoreNotes;
  /** A repeat waits for the first request with its key. */
  readonly #requests = new KeyQueue();

  constructor(notes: StoreNotes) {
    this.#notes = notes;
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    { caller, idempotency = null, checks = [] }: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const [step] = steps;
    if (!(step instanceof StoreStep) || steps.length > 1 || checks.length > 0)
      throw new StoaError(
        'unsupported',
        'The database of this data store has no transactions. It accepts one write at a time, without checks.',
        { fix: 'Send the writes one by one.' },
      );
    const results =
      idempotency === null
        ? await this.#run(caller, step, null)
        : await this.#requests.run(JSON.stringify([idempotency.scope, idempotency.key]), () =>
            this.#once(caller, step, idempotency),
          );
    // The result has the index of the only step.
    return results as Results<Steps>;
  }

  async answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    return idempotency === null ? undefined : this.#notes.answered(caller, idempotency);
  }

  async #once(caller: Caller, step: StoreStep<unknown>, idempotency: Idempotency): Promise<unknown[]> {
    const before = await this.#notes.begin(caller, idempotency);
    if (before !== undefined) return before;
    try {
      return await this.#run(caller, step, idempotency);
    } catch (error) {
      if (error instanceof StoaError && !uncertain.has(error.code))
        await this.#notes.abandon(caller, idempotency);
      throw error;
    }
  }

  async #run(caller: Caller, step: StoreStep<unknown>, idempotency: Idempotency | null): Promise<unknown[]> {
    const changes: Change[] = [];
    let results: [unknown];
    await this.#notes.checkCaller(caller);
    try {
      results = [await step.run(changes)];
    } catch (error) {
      // Part of a batch may be written although the rest was refused.
      if (changes.length > 0) await this.#notes.end(caller, changes, null);
      throw error;
    }
    if (changes.length > 0 || idempotency !== null)
      await this.#notes.end(caller, changes, idempotency && { idempotency, results });
    return results;
  }
}
