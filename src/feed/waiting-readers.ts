/**
 * Readers at the end of the feed, indexed by their interest: a commit tests only the readers that it may
 * concern.
 */
import type { Change } from '../core/change.js';
import { nextTurn } from '../core/waiting/yielding.js';
import type { Commit, FollowOptions, Interest } from './port.js';

interface WaitingReader {
  accept?: ((change: Change) => boolean) | undefined;
  /** Without one every change is tested with `accept`; with one, only the changes inside it. */
  interest?: Interest | undefined;
  /** Keeps the result of this moment for `wake`. */
  keep(): void;
  /** Removes the reader and wakes it. */
  wake(): void;
}

/**
 * A reader takes about 50 µs to read and send a commit. Thousands that woke at once would hold the event loop
 * for a quarter of a second.
 */
const wokenPerTurnMax = 64;

export class WaitingReaders {
  readonly #ofAnything = new Set<WaitingReader>();
  readonly #ofIds = new SetsByName();
  readonly #ofNamespaces = new Map<string, PrefixReaders>();
  readonly #all = new Set<WaitingReader>();
  /** They wait for a later turn to be woken. */
  readonly #due = new Set<WaitingReader>();

  get size(): number {
    return this.#all.size;
  }

  /**
   * Waits for an accepted commit, the end of the time or the signal. The result is asked for at that moment,
   * before the commit counts as shown, also if the reader is woken in a later turn.
   */
  wait<Result>(
    { accept, interest, signal }: FollowOptions,
    timeMs: number,
    result: () => Result,
  ): Promise<Result> {
    return new Promise((resolve) => {
      let kept: { readonly result: Result } | undefined;
      const keep = (): void => {
        kept ??= { result: result() };
      };
      const wake = (): void => {
        clearTimeout(timeout);
        this.#delete(reader);
        signal.removeEventListener('abort', wake);
        resolve(kept === undefined ? result() : kept.result);
      };
      const reader: WaitingReader = { accept, interest, keep, wake };
      const timeout = setTimeout(wake, timeMs);
      this.#add(reader);
      signal.addEventListener('abort', wake);
    });
  }

  #add(reader: WaitingReader): void {
    const { interest } = reader;
    this.#all.add(reader);
    if (interest === undefined) this.#ofAnything.add(reader);
    else if ('id' in interest) this.#ofIds.add(interest.id, reader);
    else this.#prefixesOf(interest).add(interest.prefix, reader);
  }

  #delete(reader: WaitingReader): void {
    const { interest } = reader;
    this.#all.delete(reader);
    this.#due.delete(reader);
    if (interest === undefined) this.#ofAnything.delete(reader);
    else if ('id' in interest) this.#ofIds.delete(interest.id, reader);
    else {
      const readers = this.#prefixesOf(interest);
      readers.delete(interest.prefix, reader);
      if (readers.isEmpty) this.#ofNamespaces.delete(placeOf(interest.user, interest.namespace));
    }
  }

  /** Wakes every reader, for example when positions are no longer valid. */
  wakeAll(): void {
    for (const reader of this.#all) reader.wake();
  }

  /** Wakes the readers that accept any of these changes: the first now, the others in later turns. */
  wakeFor(commits: readonly Commit[]): void {
    const isWaking = this.#due.size > 0;
    for (const reader of this.#ofAnything) {
      const { accept } = reader;
      if (accept === undefined || commits.some(({ changes }) => changes.some(accept))) this.#wakeSoon(reader);
    }
    if (!this.#ofIds.isEmpty || this.#ofNamespaces.size > 0)
      for (const { changes } of commits) for (const change of changes) this.#findInterested(change);
    if (!isWaking) this.#wakeSome();
  }

  #wakeSoon(reader: WaitingReader): void {
    reader.keep();
    this.#due.add(reader);
  }

  #wakeSome(): void {
    let woken = 0;
    for (const reader of this.#due) {
      if (woken === wokenPerTurnMax) break;
      this.#due.delete(reader);
      reader.wake();
      woken += 1;
    }
    if (this.#due.size > 0) void nextTurn().then(() => this.#wakeSome());
  }

  #findInterested(change: Change): void {
    this.#findAmong(this.#ofIds.get(change.id), change);
    const { domain, user, facts } = change;
    const namespace = facts?.['namespace'];
    if (domain !== 'data' || user === null || typeof namespace !== 'string') return;
    const key = facts?.['key'];
    const readers = this.#ofNamespaces.get(placeOf(user, namespace));
    for (const set of readers?.of(typeof key === 'string' ? key : null) ?? []) this.#findAmong(set, change);
  }

  #findAmong(readers: ReadonlySet<WaitingReader> | undefined, change: Change): void {
    if (readers === undefined) return;
    for (const reader of readers)
      if (reader.accept === undefined || reader.accept(change)) this.#wakeSoon(reader);
  }

  #prefixesOf({ user, namespace }: { user: string; namespace: string }): PrefixReaders {
    const place = placeOf(user, namespace);
    const known = this.#ofNamespaces.get(place);
    if (known !== undefined) return known;
    const readers = new PrefixReaders();
    this.#ofNamespaces.set(place, readers);
    return readers;
  }
}

/** Looks up a key once for each length of a prefix, instead of once for each reader. */
class PrefixReaders {
  readonly #byPrefix = new SetsByName();
  /** How many readers there are for each length. */
  readonly #lengths = new Map<number, number>();

  get isEmpty(): boolean {
    return this.#byPrefix.isEmpty;
  }

  add(prefix: string, reader: WaitingReader): void {
    this.#byPrefix.add(prefix, reader);
    this.#lengths.set(prefix.length, (this.#lengths.get(prefix.length) ?? 0) + 1);
  }

  delete(prefix: string, reader: WaitingReader): void {
    if (!this.#byPrefix.delete(prefix, reader)) return;
    const left = (this.#lengths.get(prefix.length) ?? 1) - 1;
    if (left === 0) this.#lengths.delete(prefix.length);
    else this.#lengths.set(prefix.length, left);
  }

  /**
   * The readers that may want a key; without a key, all readers. A reader that is woken in the meantime is
   * removed.
   */
  of(key: string | null): ReadonlySet<WaitingReader>[] {
    if (key === null) return this.#byPrefix.all();
    const found: ReadonlySet<WaitingReader>[] = [];
    for (const length of this.#lengths.keys()) {
      const readers = length > key.length ? undefined : this.#byPrefix.get(key.slice(0, length));
      if (readers !== undefined) found.push(readers);
    }
    return found;
  }
}

/** Sets of readers by name, without empty sets. */
class SetsByName {
  readonly #sets = new Map<string, Set<WaitingReader>>();

  get isEmpty(): boolean {
    return this.#sets.size === 0;
  }

  get(name: string): ReadonlySet<WaitingReader> | undefined {
    return this.#sets.get(name);
  }

  all(): ReadonlySet<WaitingReader>[] {
    return [...this.#sets.values()];
  }

  add(name: string, reader: WaitingReader): void {
    const readers = this.#sets.get(name);
    if (readers === undefined) this.#sets.set(name, new Set([reader]));
    else readers.add(reader);
  }

  /** Returns whether the reader was in the set. */
  delete(name: string, reader: WaitingReader): boolean {
    const readers = this.#sets.get(name);
    if (readers === undefined || !readers.delete(reader)) return false;
    if (readers.size === 0) this.#sets.delete(name);
    return true;
  }
}

/** Two places may share a name: their readers are tested together, and `accept` decides. */
function placeOf(user: string, namespace: string): string {
  return `${namespace}\n${user}`;
}
