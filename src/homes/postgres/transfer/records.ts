/** Records of one kind in PostgreSQL, paged out and written back in one transaction a step. */
import { type Verdict, isSame, outcomeOf, verdictOf } from '../../../transfer/compare-records.js';
import type { Conflict, OnConflict, Outcome, TransferRecord } from '../../../transfer/model.js';
import type { Coming, ExportScope, RecordPage, RecordStore } from '../../../transfer/port.js';

/** How one kind of record lies in its tables. `On` is what its statements run on: a pool, or a transaction with what belongs to it. */
export interface TableKind<Kind extends TransferRecord, Reader, Writer extends Reader> {
  page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>>;
  /** What is stored under the record's id, without secrets. */
  stored(on: Reader, record: Kind): Promise<Kind | undefined>;
  /** What stands in the way beside another record under the same id. `coming` is undefined when it is about to be written. */
  obstacle?(on: Reader, record: Kind, coming: Coming | undefined): Promise<Conflict | null>;
  /** The part of a record that two must have in common to be the same. */
  essence?(record: Kind): unknown;
  /** Why the tables could not hold a record even if they were empty; null where they could. */
  refusalOf?(record: Kind): string | null;
  /**
   * Writes records in few statements where all of them are new and nothing is in their way. Answers false where that is not
   * so, and has written nothing then: each is judged and written by itself.
   */
  addAll?(on: Writer, records: readonly Kind[]): Promise<boolean>;
  /** `isNew`: the record was judged to be new, in the same transaction. */
  put(on: Writer, record: Kind, isNew: boolean): Promise<void>;
}

export interface TableAccess<Reader, Writer extends Reader> {
  reader: Reader;
  /** Runs a step; everything in it is one transaction. */
  transact<T>(body: (writer: Writer) => Promise<T>): Promise<T>;
}

export class TableRecords<
  Kind extends TransferRecord,
  Reader,
  Writer extends Reader,
> implements RecordStore<Kind> {
  readonly #access: TableAccess<Reader, Writer>;
  readonly #kind: TableKind<Kind, Reader, Writer>;

  constructor(access: TableAccess<Reader, Writer>, kind: TableKind<Kind, Reader, Writer>) {
    this.#access = access;
    this.#kind = kind;
  }

  refusalOf(record: Kind): string | null {
    return this.#kind.refusalOf?.(record) ?? null;
  }

  page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>> {
    return this.#kind.page(scope, after, limit);
  }

  judge(record: Kind, coming: Coming): Promise<Verdict> {
    return this.#judge(this.#access.reader, record, coming);
  }

  write(records: readonly Kind[], onConflict: OnConflict): Promise<Outcome[]> {
    return this.#access.transact(async (writer) => {
      if ((await this.#kind.addAll?.(writer, records)) === true) return records.map(() => 'written');
      const outcomes: Outcome[] = [];
      for (const record of records) {
        const outcome = outcomeOf(await this.#judge(writer, record, undefined), onConflict);
        if (outcome === 'written' || outcome === 'replaced')
          await this.#kind.put(writer, record, outcome === 'written');
        outcomes.push(outcome);
      }
      return outcomes;
    });
  }

  async #judge(on: Reader, record: Kind, coming: Coming | undefined): Promise<Verdict> {
    const stored = await this.#kind.stored(on, record);
    if (stored !== undefined && isSame(stored, record, this.#kind.essence)) return 'same';
    return (await this.#kind.obstacle?.(on, record, coming)) ?? verdictOf(record, stored);
  }
}
