/** Examines a store for rows that do not match each other, and repairs them page by page. */
import { messageOf } from '../../../../core/errors.js';
import type { Entry, RangeOptions } from '../engine.js';
import type { Store } from '../store.js';
import type { Reader } from '../transaction.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { ExaminedFinding, Finding } from '../../../../operations/model.js';
import { type Damage, ExaminedRow, type Pass } from './damage.js';

/** Yielded by a check during a long count, so that other work can run. No scan is open at this point. */
export const turn = Symbol('turn');
export type Found = Damage | typeof turn;

/** Rows that are counted before other work can run. */
const rowsPerTurn = 200;

/** Calls back for every row of a range and lets other work run in between. */
export function* eachRow(
  reader: Reader,
  family: string,
  range: RangeOptions,
  onRow: (entry: Entry) => void,
): Generator<typeof turn, void> {
  for (let start = range; ;) {
    let last: Buffer | undefined;
    let seen = 0;
    for (const entry of reader.range(family, { ...start, limit: rowsPerTurn })) {
      onRow(entry);
      last = entry.key;
      seen += 1;
    }
    if (last === undefined || seen < rowsPerTurn) return;
    const { lt } = range;
    start = { gt: last, ...(lt !== undefined && { lt }) };
    yield turn;
  }
}

/** One family, walked in key order. Each domain has its own checks; their order is the order of repair. */
export interface Check {
  family: string;
  /** The damage of this row, and of rows that depend on it. */
  inspect(row: ExaminedRow): Iterable<Found>;
  /** After the walk: damage of the family as a whole, such as a missing single row. */
  conclude?(reader: Reader, store: Store): Iterable<Found>;
}

export interface ExamineOptions {
  repair?: boolean;
  /** Rows read in one turn, and repaired in one transaction. */
  pageEntries?: number;
  /** Runs its argument while no write over two shards is unfinished. */
  betweenPairs?: <T>(take: () => Promise<T>) => Promise<T>;
  /** Called after each page with its rows. */
  onRows?: ((rows: number) => void) | undefined;
}

/**
 * All damage in all shards. Shard 00 comes last, because its directory of ids depends on the other shards.
 */
export async function* examineAll(
  stores: readonly Store[],
  checks: readonly Check[],
  options: ExamineOptions = {},
): AsyncGenerator<ExaminedFinding> {
  for (const [shard, store] of [...stores.entries()].toReversed()) {
    for await (const finding of examine(store, checks, options)) yield { ...finding, shard };
  }
}

/**
 * All damage that the checks find in a store, repaired on the way if requested. Holds one page at a time, so
 * that a store of any size can be examined while it is in use.
 */
export async function* examine(
  store: Store,
  checks: readonly Check[],
  options: ExamineOptions = {},
): AsyncGenerator<Finding & { repaired: boolean }> {
  const limit = options.pageEntries ?? 50;
  const slices = new Slices();
  for (const check of checks) {
    let after: Buffer | undefined;
    for (;;) {
      const page = Array.from(
        store.range(check.family, { ...(after !== undefined && { gt: after }), limit }),
      );
      const last = page.at(-1);
      if (last === undefined) break;
      const bounds = { ...(after !== undefined && { gt: after }), lte: last.key };
      yield* checkRows(store, pageInspection(check, store, page, bounds), options);
      options.onRows?.(page.length);
      await slices.pause();
      if (page.length < limit) break;
      after = last.key;
    }
    yield* checkRows(store, (reader) => check.conclude?.(reader, store) ?? [], options);
  }
}

/** Inspects one page: first the rows that were just read, and each time after that the rows as they are then. */
function pageInspection(
  check: Check,
  store: Store,
  page: readonly Entry[],
  bounds: RangeOptions,
): (reader: Reader) => Iterable<Found> {
  let justRead: readonly Entry[] | undefined = page;
  return (reader) => {
    const rows = justRead ?? Array.from(reader.range(check.family, bounds));
    justRead = undefined;
    return inspectRows(check, reader, rows, store);
  };
}

/** A row that makes a check throw is damage too, and does not stop the examination. */
function* inspectRows(check: Check, reader: Reader, rows: readonly Entry[], store: Store): Generator<Found> {
  const pass: Pass = {};
  for (const entry of rows) {
    const row = new ExaminedRow(check.family, entry, { reader, store, pass });
    try {
      yield* check.inspect(row);
    } catch (error) {
      const reason = messageOf(error).replace(/\.$/, '');
      yield row.unreadable(`The row, or a row that it needs, cannot be read: ${reason}.`);
    }
  }
}

/** Reports the damage, or repairs it. */
async function* checkRows(
  store: Store,
  find: (reader: Reader) => Iterable<Found>,
  { repair = false, betweenPairs }: ExamineOptions,
): AsyncGenerator<Finding & { repaired: boolean }> {
  const sight = await look(store, find);
  if (sight.damages.length === 0) return;
  const report = async (seen: Sight) =>
    repair
      ? repairAll(store, find, seen)
      : seen.damages.map((damage) => ({ ...findingOf(damage), repaired: false }));
  // What looked like damage may have been a write that only one of its two shards had.
  yield* betweenPairs === undefined
    ? await report(sight)
    : await betweenPairs(async () => report(await look(store, find)));
}

/** The result of one examination of a page. */
interface Sight {
  damages: Damage[];
  /** For an examination that took several turns: the newest transaction that it saw. */
  lsn: number | undefined;
}

/** Examinations that writes may disturb, before the next one runs in a single turn and delays other work. */
const looksMax = 3;

/**
 * The current damage. If something was written during the examination, its findings may be wrong: a plain read sees a
 * commit before or after the engine has applied it, also within one turn. So it is repeated, at last in a
 * transaction, which sees all of a write or nothing.
 */
async function look(store: Store, find: (reader: Reader) => Iterable<Found>): Promise<Sight> {
  const slices = new Slices();
  for (let looks = 0; looks < looksMax; looks += 1) {
    const { lsn } = store;
    const damages: Damage[] = [];
    let waited = false;
    for (const found of find(store)) {
      if (found !== turn) {
        damages.push(found);
        continue;
      }
      const pause = slices.pause();
      if (pause === undefined) continue;
      waited = true;
      await pause;
    }
    if (damages.length === 0) return { damages, lsn: undefined };
    if (store.newestLsn === lsn) return { damages: withoutRepeats(damages), lsn };
    if (!waited) break;
  }
  const tx = store.begin();
  try {
    return { damages: damagesIn(find(tx)), lsn: undefined };
  } finally {
    store.end(tx);
  }
}

/**
 * Repairs damage from a long examination if nothing was written since it began. Otherwise it checks again
 * inside the transaction, because the damage may have been a write in progress.
 */
async function repairAll(
  store: Store,
  find: (reader: Reader) => Iterable<Found>,
  { damages: seen, lsn }: Sight,
): Promise<(Finding & { repaired: boolean })[]> {
  const damages = await store.transact((tx) => {
    const found: Damage[] = [];
    for (const damage of store.newestLsn === lsn ? seen : find(tx)) {
      if (damage === turn) continue;
      found.push(damage);
      if (damage.store === undefined || damage.store === store) damage.applyRepair?.(tx);
    }
    return found;
  });
  for (const { applyRepair, store: other } of damages) {
    if (applyRepair !== undefined && other !== undefined && other !== store)
      await other.transact((tx) => applyRepair(tx));
  }
  return damages.map((damage) => ({ ...findingOf(damage), repaired: damage.applyRepair !== undefined }));
}

function damagesIn(found: Iterable<Found>): Damage[] {
  return Array.from(found).filter((one) => one !== turn);
}

/** Several rows of a page may need the same missing row. */
function withoutRepeats(damages: readonly Damage[]): Damage[] {
  return [...new Map(damages.map((damage) => [JSON.stringify(findingOf(damage)), damage])).values()];
}

function findingOf({ family, key, kind, problem, repair }: Damage): Finding {
  return { family, key, kind, problem, repair };
}
