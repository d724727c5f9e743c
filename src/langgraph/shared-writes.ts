/**
 * Writes of documents that share requests. LangGraph waits for each checkpoint before it sends the next, but not for
 * the writes of tasks: these wait for the next checkpoint and are sent with it, or on their own if none comes.
 */
import type { DataClient, Stoa } from '../client/index.js';
import { StoaError, errorKinds } from '../core/errors.js';
import { type Stored, batchesOf, charactersOf } from './stored-documents.js';
import { requireWritten } from './written.js';

/** A commit of more operations may exceed the limits of the server. */
const operationsMax = 50;
/** A character has at most six bytes as escaped JSON: below half of the server's limit for a request. */
const charactersMax = 1_300_000;

/** Documents that are written all or not at all, if the server can and they fit into one request. */
export interface DocumentWrite {
  readonly documents: Readonly<Record<string, Stored>>;
  /** Keys that must not exist yet. */
  readonly created: ReadonlySet<string>;
}

interface Waiting extends DocumentWrite {
  readonly operations: readonly SetOperation[];
  readonly characters: number;
  readonly settle: (result: boolean | Promise<boolean>) => void;
}

type SetOperation = Extract<Parameters<Stoa['commit']>[0]['operations'][number], { op: 'data.set' }>;

export class SharedWrites {
  readonly #client: Stoa;
  readonly #data: DataClient<Stored>;
  /** False once the server said that its documents cannot take part in a commit. */
  #hasCommits = true;
  #waiting: Waiting[] = [];
  #underWay = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Stoa, data: DataClient<Stored>) {
    this.#client = client;
    this.#data = data;
  }

  /** Sends it at once, with what waits. False if nothing was written: a key that must not exist yet exists. */
  now(write: DocumentWrite): Promise<boolean> {
    return new Promise((settle) => {
      const waiting = this.#waitingOf(write, settle);
      void this.#sendAll([waiting, ...this.#takeWith(waiting)]);
    });
  }

  /** Sends it with the next write that does not wait, or soon. */
  soon(write: DocumentWrite): Promise<boolean> {
    return new Promise((settle) => {
      this.#waiting.push(this.#waitingOf(write, settle));
      this.#schedule();
    });
  }

  #waitingOf({ documents, created }: DocumentWrite, settle: Waiting['settle']): Waiting {
    const operations = Object.entries(documents).map(([key, value]) => ({
      op: 'data.set' as const,
      namespace: this.#data.namespace,
      key,
      value,
      // Checkpoints are not searched by their words.
      index: false,
      ...(created.has(key) && { if_version: 0 }),
    }));
    const characters = Object.values(documents).reduce((sum, stored) => sum + charactersOf(stored), 0);
    return { documents, created, operations, characters, settle };
  }

  /** After the request that is under way, because the next checkpoint follows it and takes along what waits. */
  #schedule(): void {
    if (this.#timer !== undefined || this.#underWay > 0 || this.#waiting.length === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const [first] = this.#waiting.splice(0, 1);
      if (first !== undefined) void this.#sendAll([first, ...this.#takeWith(first)]);
    }, 0);
  }

  /** As many of those that wait as fit into one request with `first`. */
  #takeWith(first: Waiting): Waiting[] {
    let { length: operations } = first.operations;
    let { characters } = first;
    const end = this.#waiting.findIndex((each) => {
      operations += each.operations.length;
      characters += each.characters;
      return operations > operationsMax || characters > charactersMax;
    });
    return this.#waiting.splice(0, end < 0 ? this.#waiting.length : end);
  }

  async #sendAll(writes: readonly Waiting[]): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#underWay += 1;
    try {
      if (await this.#commit(writes)) for (const { settle } of writes) settle(true);
      else await this.#eachAlone(writes);
    } catch (error) {
      if (writes.length > 1 && isRefusal(error)) await this.#eachAlone(writes);
      else for (const { settle } of writes) settle(Promise.reject(error as Error));
    } finally {
      this.#underWay -= 1;
      this.#schedule();
    }
  }

  /** In order, and none is refused because another is. */
  async #eachAlone(writes: readonly Waiting[]): Promise<void> {
    for (const write of writes) {
      const written = this.#alone(write, writes.length === 1);
      write.settle(written);
      // The caller of this write gets the error.
      await written.catch(() => undefined);
    }
  }

  /** In one step if it fits into one request; otherwise in order. */
  async #alone(write: Waiting, isTried: boolean): Promise<boolean> {
    if (!isTried && (await this.#commit([write]))) return true;
    if (write.created.size > 0) return false;
    for (const set of batchesOf(write.documents))
      requireWritten((await this.#data.batch({ set, index: false })).set);
    return true;
  }

  /**
   * False if nothing was written, because a document exists, there are too many, or the server has no commits for
   * documents.
   */
  async #commit(writes: readonly Waiting[]): Promise<boolean> {
    const operations = writes.flatMap((write) => write.operations);
    if (!this.#hasCommits || operations.length > operationsMax) return false;
    try {
      return (await this.#client.commit({ operations })).ok;
    } catch (error) {
      if (!(error instanceof StoaError)) throw error;
      if (error.code === 'unsupported') this.#hasCommits = false;
      else if (error.code !== 'too_large') throw error;
      return false;
    }
  }
}

/** Whether the server answered that a write is not valid or not allowed. It may be one of several. */
function isRefusal(error: unknown): boolean {
  return error instanceof StoaError && error.code !== 'rate_limited' && errorKinds[error.code].status < 500;
}
