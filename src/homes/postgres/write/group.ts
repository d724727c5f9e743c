/**
 * Independent writes that share one database transaction. Their statements are sent side by side, so a group
 * waits for the database as often as one write does, and is one commit on disk.
 *
 * A row lock does not keep the writes of one transaction apart. So each kind of write has its own group, and
 * two writes to the same record are never in the same group.
 */
import type { Caller } from '../../../core/caller.js';
import { StoaError } from '../../../core/errors.js';
import { Grouping } from '../../../core/waiting/grouping.js';
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import { isDatabaseFault } from '../database/errors.js';
import type { Work } from './work.js';
import type { PostgresWriter } from './writer.js';

export type RunWrite<Result> = (work: Work) => Promise<Result>;

export interface GroupedWritesOptions<Item, Result> {
  readonly writer: PostgresWriter;
  /** What each write of a group does. Called again, with one write, if the group failed. */
  readonly prepare: (items: readonly Item[]) => (item: Item) => RunWrite<Result>;
  /** Writes with the same name are never in the same group. Groups lock their rows in the order of the names. */
  readonly nameOf?: (item: Item) => string;
}

/**
 * One write of a group may wait for a row that a slow write has locked. Then each write runs alone, and the
 * others continue.
 */
export const groupLockWaitMs = 1_000;

const writesMax = 32;
/** While a group waits for the disk, the next one can run. */
const groupsMax = 2;

/** Groups writes of one kind that arrive while earlier ones are running. */
export class GroupedWrites<Item extends { readonly caller: Caller }, Result> {
  readonly #options: GroupedWritesOptions<Item, Result>;
  readonly #grouping: Grouping<Item, Result>;

  constructor(options: GroupedWritesOptions<Item, Result>) {
    this.#options = options;
    const { nameOf } = options;
    this.#grouping = new Grouping({
      run: (items) => this.#run(items),
      itemsMax: writesMax,
      groupsMax,
      ...(nameOf !== undefined && { namesOf: (item: Item) => [nameOf(item)] }),
    });
  }

  add(item: Item): Promise<Result> {
    return this.#grouping.add(item);
  }

  async #run(items: readonly Item[]): Promise<(Result | Error | Promise<Result>)[]> {
    const { writer, nameOf } = this.#options;
    // Awaited: later writes join one group meanwhile.
    if (items.length === 1) return Promise.all(this.#runAlone(items).map((alone) => alone.catch(errorOf)));
    const order = items.map((item, index) => ({ item, index, name: nameOf?.(item) ?? '' }));
    order.sort((a, b) => compareCodePoints(a.name, b.name));
    try {
      const runOf = this.#options.prepare(items);
      const results = await writer.transactTogether(
        order.map(({ item }) => ({ caller: item.caller, run: runOf(item) })),
      );
      const byIndex = new Map(order.map(({ index }, place) => [index, results[place]]));
      // Each item has a place in the order.
      return items.map((_, index) => byIndex.get(index) as Result | Error);
    } catch (error) {
      // Whether the group was stored is not known.
      if (error instanceof StoaError && error.code === 'backend_unavailable') throw error;
      return this.#runAlone(items);
    }
  }

  /** Not awaited: a write that waits for a lock does not delay the others. */
  #runAlone(items: readonly Item[]): Promise<Result>[] {
    const { writer, prepare } = this.#options;
    return items.map((item) => writer.transact(prepare([item])(item), item.caller));
  }
}

/**
 * Runs the writes and stores what they share. A write that was refused before it wrote anything takes no part
 * in the commit. Any other error ends the transaction, after all writes have ended: none may send a statement
 * later.
 */
export async function runTogether<Result>(
  made: readonly Work[],
  writes: readonly { run: RunWrite<Result> }[],
): Promise<{ works: Work[]; results: (Result | Error)[] }> {
  const works: Work[] = [];
  const run = async (work: Work, index: number): Promise<Result | Error> => {
    try {
      // There are as many writes as works.
      const result = await (writes[index] as { run: RunWrite<Result> }).run(work);
      await work.checkCaller();
      works.push(work);
      return result;
    } catch (error) {
      if (work.hasWritten || isDatabaseFault(error)) throw error;
      return errorOf(error);
    }
  };
  const results = await awaitAll(made.map(run));
  works.sort((a, b) => made.indexOf(a) - made.indexOf(b));
  for (const work of oneOfEachAgent(works)) await work.noteCall();
  for (const work of works) await work.runBeforeCommit();
  works.at(-1)?.storeShared(works.flatMap(({ changes }) => changes));
  return { works, results };
}

/** `Promise.all`, but an error is thrown when all have ended. */
export async function awaitAll<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}

/** The presence of an agent is written once, until the end of the longest lease that it got. */
function oneOfEachAgent(works: readonly Work[]): Work[] {
  const ofAgents = new Map<string, Work>();
  for (const work of works) {
    const { agent, heldUntilMs } = work.acting;
    if (agent === null) continue;
    const name = `${agent.user}\n${agent.agent}`;
    const other = ofAgents.get(name);
    if (other === undefined) ofAgents.set(name, work);
    else other.heldUntil(heldUntilMs);
  }
  return [...ofAgents].toSorted(([a], [b]) => compareCodePoints(a, b)).map(([, work]) => work);
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
