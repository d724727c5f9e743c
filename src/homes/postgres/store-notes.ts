/** What PostgreSQL keeps for a store of documents beside it: notes, the feed, words, answers under a key, and leases. */
import { byAgent } from '../../core/change.js';
import type { StoreNotes } from '../../datastore/document-store/notes-port.js';
import type { PostgresSql } from './database/connection.js';
import { putStoreEntries, storeEntryKeys } from './find/store-entries.js';
import {
  countNotes,
  putNote,
  readAgain,
  removeNote,
  renewNotes,
  takeLeftNotes,
} from './find/store-writes.js';
import { beginAnswer, dropAnswer, endAnswer, findAnswer, lockAnswer } from './write/kept-answers.js';
import type { PostgresWriter } from './write/writer.js';

export class PostgresStoreNotes implements StoreNotes {
  readonly isShared = true;
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;

  constructor(sql: PostgresSql, writer: PostgresWriter) {
    this.#sql = sql;
    this.#writer = writer;
  }

  readonly answered: StoreNotes['answered'] = (caller, idempotency) =>
    findAnswer(this.#sql, caller, idempotency);

  readonly begin: StoreNotes['begin'] = (caller, idempotency, note) =>
    this.#writer.transact(
      async (work) => {
        await work.checkFence();
        await lockAnswer(work, idempotency);
        const before = await findAnswer(work.sql, caller, idempotency);
        if (before !== undefined) return before;
        if (idempotency !== null) await beginAnswer(work, caller, idempotency);
        if (note !== null) putNote(work, note);
        return undefined;
      },
      caller.fence !== null || caller.tokenId !== null ? caller : null,
    );

  readonly end: StoreNotes['end'] = (caller, { changes = [], kept = null, documents = [], note, isLast }) =>
    this.#writer.transact(async (work) => {
      work.announce(...changes.map((change) => byAgent(change, caller.agent)));
      await putStoreEntries(work, documents, note);
      if (kept !== null) endAnswer(work, caller, kept.idempotency, kept.results);
      if (isLast && note !== null) removeNote(work, note);
    });

  readonly abandon: StoreNotes['abandon'] = async (caller, idempotency, note) => {
    if (idempotency !== null) await dropAnswer(this.#sql, caller, idempotency);
    if (note !== null) await this.#writer.transact(async (work) => removeNote(work, note));
  };

  readonly readAgain: StoreNotes['readAgain'] = (note) => readAgain(this.#sql, note);

  readonly renew: StoreNotes['renew'] = (notes) => renewNotes(this.#sql, notes);

  readonly takeLeft: StoreNotes['takeLeft'] = (ageMs) =>
    this.#writer.transact((work) => takeLeftNotes(work, ageMs));

  readonly countNotes: StoreNotes['countNotes'] = () => countNotes(this.#sql);

  readonly wordKeys: StoreNotes['wordKeys'] = (scope, after, through) =>
    storeEntryKeys(this.#sql, scope, after, through);
}
