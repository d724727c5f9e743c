/**
 * Documents in a store beside the home: each step is one write to the store, and the home records it right
 * after.
 */
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import type { OnCall } from '../../core/timed-call.js';
import { KeyQueue } from '../../core/waiting/key-queue.js';
import type { Limits } from '../../core/settings/limits.js';
import { type CurrentDocument, CurrentDocuments, type DocumentName } from './current-documents.js';
import { StorePort, StoreStep } from './port.js';
import type { Scope } from '../model.js';
import type { Documents, DocumentStore } from '../port.js';

/** The answer of a request, to be stored under its key. */
export interface KeptResults {
  readonly idempotency: Idempotency;
  readonly results: readonly unknown[];
}

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
  /** Announces the changes, stores the answer and the words of the documents, in one write of the home. */
  end(
    caller: Caller,
    changes: readonly Change[],
    kept: KeptResults | null,
    documents: readonly CurrentDocument[],
  ): Promise<void>;
  /** The next keys after `after`, up to `through`, of documents whose words the home has. */
  wordKeys(scope: Scope, after: string | null, through: string | null): Promise<string[]>;
  /** The request was refused and changed nothing: its key is free again. */
  abandon(caller: Caller, idempotency: Idempotency): Promise<void>;
}

/** For a store that is opened without a home: nothing is announced, and no answers and words are stored. */
const noNotes: StoreNotes = {
  checkCaller: async () => undefined,
  answered: async () => undefined,
  begin: async () => undefined,
  end: async () => undefined,
  wordKeys: async () => [],
  abandon: async () => undefined,
};

/** The port and the writer of a store. `current` is for the index of words in the home; null without a home. */
export function storeDocuments(
  store: DocumentStore,
  limits: Limits,
  notes: StoreNotes | null = null,
  onCall?: OnCall,
): Documents & { readonly current: CurrentDocuments | null } {
  const port = new StorePort(store, limits, onCall);
  const current = notes === null ? null : new CurrentDocuments(port);
  return { port, writer: new StoreWriter(notes ?? noNotes, current), current };
}

/** After these errors it is unknown whether the store did the write. */
const uncertain: ReadonlySet<string> = new Set(['backend_unavailable', 'engine', 'internal']);

class StoreWriter implements Writer {
  readonly #notes: StoreNotes;
  readonly #current: CurrentDocuments | null;
  /** A repeat waits for the first request with its key. */
  readonly #requests = new KeyQueue();

  constructor(notes: StoreNotes, current: CurrentDocuments | null) {
    this.#notes = notes;
    this.#current = current;
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    { caller, idempotency = null, checks = [] }: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const [step] = steps;
    if (!(step instanceof StoreStep) || steps.length > 1 || checks.length > 0)
      throw new StoaError(
        'unsupported',
        'The documents are in a store beside the home. Such a store accepts one write at a time, without checks.',
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
      if (changes.length > 0) await this.#end(caller, changes, null);
      throw error;
    }
    if (changes.length > 0 || idempotency !== null)
      await this.#end(caller, changes, idempotency && { idempotency, results });
    return results;
  }

  /** Stores the words before the changes, or with them: a reader of the feed finds what a change names. */
  async #end(caller: Caller, changes: readonly Change[], kept: KeptResults | null): Promise<void> {
    if (this.#current === null) return this.#notes.end(caller, changes, kept, []);
    let isAnnounced = false;
    try {
      for (const change of changes)
        if (change.kind === 'namespace.cleared') await this.#forget(caller, change);
      await this.#current.pass(changes.flatMap(writtenName), (documents, isLast) => {
        isAnnounced = isLast;
        return this.#notes.end(caller, isLast ? changes : [], isLast ? kept : null, documents);
      });
    } catch (error) {
      // The store has the change: it is announced although its words could not be read.
      if (!isAnnounced) await this.#notes.end(caller, changes, null, []);
      throw error;
    }
  }

  /** Looks at every document of a cleared range whose words the home has: most are gone. */
  async #forget(caller: Caller, change: Change): Promise<void> {
    const { namespace, after = null, through = null } = change.facts as unknown as ClearedFacts; // Of this kind.
    const scope = { user: change.user ?? '', namespace };
    let last = after;
    for (;;) {
      const keys = await this.#notes.wordKeys(scope, last, through);
      if (keys.length === 0) return;
      await this.#current?.pass(
        keys.map((key) => ({ ...scope, key })),
        (documents) => this.#notes.end(caller, [], null, documents),
      );
      last = keys.at(-1) ?? null;
    }
  }
}

interface ClearedFacts {
  readonly namespace: string;
  readonly after?: string;
  readonly through?: string;
}

/** The document that a change names; none if a namespace was cleared. */
function writtenName({ user, facts = {} }: Change): DocumentName[] {
  const { namespace, key } = facts;
  if (user === null || typeof namespace !== 'string' || typeof key !== 'string') return [];
  return [{ user, namespace, key }];
}
