/** What PostgreSQL keeps for a store of documents beside it: the feed, words, answers under a key, and leases. */
import { byAgent } from '../../core/change.js';
import type { StoreNotes } from '../../datastore/document-store/documents.js';
import type { PostgresSql } from './database/connection.js';
import { putStoreEntries, storeEntryKeys } from './find/store-entries.js';
import { beginAnswer, dropAnswer, endAnswer, findAnswer, lockAnswer } from './write/kept-answers.js';
import type { PostgresWriter } from './write/writer.js';

export class PostgresStoreNotes implements StoreNotes {
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;

  constructor(sql: PostgresSql, writer: PostgresWriter) {
    this.#sql = sql;
    this.#writer = writer;
  }

  readonly checkCaller: StoreNotes['checkCaller'] = async (caller) => {
    if (caller.fence !== null || caller.tokenId !== null)
      await this.#writer.transact((work) => work.checkFence(), caller);
  };

  readonly answered: StoreNotes['answered'] = (caller, idempotency) =>
    findAnswer(this.#sql, caller, idempotency);

  readonly begin: StoreNotes['begin'] = (caller, idempotency) =>
    this.#writer.transact(async (work) => {
      await lockAnswer(work, idempotency);
      const before = await findAnswer(work.sql, caller, idempotency);
      if (before === undefined) await beginAnswer(work, caller, idempotency);
      return before;
    });

  readonly end: StoreNotes['end'] = async (caller, changes, kept, documents) => {
    await this.#writer.transact(async (work) => {
      work.announce(...changes.map((change) => byAgent(change, caller.agent)));
      await putStoreEntries(work, documents);
      if (kept !== null) await endAnswer(work, caller, kept.idempotency, kept.results);
    });
  };

  readonly wordKeys: StoreNotes['wordKeys'] = (scope, after, through) =>
    storeEntryKeys(this.#sql, scope, after, through);

  readonly abandon: StoreNotes['abandon'] = async (caller, idempotency) => {
    await dropAnswer(this.#sql, caller, idempotency);
  };
}
