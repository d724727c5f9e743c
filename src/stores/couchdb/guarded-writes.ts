/** Writes that require the revision that was read: each happens once, even if its answer is lost. */
import type { Scope } from '../../datastore/model.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { chunksOf, mapInFlight } from '../in-flight.js';
import { backOff, contended } from '../retries.js';
import { newWriteId } from '../write-ids.js';
import type { BulkResult, CouchDatabase, CouchDocument } from './database.js';
import { couchId } from './documents.js';
import { isUnanswered, tooLargeFix } from './transport.js';

const documentsPerRequest = 500;
const requestBytesMax = 4 * 1024 * 1024;

/**
 * The result of an item for the stored document: an answer, and the new document unless nothing is written.
 */
interface Decision<Answer> {
  answer: Answer;
  document?: CouchDocument;
}

/** The field that identifies a write. Counted reads have their own field, so that neither hides the other. */
export type Mark = 'writeId' | 'readsId';

interface Sent<Answer> {
  index: number;
  answer: Answer;
  document: CouchDocument;
}

interface Lost<Answer> extends Sent<Answer> {
  fault: StoaError;
}

export class GuardedWrites {
  readonly #database: CouchDatabase;
  readonly #limits: Limits;

  constructor(database: CouchDatabase, limits: Limits) {
    this.#database = database;
    this.#limits = limits;
  }

  async look(ids: readonly string[]): Promise<(CouchDocument | undefined)[]> {
    const [only] = ids;
    if (only !== undefined && ids.length === 1) return [await this.#database.get(only)];
    return (
      await mapInFlight(chunksOf(ids, documentsPerRequest), this.#limits.backendInFlightMax, (chunk) =>
        this.#database.getAll(chunk),
      )
    ).flat();
  }

  /** Writes in chunks. Throws if an answer was lost. */
  async bulk(documents: readonly CouchDocument[]): Promise<BulkResult[]> {
    const { results, fault } = await this.#send(documents);
    if (fault !== undefined) throw fault;
    return results;
  }

  /**
   * Reads the documents, decides the new content of each, and writes. A document that another writer changed
   * meanwhile is read again, until the write succeeds or is refused. So is a write whose answer was lost: its
   * mark shows whether it happened.
   */
  async settle<Item extends { readonly key: string }, Answer>(
    scope: Scope,
    items: readonly Item[],
    decide: (item: Item, document: CouchDocument | undefined) => Decision<Answer>,
    mark: Mark = 'writeId',
  ): Promise<(Answer | Error)[]> {
    const results = Array<Answer | Error | undefined>(items.length).fill(undefined);
    const marks = items.map(() => newWriteId());
    let lost = new Map<number, Lost<Answer>>();
    let open = [...items.keys()];
    for (let attempts = 1; open.length > 0; attempts += 1) {
      if (attempts > this.#limits.updateAttemptsMax) {
        for (const index of open) results[index] = contended((items[index] as Item).key, attempts - 1);
        break;
      }
      if (attempts > 2) await backOff(Math.min(attempts - 2, 4), this.#limits);
      const ids = open.map((index) => couchId(scope, (items[index] as Item).key));
      let seen: (CouchDocument | undefined)[];
      try {
        seen = await this.look(ids);
      } catch (error) {
        // Some are already written: each document shows whether its write happened.
        if (attempts === 1 || !(error instanceof StoaError)) throw error;
        for (const index of open) results[index] = error;
        break;
      }
      const writes: Sent<Answer>[] = [];
      for (const [position, index] of open.entries()) {
        const [item, document] = [items[index] as Item, seen[position]];
        try {
          const before = lost.get(index);
          const known = before && (await this.#answerOf(ids[position] as string, before, document, mark));
          const decision = known === undefined ? decide(item, document) : undefined;
          if (decision?.document === undefined) results[index] = known ?? decision?.answer;
          else
            writes.push({
              index,
              answer: decision.answer,
              document: { ...decision.document, [mark]: marks[index] },
            });
        } catch (error) {
          if (!(error instanceof StoaError)) throw error;
          results[index] = error;
        }
      }
      const { results: outcomes, fault } = await this.#send(writes.map(({ document }) => document));
      open = [];
      lost = new Map();
      for (const [position, sent] of writes.entries()) {
        const outcome = outcomes[position];
        if (outcome === undefined && fault !== undefined) lost.set(sent.index, { ...sent, fault });
        if (outcome === undefined || outcome.error === 'conflict') open.push(sent.index);
        else results[sent.index] = outcome.error === undefined ? sent.answer : refused(outcome);
      }
    }
    return results as (Answer | Error)[]; // Every index has left `open` with a result.
  }

  /**
   * The answer of a write whose answer was lost, from the current document: undefined if the write did not
   * happen, and the fault if another writer has written since.
   */
  async #answerOf<Answer>(
    id: string,
    sent: Lost<Answer>,
    found: CouchDocument | undefined,
    mark: Mark,
  ): Promise<Answer | Error | undefined> {
    const { document } = sent;
    if (found !== undefined && found[mark] === document[mark]) return sent.answer;
    if (found === undefined && document['_deleted'] === true)
      return (await this.#database.tombstone(id))?.[mark] === document[mark] ? sent.answer : undefined;
    // If the write is sent again with the same revision, only one of the two can succeed, even if the first
    // is still running.
    return found?._rev === document._rev ? undefined : sent.fault;
  }

  /** If an answer was lost: fewer results than documents, and the error. Later documents are not sent. */
  async #send(documents: readonly CouchDocument[]): Promise<{ results: BulkResult[]; fault?: StoaError }> {
    const results: BulkResult[] = [];
    for (let start = 0; start < documents.length;) {
      let [end, sizeBytes] = [start, 0];
      while (
        end < documents.length &&
        end - start < documentsPerRequest &&
        (end === start || sizeBytes < requestBytesMax)
      ) {
        sizeBytes += Number(documents[end]?.['sizeBytes'] ?? 0);
        end += 1;
      }
      try {
        results.push(...(await this.#database.bulk(documents.slice(start, end))));
      } catch (error) {
        if (!isUnanswered(error)) throw error;
        return { results, fault: error };
      }
      start = end;
    }
    return { results };
  }
}

export function refused({ id, error, reason }: BulkResult): StoaError {
  const isTooLarge = error === 'too_large' || error === 'document_too_large';
  return new StoaError(
    isTooLarge ? 'too_large' : 'engine',
    `CouchDB refused the document "${id}": ${reason ?? error}.`,
    isTooLarge ? { fix: tooLargeFix } : {},
  );
}
