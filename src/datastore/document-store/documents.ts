/**
 * Documents in a store beside the home: each step is one write to the store. The home notes it before, and records it
 * right after.
 */
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { StoaError } from '../../core/errors.js';
import type { OnCall } from '../../core/timed-call.js';
import { KeyQueue } from '../../core/waiting/key-queue.js';
import type { Limits } from '../../core/settings/limits.js';
import { CurrentDocuments, type DocumentName } from './current-documents.js';
import type { KeptResults, StoreNotes, WriteNote } from './notes-port.js';
import { StorePort, StoreStep } from './port.js';
import { UnfinishedWrites, filed, forgetGone } from './unfinished-writes.js';
import type { Scope } from '../model.js';
import type { Documents, DocumentStore } from '../port.js';

/** What a store is opened with beside its limits. */
export interface StoreDocumentsOptions {
  /** Without a home, nothing is announced, and no answers and words are stored. */
  readonly notes?: StoreNotes | undefined;
  readonly onCall?: OnCall | undefined;
  /** Faults that no caller waits for. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The documents of a store. `current` is for the index of words in the home; null without a home. */
export interface StoreDocuments extends Documents {
  readonly current: CurrentDocuments | null;
}

/** The port and the writer of a store. */
export function storeDocuments(
  store: DocumentStore,
  limits: Limits,
  { notes, onCall, onError = () => undefined }: StoreDocumentsOptions = {},
): StoreDocuments {
  const port = new StorePort(store, limits, onCall);
  if (notes === undefined) return { port, writer: new StoreWriter(null), current: null };
  const current = new CurrentDocuments(port);
  const unfinished = new UnfinishedWrites({ notes, store: port, current, limits, onError });
  return { port, writer: new StoreWriter({ notes, current, unfinished }), current, background: unfinished };
}

/** After these errors it is unknown whether the store did the write; `closed` also ends a write that runs. */
const uncertain: ReadonlySet<string> = new Set(['backend_unavailable', 'engine', 'internal', 'closed']);

/** What the writer of a store uses of the home. */
interface StoreHome {
  readonly notes: StoreNotes;
  readonly current: CurrentDocuments;
  readonly unfinished: UnfinishedWrites;
}

class StoreWriter implements Writer {
  readonly #home: StoreHome | null;
  /** A repeat waits for the first request with its key. */
  readonly #requests = new KeyQueue();

  constructor(home: StoreHome | null) {
    this.#home = home;
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
    const home = this.#home;
    const write = (): Promise<unknown[]> =>
      home === null ? runAlone(step) : new NotedWrite(home, caller, step, idempotency).run();
    const results =
      idempotency === null
        ? await write()
        : await this.#requests.run(JSON.stringify([idempotency.scope, idempotency.key]), write);
    // The result has the index of the only step.
    return results as Results<Steps>;
  }

  async answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    return idempotency === null ? undefined : this.#home?.notes.answered(caller, idempotency);
  }
}

async function runAlone(step: StoreStep<unknown>): Promise<unknown[]> {
  return [await step.run([])];
}

/** One write of the store, between its note in the home and the record of its end there. */
class NotedWrite {
  readonly #home: StoreHome;
  readonly #caller: Caller;
  readonly #step: StoreStep<unknown>;
  readonly #idempotency: Idempotency | null;
  readonly #note: WriteNote | null;
  /** The store may have done something that the home does not have: the note stays. */
  #isLeft = false;

  constructor(home: StoreHome, caller: Caller, step: StoreStep<unknown>, idempotency: Idempotency | null) {
    this.#home = home;
    this.#caller = caller;
    this.#step = step;
    this.#idempotency = idempotency;
    this.#note = home.unfinished.note(step.mayChange, caller.agent);
  }

  async run(): Promise<unknown[]> {
    const { notes, unfinished } = this.#home;
    try {
      const before = await notes.begin(this.#caller, this.#idempotency, this.#note);
      return before ?? (await this.#write());
    } finally {
      unfinished.ended(this.#note, this.#isLeft);
    }
  }

  async #write(): Promise<unknown[]> {
    const changes: Change[] = [];
    let results: [unknown];
    this.#isLeft = true;
    try {
      results = [await this.#step.run(changes)];
    } catch (error) {
      await this.#failed(changes, error);
      throw error;
    }
    const kept = this.#idempotency && { idempotency: this.#idempotency, results };
    if (this.#note !== null || kept !== null || changes.length > 0) await this.#end(changes, kept, true);
    this.#isLeft = false;
    return results;
  }

  /** Part of a batch may be written although the rest was refused. */
  async #failed(changes: readonly Change[], error: unknown): Promise<void> {
    if (changes.length > 0) await this.#end(changes, null, false);
    if (!(error instanceof StoaError) || uncertain.has(error.code)) return;
    this.#isLeft = this.#step.mayChange.mayBePartial;
    await this.#home.notes.abandon(this.#caller, this.#idempotency, this.#isLeft ? null : this.#note);
  }

  /** Stores the words before the changes, or with them: a reader of the feed finds what a change names. */
  async #end(changes: readonly Change[], kept: KeptResults | null, endsNote: boolean): Promise<void> {
    const { notes, current } = this.#home;
    const note = this.#note;
    for (const change of changes)
      if (change.kind === 'namespace.cleared')
        await forgetGone(notes, current, clearedRange(change), (documents) =>
          notes.end(this.#caller, { documents, note, isLast: false }),
        );
    await filed(notes, note, () =>
      current.pass(changes.flatMap(writtenName), (documents, isLast) =>
        notes.end(this.#caller, {
          documents,
          note,
          isLast: isLast && endsNote,
          ...(isLast && { changes, kept }),
        }),
      ),
    );
  }
}

/** The range of a clear. Its change has these facts. */
function clearedRange({ user, facts }: Change): {
  scope: Scope;
  after: string | null;
  through: string | null;
} {
  const { namespace, after = null, through = null } = facts as unknown as ClearedFacts;
  return { scope: { user: user ?? '', namespace }, after, through };
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
