/**
 * A family of records whose index rows are declared once. A write compares the rows of the old and the new
 * record and writes the difference; `stoa doctor` compares the same rows with those that are stored.
 */
import type { Transaction } from './kernel/transaction.js';

/** A key as text, or as bytes. */
type IndexKey = string | Buffer;

/**
 * One index of a record. The record comes with its place: other data that the rows depend on, such as the
 * project of a task. Counters, timers and rows that are stale on purpose are not declared.
 */
export interface Index<Placed> {
  readonly family: string;
  /** The keys that the record has in this index: one, several or none. */
  keysOf(placed: Placed): IndexKey | readonly IndexKey[] | undefined;
  /** The value under each of these keys; empty by default. It must stay the same while the record exists. */
  contentOf?(placed: Placed): Buffer;
  /**
   * The part of a record that determines the keys, besides its id, which never changes. If it is the same
   * value (`===`) before and after a write, the keys are not computed. Without it they are always computed
   * and compared.
   */
  basisOf?(placed: Placed): unknown;
}

/** An index row that a record must have. */
export interface IndexRow {
  readonly family: string;
  readonly key: Buffer;
  readonly value: Buffer;
}

export interface FamilyDeclaration<Placed> {
  readonly family: string;
  keyOf(placed: Placed): Buffer;
  encode(placed: Placed): Buffer;
  readonly indexes: readonly Index<Placed>[];
}

const noValue = Buffer.alloc(0);

export class IndexedFamily<Placed> {
  readonly #declaration: FamilyDeclaration<Placed>;

  constructor(declaration: FamilyDeclaration<Placed>) {
    this.#declaration = declaration;
  }

  /** Writes a record and the difference between its old and its new index rows. */
  put(tx: Transaction, before: Placed | undefined, after: Placed): void {
    this.rewrite(tx, after);
    this.move(tx, before, after);
  }

  /** Writes a record in which only fields changed that no index reads, such as counters and times. */
  rewrite(tx: Transaction, placed: Placed): void {
    const { family, keyOf, encode } = this.#declaration;
    tx.put(family, keyOf(placed), encode(placed));
  }

  remove(tx: Transaction, placed: Placed): void {
    tx.removesRecords = true;
    tx.delete(this.#declaration.family, this.#declaration.keyOf(placed));
    this.move(tx, placed, undefined);
  }

  /** Writes only the difference of the index rows, if only the place of the record changed. */
  move(tx: Transaction, before: Placed | undefined, after: Placed | undefined): void {
    for (const index of this.#declaration.indexes) moveRows(tx, index, before, after);
  }

  /** Every index row that the record must have. */
  rowsOf(placed: Placed): IndexRow[] {
    return this.#declaration.indexes.flatMap((index) =>
      listed(index.keysOf(placed)).map((key) => ({
        family: index.family,
        key: bytesOf(key),
        value: index.contentOf?.(placed) ?? noValue,
      })),
    );
  }
}

function moveRows<Placed>(
  tx: Transaction,
  index: Index<Placed>,
  before: Placed | undefined,
  after: Placed | undefined,
): void {
  if (before !== undefined && after !== undefined && index.basisOf !== undefined)
    if (index.basisOf(before) === index.basisOf(after)) return;
  const had = before === undefined ? undefined : index.keysOf(before);
  const has = after === undefined ? undefined : index.keysOf(after);
  // Most changes leave most indexes unchanged: one comparison of two strings for each.
  if (had === has) return;
  const [old, fresh] = [listed(had), listed(has)];
  for (const key of old) if (!includes(fresh, key)) tx.delete(index.family, bytesOf(key));
  if (after === undefined) return;
  for (const key of fresh)
    if (!includes(old, key)) tx.put(index.family, bytesOf(key), index.contentOf?.(after) ?? noValue);
}

function listed(keys: IndexKey | readonly IndexKey[] | undefined): readonly IndexKey[] {
  if (keys === undefined) return [];
  return typeof keys === 'string' || Buffer.isBuffer(keys) ? [keys] : keys;
}

function includes(keys: readonly IndexKey[], wanted: IndexKey): boolean {
  return typeof wanted === 'string'
    ? keys.includes(wanted)
    : keys.some((key) => Buffer.isBuffer(key) && key.equals(wanted));
}

function bytesOf(key: IndexKey): Buffer {
  return typeof key === 'string' ? Buffer.from(key) : key;
}
