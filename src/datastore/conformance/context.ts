/** The context of every test of the conformance suite. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type ErrorCode, StoaError } from '../../core/errors.js';
import { type Caller, operatorCaller } from '../../core/caller.js';
import { type Limits, limitsWith } from '../../core/settings/limits.js';
import type { Documents, DocumentStore } from '../port.js';
import { DataService } from '../service.js';
import { storeDocuments } from '../document-store/documents.js';

/** Registers one test, as vitest's `test` and node:test's `test` do. */
export type RegisterTest = (name: string, body: () => Promise<void>) => unknown;

export interface OpenOptions {
  limits: Limits;
  nowMs: () => number;
}

/** The backend under test. */
export interface ConformanceTarget {
  /** Opens the backend. A second one on the same storage acts as another process. */
  open(options: OpenOptions): Promise<DocumentStore | Documents>;
  /**
   * Writes a document in the seed's layout as another program would; left out if no other program can write.
   */
  putForeign?: (document: Readonly<Record<string, unknown>>) => Promise<void>;
  /** Fewer documents and writers, for a database that takes milliseconds for each. Default: full. */
  size?: 'small' | 'full';
  /** Stops the database and starts it again. */
  outage?: { stop(): Promise<void>; start(): Promise<void> };
}

/** Each test has its own user, so that tests can share a database. */
export class ConformanceContext {
  readonly limits = limitsWith();
  readonly #target: ConformanceTarget;
  readonly #opened: DataService[] = [];
  #first: Promise<DataService> | undefined;
  /** Added to the clock that the backend and the service see. */
  skewMs = 0;

  constructor(target: ConformanceTarget) {
    this.#target = target;
  }

  get target(): ConformanceTarget {
    return this.#target;
  }

  service(): Promise<DataService> {
    this.#first ??= this.another();
    return this.#first;
  }

  /** A second service on the same storage, as another process would have. */
  async another(overrides: Partial<Limits> = {}): Promise<DataService> {
    const limits = limitsWith(overrides);
    const nowMs = () => Date.now() + this.skewMs;
    const opened = await this.#target.open({ limits, nowMs });
    const documents = 'writer' in opened ? opened : storeDocuments(opened, limits);
    const service = new DataService({ ...documents, limits, nowMs, onError: () => undefined });
    this.#opened.push(service);
    return service;
  }

  newUser(): string {
    return `user-${randomBytes(6).toString('hex')}`;
  }

  caller(user: string, agent?: string): Caller {
    return operatorCaller(user, agent);
  }

  async close(): Promise<void> {
    for (const service of this.#opened) await service.close();
  }
}

export async function refusedWith(code: ErrorCode, call: () => Promise<unknown>): Promise<StoaError> {
  let refusal: unknown;
  try {
    await call();
  } catch (error) {
    refusal = error;
  }
  assert.ok(
    refusal instanceof StoaError,
    `expected ${code}, got ${refusal === undefined ? 'an answer' : String(refusal)}`,
  );
  assert.equal(refusal.code, code, refusal.message);
  return refusal;
}

/** Runs work on many items, a few at a time, so that a slow server is not flooded. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
    }),
  );
}
