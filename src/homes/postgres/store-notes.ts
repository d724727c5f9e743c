/** What PostgreSQL keeps for a store of documents beside it: the feed, words, answers under a key, and leases. */
import type { Caller } from '../../core/caller.js';
import { type Change, byAgent } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { CurrentDocument } from '../../datastore/document-store/current-documents.js';
import type { KeptResults, StoreNotes } from '../../datastore/document-store/documents.js';
import type { Scope } from '../../datastore/model.js';
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

  async checkCaller(caller: Caller): Promise<void> {
    if (caller.fence !== null || caller.tokenId !== null)
      await this.#writer.transact((work) => work.checkFence(), caller);
  }

  answered(caller: Caller, idempotency: Idempotency): Promise<unknown[] | undefined> {
    return findAnswer(this.#sql, caller, idempotency);
  }

  begin(caller: Caller, idempotency: Idempotency): Promise<unknown[] | undefined> {
    return this.#writer.transact(async (work) => {
      await lockAnswer(work, idempotency);
      const before = await findAnswer(work.sql, caller, idempotency);
      if (before === undefined) await beginAnswer(work, caller, idempotency);
      return before;
    });
  }

  async end(
    caller: Caller,
    changes: readonly Change[],
    kept: KeptResults | null,
    documents: readonly CurrentDocument[],
  ): Promise<void> {
    await this.#writer.transact(async (work) => {
      work.announce(...changes.map((change) => byAgent(change, caller.agent)));
      await putStoreEntries(work, documents);
      if (kept !== null) await endAnswer(work, caller, kept.idempotency, kept.results);
    });
  }

  wordKeys(scope: Scope, after: string | null, through: string | null): Promise<string[]> {
    return storeEntryKeys(this.#sql, scope, after, through);
  }

  async abandon(caller: Caller, idempotency: Idempotency): Promise<void> {
    await dropAnswer(this.#sql, caller, idempotency);
  }
}
