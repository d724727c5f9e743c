/**
 * Joins segments into one, without the entries that have left or expired. Only a few blocks are in memory at
 * a time.
 */
import { Slices } from '../../core/waiting/yielding.js';
import { type Block, BlockWriter, TermCursor } from './blocks.js';
import { type CatalogCursor, compareRows } from './catalog-cursor.js';
import { type Catalog, CatalogWriter } from './catalog.js';
import { PostingRows } from './posting-rows.js';
import type { SegmentFacts } from './facts.js';
import type { DeadPlaces } from './segment.js';

/** A stored segment that is joined with others. */
export interface MergedSegment {
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
  /** The entries that have left, by their places. */
  readonly dead: DeadPlaces;
  /** The bodies of its blocks, in the order of their terms. */
  readonly blocks: AsyncIterable<Buffer>;
}

/** The catalog and the facts of the new segment, and for each old one the new places of its entries: -1 for one that goes. */
export interface MergedCatalog {
  readonly catalog: Buffer;
  readonly facts: Buffer;
  readonly entries: number;
  readonly placesOf: readonly Int32Array[];
}

export async function mergedCatalog(
  segments: readonly Omit<MergedSegment, 'blocks'>[],
  nowMs: number,
): Promise<MergedCatalog> {
  const joined = new CatalogWriter();
  const placesOf = segments.map(({ catalog }) => new Int32Array(catalog.count).fill(-1));
  const inputs = segments.map(({ catalog, facts, dead }, index) => ({
    cursor: catalog.cursor(facts),
    dead,
    places: placesOf[index] as Int32Array,
  }));
  let left = inputs.filter((input) => toNextStaying(input, nowMs));
  const slices = new Slices({ isBackground: () => true });
  for (;;) {
    let [lowest] = left;
    if (lowest === undefined) return { ...joined.take(), entries: joined.count, placesOf };
    for (const input of left) if (compareRows(input.cursor, lowest.cursor) < 0) lowest = input;
    lowest.places[lowest.cursor.place] = joined.count;
    joined.add(lowest.cursor);
    if (!toNextStaying(lowest, nowMs)) left = left.filter((input) => input !== lowest);
    const pause = slices.pause();
    if (pause !== undefined) await pause;
  }
}

/** False if no further entry stays. */
function toNextStaying(
  { cursor, dead }: { cursor: CatalogCursor; dead: DeadPlaces },
  nowMs: number,
): boolean {
  while (cursor.next()) if (!dead.has(cursor.place) && (cursor.expiresAtMs ?? Infinity) > nowMs) return true;
  return false;
}

/**
 * The blocks of the new segment, some at a time, so that its caller can write them in steps. Other work runs
 * meanwhile.
 */
export async function* mergedBlocks(
  segments: readonly MergedSegment[],
  { placesOf }: MergedCatalog,
): AsyncGenerator<readonly Block[], undefined> {
  const inputs = segments.map(({ blocks }, index) => new Input(blocks, placesOf[index] as Int32Array));
  for (const input of inputs) await input.advance();
  const writer = new BlockWriter();
  const rows = new PostingRows();
  const order = new MergedOrder();
  let term: Buffer = Buffer.allocUnsafe(128);
  const slices = new Slices({ isBackground: () => true });
  for (let lowest = lowestOf(inputs); lowest !== undefined; lowest = lowestOf(inputs)) {
    const { length } = lowest.cursor;
    // The cursor reads its next term into the same memory.
    if (length > term.length) term = Buffer.allocUnsafe(length * 2);
    lowest.cursor.term.copy(term, 0, 0, length);
    rows.clear();
    order.clear();
    for (const input of inputs) {
      const from = rows.count;
      // A list may continue in the next block.
      while (!input.isAtEnd && input.cursor.compare(term, length) === 0) {
        const { body, listFrom, listTo } = input.cursor;
        rows.addList(body, listFrom, listTo, input.places);
        const read = input.advance();
        if (read !== undefined) await read;
      }
      order.addRun(from, rows.count);
    }
    if (rows.count > 0) writer.add(term, 0, length, { rows, order: order.of(rows), from: 0, to: rows.count });
    const complete = writer.takeComplete();
    if (complete.length > 0) yield complete;
    const pause = slices.pause();
    if (pause !== undefined) await pause;
  }
  yield writer.end();
}

/** One of the joined segments: its present term. */
class Input {
  readonly cursor = new TermCursor();
  readonly places: Int32Array;
  isAtEnd = false;
  readonly #blocks: AsyncIterator<Buffer>;

  constructor(blocks: AsyncIterable<Buffer>, places: Int32Array) {
    this.#blocks = blocks[Symbol.asyncIterator]();
    this.places = places;
  }

  /** To the next term. A promise if another block must be read first. */
  advance(): Promise<void> | undefined {
    return this.cursor.next() ? undefined : this.#openNext();
  }

  async #openNext(): Promise<void> {
    do {
      const { done, value } = await this.#blocks.next();
      if (done === true) {
        this.isAtEnd = true;
        return;
      }
      this.cursor.open(value);
    } while (!this.cursor.next());
  }
}

function lowestOf(inputs: readonly Input[]): Input | undefined {
  let lowest: Input | undefined;
  for (const input of inputs)
    if (
      !input.isAtEnd &&
      (lowest === undefined || lowest.cursor.compare(input.cursor.term, input.cursor.length) > 0)
    )
      lowest = input;
  return lowest;
}

/** The postings of one term by their places. Those of one segment, a run, are in order already. */
class MergedOrder {
  #order = new Int32Array(256);
  readonly #from: number[] = [];
  readonly #to: number[] = [];

  clear(): void {
    this.#from.length = 0;
    this.#to.length = 0;
  }

  addRun(from: number, to: number): void {
    if (from === to) return;
    this.#from.push(from);
    this.#to.push(to);
  }

  of({ places, count }: PostingRows): Int32Array {
    if (this.#order.length < count) this.#order = new Int32Array(count * 2);
    const [order, from, to] = [this.#order, this.#from, this.#to];
    for (let at = 0; at < count; at += 1) {
      let next = -1;
      let least = Infinity;
      for (let run = 0; run < from.length; run += 1) {
        const row = from[run] as number;
        if (row === to[run] || (places[row] as number) >= least) continue;
        next = run;
        least = places[row] as number;
      }
      order[at] = from[next] as number;
      from[next] = (from[next] as number) + 1;
    }
    return order;
  }
}
