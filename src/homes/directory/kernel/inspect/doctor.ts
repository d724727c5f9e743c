/** Looks through a store for rows that do not fit each other, and mends them page by page. */
import { messageOf } from '../../../../core/errors.js';
import type { Entry, RangeOptions } from '../engine.js';
import type { Store } from '../store.js';
import type { Reader, Transaction } from '../transaction.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { ExaminedFinding, Finding } from '../../../../operations/model.js';

export interface Damage extends Finding {
  /** Mends it inside a transaction of `store`, or of the store that was looked through. */
  mend?: (tx: Transaction) => void;
  store?: Store;
}

/** Yielded by a check in the middle of a long count: others may have a turn here. No scan is open across it. */
export const turn = Symbol('turn');
export type Found = Damage | typeof turn;

/** Rows that a count goes over between two turns. */
const rowsPerTurn = 200;

/** Calls back for every row of a range, with turns in between. */
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

/** One family, walked in key order. Each domain brings its own checks; their order is the order of repair. */
export interface Check {
  family: string;
  /** What is wrong with this row, or with rows that follow from it. */
  inspect(reader: Reader, entry: Entry, store: Store): Iterable<Found>;
  /** After the walk: what is wrong with the family as a whole, such as a row that should be there alone. */
  conclude?(reader: Reader, store: Store): Iterable<Found>;
}

export interface ExamineOptions {
  repair?: boolean;
  /** Rows looked at in one turn, and mended in one transaction. */
  pageEntries?: number;
}

/** Every damage in all shards. Shard 00 comes last: its directory is judged by what the others hold then. */
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
 * Every damage that the checks find in a store, mended as it goes where asked for. Holds one page
 * at a time, so that a store of any size can be examined while it is in use.
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
      yield* judge(store, (reader) => inspectPage(check, reader, page, store), options);
      await slices.pause();
      const last = page.at(-1);
      if (last === undefined || page.length < limit) break;
      after = last.key;
    }
    yield* judge(store, (reader) => check.conclude?.(reader, store) ?? [], options);
  }
}

/** One page as it is now. A row that a check stumbles over is damage too, and no reason to leave the rest unseen. */
function* inspectPage(check: Check, reader: Reader, page: readonly Entry[], store: Store): Generator<Found> {
  for (const { key, value } of page) {
    const now = reader === store ? value : reader.get(check.family, key);
    if (now === undefined) continue;
    try {
      yield* check.inspect(reader, { key, value: now }, store);
    } catch (error) {
      yield beyondRepair(
        check.family,
        key,
        'unreadable',
        `The row, or one that follows from it, cannot be read: ${messageOf(error)}.`,
      );
    }
  }
}

/** Tells what is found, or mends it. */
async function* judge(
  store: Store,
  find: (reader: Reader) => Iterable<Found>,
  options: ExamineOptions,
): AsyncGenerator<Finding & { repaired: boolean }> {
  const sight = await look(store, find);
  if (sight.damages.length > 0 && options.repair === true) yield* await mendAll(store, find, sight);
  else for (const damage of sight.damages) yield { ...findingOf(damage), repaired: false };
}

/** What a look has found. */
interface Sight {
  damages: Damage[];
  /** The newest transaction that it saw, of a look that took several turns. */
  lsn: number | undefined;
}

/** Looks that may be disturbed by writes in their middle before one look holds up everybody. */
const looksMax = 3;

/**
 * What is wrong now. Somebody may have written while a long count gave others a turn, which then does not fit: what such
 * a look finds is looked for again, at last in one turn.
 */
async function look(store: Store, find: (reader: Reader) => Iterable<Found>): Promise<Sight> {
  const slices = new Slices();
  for (let looks = 0; looks < looksMax; looks += 1) {
    // Plain reads see what is durable.
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
    if (damages.length === 0 || !waited) return { damages, lsn: undefined };
    if (store.newestLsn === lsn) return { damages: withoutRepeats(damages), lsn };
  }
  return { damages: damagesIn(find(store)), lsn: undefined };
}

/**
 * Mends what a long look has found where nothing was written since it began. After any other look it looks again inside
 * the transaction: what was wrong a moment ago may have been a write on its way.
 */
async function mendAll(
  store: Store,
  find: (reader: Reader) => Iterable<Found>,
  { damages: seen, lsn }: Sight,
): Promise<(Finding & { repaired: boolean })[]> {
  const damages = await store.transact((tx) => {
    const found: Damage[] = [];
    for (const damage of store.newestLsn === lsn ? seen : find(tx)) {
      if (damage === turn) continue;
      found.push(damage);
      if (damage.store === undefined || damage.store === store) damage.mend?.(tx);
    }
    return found;
  });
  for (const { mend, store: other } of damages) {
    if (mend !== undefined && other !== undefined && other !== store) await other.transact((tx) => mend(tx));
  }
  return damages.map((damage) => ({ ...findingOf(damage), repaired: damage.mend !== undefined }));
}

function damagesIn(found: Iterable<Found>): Damage[] {
  return Array.from(found).filter((one) => one !== turn);
}

/** Several rows of a page may miss the same one. */
function withoutRepeats(damages: readonly Damage[]): Damage[] {
  return [...new Map(damages.map((damage) => [JSON.stringify(findingOf(damage)), damage])).values()];
}

function findingOf({ family, key, kind, problem, repair }: Damage): Finding {
  return { family, key, kind, problem, repair };
}

// Words for the usual kinds of damage.

/** A row that should be there. */
export function missingRow(
  family: string,
  key: Buffer,
  problem: string,
  mend: (tx: Transaction) => void,
  store?: Store,
): Damage {
  return {
    family,
    key: key.toString('hex'),
    kind: 'missing',
    problem,
    repair: 'write the row',
    mend,
    ...(store && { store }),
  };
}

/** A row that should not be there. */
export function surplusRow(
  family: string,
  key: Buffer,
  kind: 'dangling' | 'duplicate' | 'wrong',
  problem: string,
  store?: Store,
): Damage {
  return {
    family,
    key: key.toString('hex'),
    kind,
    problem,
    repair: 'delete the row',
    mend: (tx) => tx.delete(family, key),
    ...(store && { store }),
  };
}

/** A row that says something else than it should. */
export function wrongRow(
  family: string,
  key: Buffer,
  problem: string,
  mend: (tx: Transaction) => void,
): Damage {
  return { family, key: key.toString('hex'), kind: 'wrong', problem, repair: 'write the row anew', mend };
}

/** Damage that only a backup can help with. */
export function beyondRepair(
  family: string,
  key: Buffer,
  kind: 'unreadable' | 'wrong' | 'missing',
  problem: string,
): Damage {
  return { family, key: key.toString('hex'), kind, problem, repair: null };
}
