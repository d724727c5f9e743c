/** The notes of writes of a store that run here, and of writes whose end is missing in the home. */
import type { Change } from '../../core/change.js';
import { StoaError } from '../../core/errors.js';
import { uuid7 } from '../../core/ids/uuid.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { Periodic } from '../../core/waiting/periodic.js';
import { documentDeleted, documentSet, namespaceCleared } from '../changes.js';
import type { Scope } from '../model.js';
import type { DocumentReads } from '../port.js';
import type { CurrentDocument, CurrentDocuments } from './current-documents.js';
import { OutdatedRead, type StoreChanges, type StoreNotes, type WriteNote } from './notes-port.js';

/** A note is left if nobody has renewed it for as long as so many requests to the store may take. */
const requestsUntilLeft = 2;

export interface UnfinishedWritesOptions {
  readonly notes: StoreNotes;
  readonly store: DocumentReads;
  readonly current: CurrentDocuments;
  readonly limits: Limits;
  readonly onError: (error: unknown) => void;
}

export class UnfinishedWrites {
  readonly #options: UnfinishedWritesOptions;
  readonly #server = uuid7();
  readonly #running = new Map<string, WriteNote>();
  readonly #renewing: Periodic;
  readonly #recovering: Periodic;
  /** Changes that the first round announced, by note. The round in which a note goes does not announce them again. */
  readonly #announced = new Map<string, ReadonlySet<string>>();
  /** Counted by the last round, and added since by this server. */
  #left = 0;
  #isFirstRound = true;
  #isClosing = false;

  constructor(options: UnfinishedWritesOptions) {
    this.#options = options;
    const { limits, onError } = options;
    const everyMs = (limits.backendRequestSecondsMax * 1_000) / 2;
    this.#renewing = new Periodic({ everyMs, run: () => this.#renewAll(), onError });
    this.#recovering = new Periodic({ everyMs, run: () => this.#recoverAll(), onError });
  }

  /** Does not wait for the store, which may be unavailable. */
  start(): void {
    this.#renewing.start();
    this.#recovering.start();
    this.#recovering.runSoon();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#recovering.close();
    await this.#renewing.close();
  }

  /** The note of a write that begins; null if the write changes nothing. */
  note({ documents, cleared }: StoreChanges, agent: string | null): WriteNote | null {
    if (documents.length === 0 && cleared === null) return null;
    const { limits } = this.#options;
    if (this.#left >= limits.storeWritesUnknownMax)
      throw limitError('overloaded', {
        subject: 'The backlog of the store',
        unit: 'writes with an unknown outcome',
        limit: 'storeWritesUnknownMax',
        limits,
        advice: 'Wait until the database of the documents answers again',
      });
    const note = { id: uuid7(), server: this.#server, agent, documents, cleared };
    this.#running.set(note.id, note);
    return note;
  }

  /** The write has ended here. `isLeft`: its outcome is unknown, or could not be recorded. */
  ended(note: WriteNote | null, isLeft: boolean): void {
    if (note === null) return;
    this.#running.delete(note.id);
    if (isLeft) this.#left += 1;
  }

  async #renewAll(): Promise<void> {
    if (this.#running.size > 0) await this.#options.notes.renew([...this.#running.values()]);
  }

  /**
   * In a directory, notes from before the start are filed at once. They go later, after they were filed again: the store
   * may still have been at work on a request of the killed server.
   */
  async #recoverAll(): Promise<void> {
    const { notes, limits } = this.#options;
    const ageMs = requestsUntilLeft * limits.backendRequestSecondsMax * 1_000;
    try {
      if (this.#isFirstRound && !notes.isShared) await this.#recover(await this.#takeLeft(0), false);
      this.#isFirstRound = false;
      for (;;) {
        const left = await this.#takeLeft(ageMs);
        if (left.length === 0 || this.#isClosing) return;
        await this.#recover(left, true);
      }
    } finally {
      this.#left = await notes.countNotes();
    }
  }

  async #takeLeft(ageMs: number): Promise<WriteNote[]> {
    return (await this.#options.notes.takeLeft(ageMs)).filter(({ id }) => !this.#running.has(id));
  }

  /** A note that cannot be filed does not stop the others; a store that is unavailable ends the round. */
  async #recover(left: readonly WriteNote[], isOld: boolean): Promise<void> {
    let failure: unknown;
    for (const note of left) {
      if (this.#isClosing || isUnavailable(failure)) break;
      try {
        await this.#file(note, isOld);
      } catch (error) {
        failure = error;
      }
    }
    if (failure !== undefined) throw failure;
  }

  async #file(note: WriteNote, isOld: boolean): Promise<void> {
    const { notes, current } = this.#options;
    const name = JSON.stringify([note.id, callerOf(note).user]);
    const before = this.#announced.get(name);
    const announced = new Set<string>();
    const end = (
      documents: readonly CurrentDocument[],
      changes: Change[],
      isLast: boolean,
    ): Promise<void> => {
      for (const change of changes) announced.add(JSON.stringify(change));
      const added = changes.filter((change) => before?.has(JSON.stringify(change)) !== true);
      return notes.end(callerOf(note), { changes: added, documents, note, isLast: isLast && isOld });
    };
    if (note.cleared !== null) await this.#fileCleared(note.cleared, end);
    const deletes = new Set(note.documents.flatMap(({ key, isDelete }) => (isDelete ? [key] : [])));
    await filed(notes, note, () =>
      current.pass(note.documents, (documents, isLast) =>
        end(
          documents,
          documents.flatMap((document) => changeOf(document, deletes)),
          isLast,
        ),
      ),
    );
    if (isOld) this.#announced.delete(name);
    else this.#announced.set(name, announced);
  }

  /** A step of a clear removed all of its documents, some, or none. */
  async #fileCleared(
    { scope, after }: NonNullable<WriteNote['cleared']>,
    end: (documents: readonly CurrentDocument[], changes: Change[], isLast: boolean) => Promise<void>,
  ): Promise<void> {
    const { notes, current, store } = this.#options;
    const isEmpty = (await store.listKeys(scope, { prefix: '', after, limit: 1 })).length === 0;
    let deleted = 0;
    await forgetGone(notes, current, { scope, after, through: null }, (documents) => {
      const gone = documents.filter(({ record }) => record === undefined);
      deleted += gone.length;
      return end(documents, isEmpty ? [] : gone.map(({ key }) => documentDeleted(scope, key)), false);
    });
    if (isEmpty) await end([], [namespaceCleared(scope, deleted, after, null)], false);
  }
}

/** A set that left no document did not happen, or another write removed the document and announced that. */
function changeOf({ user, namespace, key, record }: CurrentDocument, deletes: ReadonlySet<string>): Change[] {
  if (record !== undefined) return [documentSet({ user, namespace }, key, record.version)];
  return deletes.has(key) ? [documentDeleted({ user, namespace }, key)] : [];
}

/** Looks at every document of a cleared range whose words the home has: most are gone. */
export async function forgetGone(
  notes: StoreNotes,
  current: CurrentDocuments,
  { scope, after, through }: { scope: Scope; after: string | null; through: string | null },
  receive: (documents: readonly CurrentDocument[]) => Promise<void>,
): Promise<void> {
  let last = after;
  for (;;) {
    const keys = await notes.wordKeys(scope, last, through);
    if (keys.length === 0) return;
    await current.pass(
      keys.map((key) => ({ ...scope, key })),
      receive,
    );
    last = keys.at(-1) ?? null;
  }
}

/** Reads and files again if another server filed one of the documents after it was read here. */
export async function filed(
  notes: StoreNotes,
  note: WriteNote | null,
  file: () => Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      return await file();
    } catch (error) {
      if (!(error instanceof OutdatedRead) || note === null) throw error;
      await notes.readAgain(note);
    }
  }
}

function callerOf({ agent, documents, cleared }: WriteNote): { user: string; agent: string | null } {
  return { user: documents[0]?.user ?? cleared?.scope.user ?? '', agent };
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoaError && error.code === 'backend_unavailable';
}
