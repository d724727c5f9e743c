/** The words that wait to be indexed, in memory and on disk. Searches read them first. */
import type { WriteOperation } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import { families } from '../rows.js';
import { WaitingWords, fileWords, readSegments, readWaiting } from './words.js';

/** When this much waits, the older part is indexed. */
const messagesWaitingMax = 3_072;
const wordBytesWaitingMax = 192 * 1024;
/** The newest messages stay, so that a message that arrives a little late is still sorted in. */
const messagesLeft = 1_024;
/**
 * Indexed in one transaction, which blocks other writes. The number is high enough to keep up with thousands
 * of posts.
 */
const wordsPerFiling = 32_768;
/** Pause after a failure. Waiting messages are still found, so there is no hurry. */
const retryMs = 1_000;

export interface WaitingIndexOptions {
  retentionSeconds: number;
  /** Indexing failed and is tried again. */
  onError: (error: unknown, about: string) => void;
}

export class WaitingIndex {
  readonly #store: Store;
  readonly #options: WaitingIndexOptions;
  /** By message id. */
  readonly #waiting = new Map<string, WaitingWords>();
  /** Oldest first. Only a search needs the order, so it is sorted by the next search. */
  readonly #byWord = new Map<string, WaitingWords[]>();
  /** Messages that are not sorted in yet. */
  readonly #unread = new Set<WaitingWords>();
  readonly #stop: () => void;
  #segments: readonly number[];
  #wordBytes = 0;
  /** From the start of a run to its end, and until the next attempt after a failure. */
  #filing = false;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(store: Store, options: WaitingIndexOptions) {
    this.#store = store;
    this.#options = options;
    for (const waiting of readWaiting(store)) this.#add(waiting);
    this.#segments = readSegments(store);
    this.#stop = store.onWritten((operations) => this.#follow(operations));
  }

  /** The waiting messages that have a word, oldest first. */
  messagesOf(word: string): readonly WaitingWords[] {
    this.#readUp();
    return this.#byWord.get(word) ?? [];
  }

  /** The times at which segments of the index begin. */
  get segments(): readonly number[] {
    return this.#segments;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#stop();
  }

  #follow(operations: readonly WriteOperation[]): void {
    const gone = new Set<WaitingWords>();
    let segmentsChanged = false;
    for (const { family, key, value } of operations) {
      segmentsChanged ||= family === families.wordSegments;
      if (family !== families.waitingWords) continue;
      const name = key.toString('latin1');
      const before = this.#waiting.get(name);
      if (before !== undefined) gone.add(before);
      this.#waiting.delete(name);
      if (value !== undefined) this.#add(new WaitingWords(key, value));
    }
    if (gone.size > 0) this.#remove(gone);
    if (segmentsChanged) this.#segments = readSegments(this.#store);
    void this.#file();
  }

  async #file(): Promise<void> {
    if (this.#filing || this.#closed) return;
    this.#filing = true;
    try {
      while (
        !this.#closed &&
        (this.#waiting.size >= messagesWaitingMax || this.#wordBytes >= wordBytesWaitingMax)
      ) {
        const oldest = this.#oldest();
        await this.#store.transact((tx) => fileWords(tx, oldest, this.#options.retentionSeconds));
      }
      this.#filing = false;
    } catch (error) {
      this.#putOff(error);
    }
  }

  /** No caller waits for this work, so its failure is reported here. The words stay in memory and on disk. */
  #putOff(error: unknown): void {
    if (this.#closed) return;
    this.#options.onError(
      error,
      'indexing messages for the search (they are still found, and the server tries again)',
    );
    this.#retry = setTimeout(() => {
      this.#filing = false;
      void this.#file();
    }, retryMs);
    this.#retry.unref();
  }

  #oldest(): WaitingWords[] {
    const inOrder = [...this.#waiting.values()].toSorted((a, b) => Buffer.compare(a.id, b.id));
    // If there are few messages with very many words, half of them.
    const wanted = Math.max(this.#waiting.size - messagesLeft, this.#waiting.size >> 1, 1);
    let count = 0;
    for (let words = 0; count < wanted; count += 1) {
      words += (inOrder[count] as WaitingWords).words.length;
      if (count > 0 && words > wordsPerFiling) break;
    }
    return inOrder.slice(0, count);
  }

  #add(waiting: WaitingWords): void {
    this.#waiting.set(waiting.id.toString('latin1'), waiting);
    this.#wordBytes += waiting.row.length;
    this.#unread.add(waiting);
  }

  #readUp(): void {
    for (const waiting of this.#unread) {
      for (const word of waiting.words) {
        const list = this.#byWord.get(word);
        if (list === undefined) this.#byWord.set(word, [waiting]);
        else place(list, waiting);
      }
    }
    this.#unread.clear();
  }

  /**
   * Removes all indexed messages at once, so that the list of a word is read once and not once for each
   * message.
   */
  #remove(gone: ReadonlySet<WaitingWords>): void {
    const words = new Set<string>();
    for (const waiting of gone) {
      this.#wordBytes -= waiting.row.length;
      if (!this.#unread.delete(waiting)) for (const word of waiting.words) words.add(word);
    }
    for (const word of words) {
      const left = this.#byWord.get(word)?.filter((waiting) => !gone.has(waiting)) ?? [];
      if (left.length === 0) this.#byWord.delete(word);
      else this.#byWord.set(word, left);
    }
  }
}

/** Inserts in order; nearly always at the end. */
function place(list: WaitingWords[], waiting: WaitingWords): void {
  let at = list.length;
  while (at > 0 && Buffer.compare((list[at - 1] as WaitingWords).id, waiting.id) > 0) at -= 1;
  if (at === list.length) list.push(waiting);
  else list.splice(at, 0, waiting);
}
