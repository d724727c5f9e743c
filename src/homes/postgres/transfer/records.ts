/** Records of one kind in PostgreSQL: read in pages, and written in one transaction for each step. */
import { type Verdict, isSame, outcomeOf, verdictOf } from '../../../transfer/import/compare-records.js';
import type { Conflict, OnConflict, Outcome, TransferRecord } from '../../../transfer/model.js';
import type { Coming, ExportScope, RecordPage, RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';

/**
 * The storage of one kind of record. Its statements run on a `Reader`, the pool, or on a `Writer`, an open
 * transaction.
 */
export interface TableKind<Kind extends TransferRecord, Reader, Writer extends Reader> {
  page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>>;
  /** The stored record with the same id, without secrets. */
  stored(on: Reader, record: Kind): Promise<Kind | undefined>;
  /** A conflict with a record of another id. `coming` is undefined right before the record is written. */
  obstacle?(on: Reader, record: Kind, coming: Coming | undefined): Promise<Conflict | null>;
  /** The part that is compared to decide whether two records are the same. */
  essence?(record: Kind): unknown;
  /** Whether a new record counts in the quota of its user; every record does where this is missing. */
  isCounted?(record: Kind): boolean;
  /** The reason why even empty tables could not hold the record, or null. */
  refusalOf?(record: Kind): string | null;
  /**
   * Writes the records in a few statements if all of them are new and none has a conflict. Otherwise writes
   * nothing and returns false; each record is then checked and written separately.
   */
  addAll?(on: Writer, records: readonly Kind[]): Promise<boolean>;
  /** `isNew`: a check in the same transaction found no record with this id. */
  put(on: Writer, record: Kind, isNew: boolean): Promise<void>;
}

export interface TableAccess<Reader, Writer extends Reader> {
  reader: Reader;
  /** Runs a step as one transaction. */
  transact<T>(body: (writer: Writer) => Promise<T>): Promise<T>;
}

/** What most records need to be read. */
export interface SqlReader {
  readonly sql: Queryable;
}

/** Records that are read from the pool, and written in a transaction of the home's writer. */
export function writerAccess(
  sql: PostgresSql,
  transact: PostgresWriter['transact'],
): TableAccess<SqlReader, Work> {
  return { reader: { sql }, transact };
}

interface OrderedRows {
  readonly columns: string;
  readonly from: string;
  /** Columns of text, which are among the `columns`. */
  readonly key: readonly string[];
  /** More conditions, and their parameters; the first is numbered after the columns of the key. */
  readonly where?: string;
  readonly parameters?: readonly string[];
}

/** A page of rows in the order of their key. The position is the key of the last row. */
export async function pageOfRows<Row extends object, Line extends { type: string }>(
  sql: Queryable,
  { columns, from, key, where = '', parameters = [] }: OrderedRows,
  lineOf: (row: Row) => Line,
  after: string | null,
  limit: number,
): Promise<RecordPage<Line>> {
  const order = key.join(', ');
  const places = key.map((_, index) => `$${index + 1}`).join(', ');
  const rows = await query<Row>(
    sql,
    `SELECT ${columns} FROM ${from} WHERE (${order}) > (${places}) ${where} ORDER BY ${order} LIMIT ${limit}`,
    [...(after?.split(keySeparator) ?? key.map(() => '')), ...parameters],
  );
  const last = rows.length < limit ? undefined : new Map(Object.entries(rows.at(-1) ?? {}));
  return {
    records: rows.map(lineOf),
    after: last === undefined ? null : key.map((column) => last.get(nameOf(column))).join(keySeparator),
  };
}

/** PostgreSQL cannot store it in text. */
const keySeparator = '\0';

/** `l.user_id` and `"userId"` as the driver names them. */
function nameOf(column: string): string {
  return column.replace(/^\w+\./, '').replaceAll('"', '');
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

  isCounted(record: Kind): boolean {
    return this.#kind.isCounted?.(record) !== false;
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
