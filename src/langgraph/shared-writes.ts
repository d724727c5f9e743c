/**
 * Writes of documents that share requests. LangGraph waits for each checkpoint before it sends the next, but not for
 * the writes of tasks: these wait for the next checkpoint and are sent with it, or on their own if none comes.
 */
import type { CommitInput } from '../client/index.js';
import { StoaError, errorKinds } from '../core/errors.js';
import type { Documents, StoaCalls } from './in-process.js';
import { type Stored, batchesOf, charactersOf } from './stored-documents.js';
import { requireWritten } from './written.js';

/** A commit of more operations may exceed the limits of the server. */
const operationsMax = 50;
/** A character has at most six bytes as escaped JSON: below half of the server's limit for a request. */
const charactersMax = 1_300_000;

/** A write waits no longer for a request that is under way. */
const waitMsMax = 50;

/** Documents that are written all or not at all, if the server can and they fit into one request. */
export interface DocumentWrite {
  readonly documents: Readonly<Record<string, Stored>>;
  /** Keys that must not exist yet. */
  readonly created: ReadonlySet<string>;
}

interface Waiting extends DocumentWrite {
  readonly operations: readonly SetOperation[];
  readonly characters: number;
  readonly resolve: (isWritten: boolean) => void;
  readonly reject: (error: unknown) => void;
}

type SetOperation = Extract<CommitInput['operations'][number], { op: 'data.set' }>;

export class SharedWrites {
  readonly #client: StoaCalls;
  readonly #data: Documents<Stored>;
  /** False once the server said that its documents cannot take part in a commit. */
  #hasCommits = true;
  /** They fit into one request. */
  #waiting: Waiting[] = [];
  #underWay = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: StoaCalls, data: Documents<Stored>) {
    this.#client = client;
    this.#data = data;
  }

  /** Sends it at once, with what waits. False if nothing was written: a key that must not exist yet exists. */
  now(write: DocumentWrite): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const sent = [this.#waitingOf(write, { resolve, reject })];
      const left: Waiting[] = [];
      for (const each of this.#waiting) (fit([...sent, each]) ? sent : left).push(each);
      this.#waiting = left;
      void this.#send(sent);
    });
  }

  /** Sends it with the next write that does not wait, or soon. */
  soon(write: DocumentWrite): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waitingOf(write, { resolve, reject });
      if (!fit([...this.#waiting, waiting])) this.#sendWaiting();
      this.#waiting.push(waiting);
      if (fit(this.#waiting)) this.#schedule();
      else this.#sendWaiting();
    });
  }

  #waitingOf({ documents, created }: DocumentWrite, outcome: Pick<Waiting, 'resolve' | 'reject'>): Waiting {
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
    return { documents, created, operations, characters, ...outcome };
  }

  /** After the request that is under way, because the next checkpoint follows it and includes what waits. */
  #schedule(): void {
    if (this.#waiting.length > 0)
      this.#timer ??= setTimeout(() => this.#sendWaiting(), this.#underWay > 0 ? waitMsMax : 0);
  }

  #sendWaiting(): void {
    this.#stopTimer();
    const sent = this.#waiting;
    this.#waiting = [];
    if (sent.length > 0) void this.#send(sent);
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #send(writes: readonly Waiting[]): Promise<void> {
    this.#underWay += 1;
    try {
      if (writes.length > 1 && (await this.#commitTogether(writes)))
        for (const { resolve } of writes) resolve(true);
      else await this.#eachAlone(writes);
    } catch (error) {
      for (const { reject } of writes) reject(error);
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) this.#stopTimer();
      this.#schedule();
    }
  }

  /** False if each must be sent alone: one of them may be refused, or the answer was lost. */
  async #commitTogether(writes: readonly Waiting[]): Promise<boolean> {
    try {
      return await this.#commit(writes);
    } catch (error) {
      if (isRefusal(error) || isLost(error)) return false;
      throw error;
    }
  }

  /** In order, and none is refused because another is. If the server does not answer one, the others are not sent. */
  async #eachAlone(writes: readonly Waiting[]): Promise<void> {
    for (const write of writes) {
      try {
        write.resolve(await this.#alone(write));
      } catch (error) {
        if (isLost(error)) throw error;
        write.reject(error);
      }
    }
  }

  /** In one step if it fits into one request; otherwise in order. */
  async #alone(write: Waiting): Promise<boolean> {
    if (await this.#commit([write])) return true;
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
    if (!this.#hasCommits || !fit(writes)) return false;
    const operations = writes.flatMap((write) => write.operations);
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

/** Whether they fit into one commit. */
function fit(writes: readonly Waiting[]): boolean {
  return (
    sumOf(writes, ({ operations }) => operations.length) <= operationsMax &&
    sumOf(writes, ({ characters }) => characters) <= charactersMax
  );
}

function sumOf(writes: readonly Waiting[], sizeOf: (write: Waiting) => number): number {
  return writes.reduce((sum, write) => sum + sizeOf(write), 0);
}

/** The request may have been carried out. */
function isLost(error: unknown): boolean {
  return error instanceof StoaError && error.code === 'unreachable';
}

/** Whether the server answered that a write is not valid or not allowed. It may be one of several. */
function isRefusal(error: unknown): boolean {
  return error instanceof StoaError && error.code !== 'rate_limited' && errorKinds[error.code].status < 500;
}
