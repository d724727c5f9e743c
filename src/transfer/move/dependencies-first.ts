/** Tasks in the order in which they need each other. */
import type { TaskLine } from '../records/record-schemas.js';
import type { RecordPage } from '../port.js';
import type { MoveStore } from './stores.js';

const scanned = 500;

/**
 * A task is written after the tasks that it depends on: one that is missing counts as completed. Ids grow
 * with time, so a store lists tasks in this order. Only if servers with different clocks made them, a task
 * may come before one that it depends on. Such tasks are left out of the first round over the store, and
 * follow in further rounds.
 */
export class DependenciesFirst implements Pick<MoveStore<TaskLine>, 'page'> {
  readonly #store: MoveStore<TaskLine>;
  /** Tasks that wait for a later round; unknown until the first page. */
  #late: Set<string> | undefined;
  #isStuck = false;

  constructor(store: MoveStore) {
    // The store of tasks has no other records.
    this.#store = store as MoveStore<TaskLine>;
  }

  /** A position is a round and the position of the store in it. */
  async page(after: string | null, limit: number): Promise<RecordPage<TaskLine>> {
    this.#late ??= after === null ? new Set() : await this.#findLate();
    const late = this.#late;
    const [round, inRound] = after === null ? [0, ''] : splitPosition(after);
    const page = await this.#store.page(inRound === '' ? null : inRound, limit);
    const records = page.records.filter((task) => {
      if (round === 0 && isLate(task)) late.add(task.id);
      const isDue = round === 0 ? !late.has(task.id) : late.has(task.id) && this.#isReady(task, late);
      if (round > 0 && isDue) late.delete(task.id);
      return isDue;
    });
    if (page.after !== null) return { records, after: `${round} ${page.after}` };
    return { records, after: this.#nextRound(round, late) };
  }

  #waiting = Infinity;

  #nextRound(round: number, late: ReadonlySet<string>): string | null {
    if (late.size === 0) return null;
    this.#isStuck = late.size === this.#waiting;
    this.#waiting = late.size;
    return `${round + 1} `;
  }

  /** Tasks that wait for each other, which no home makes, are written as they come. */
  #isReady(task: TaskLine, late: ReadonlySet<string>): boolean {
    return this.#isStuck || !task.depends_on.some((id) => late.has(id));
  }

  async #findLate(): Promise<Set<string>> {
    const late = new Set<string>();
    let after: string | null = null;
    do {
      const page: RecordPage<TaskLine> = await this.#store.page(after, scanned);
      for (const task of page.records) if (isLate(task)) late.add(task.id);
      after = page.after;
    } while (after !== null);
    return late;
  }
}

function isLate({ id, depends_on }: TaskLine): boolean {
  return depends_on.some((dependency) => dependency > id);
}

function splitPosition(after: string): [round: number, inRound: string] {
  const space = after.indexOf(' ');
  return [Number(after.slice(0, space)), after.slice(space + 1)];
}
