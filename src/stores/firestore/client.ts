/**
 * Requests to Firestore: the driver is loaded on demand, requests have a time limit, errors are those of
 * Stoa.
 */
import { type ErrorCode, StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { importOptional } from '../../core/optional-package.js';
import { withRetries } from '../retries.js';

export type Fields = Record<string, unknown>;
export type UpdateTime = object;

export interface Reference {
  readonly id: string;
  get(): Promise<Snapshot>;
  set(fields: Fields, options: { merge: boolean }): Promise<unknown>;
  update(fields: Fields, precondition: { lastUpdateTime?: UpdateTime }): Promise<unknown>;
  delete(precondition?: { lastUpdateTime?: UpdateTime }): Promise<unknown>;
}

export interface Snapshot {
  readonly exists: boolean;
  readonly ref: Reference;
  readonly updateTime?: UpdateTime;
  data(): Fields | undefined;
}

export interface Query {
  where(field: string, operator: '==' | '<' | '<=' | '>' | '>=', value: unknown): Query;
  orderBy(field: string): Query;
  startAfter(value: unknown): Query;
  limit(count: number): Query;
  select(...fields: string[]): Query;
  get(): Promise<{ docs: Snapshot[] }>;
}

export interface Collection extends Query {
  doc(id: string): Reference;
}

/** Written completely or not at all. */
export interface Batch {
  create(reference: Reference, fields: Fields): Batch;
  set(reference: Reference, fields: Fields): Batch;
  update(reference: Reference, fields: Fields, precondition: { lastUpdateTime?: UpdateTime }): Batch;
  delete(reference: Reference, precondition: { lastUpdateTime?: UpdateTime }): Batch;
  commit(): Promise<unknown>;
}

export interface Firestore {
  collection(name: string): Collection;
  getAll(...references: Reference[]): Promise<Snapshot[]>;
  batch(): Batch;
  terminate(): Promise<void>;
}

/** A collection of one Firestore. */
export interface FirestorePlace {
  firestore: Firestore;
  values: FieldValues;
  collection: string;
  /** The bytes that the server accepts in one message. */
  messageBytesMax: number;
}

/** Values that tell the server what to do with a field. */
export interface FieldValues {
  increment(by: number): unknown;
  delete(): unknown;
  arrayUnion(...items: string[]): unknown;
}

/** The part of @google-cloud/firestore that is used. */
export interface FirestoreDriver {
  Firestore: new (settings: { projectId: string; databaseId?: string }) => Firestore;
  FieldValue: FieldValues;
}

/** Bytes that one message may have: the service takes 10 MiB, its emulators 4 MiB. */
export const serviceMessageBytesMax = 10 * 1024 * 1024;
export const emulatorMessageBytesMax = 4 * 1024 * 1024;

export function loadDriver(): Promise<FirestoreDriver> {
  return importOptional<FirestoreDriver>('@google-cloud/firestore', 7);
}

/** True if the document was not changed since it was read. */
export function conditionOf(snapshot: Snapshot | undefined): { lastUpdateTime?: UpdateTime } {
  return snapshot?.updateTime === undefined ? {} : { lastUpdateTime: snapshot.updateTime };
}

/** The gRPC statuses that are handled separately. */
export const grpc = {
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** An error of Firestore; `grpcStatus` is its status there. */
class FirestoreError extends StoaError {
  constructor(
    code: ErrorCode,
    message: string,
    readonly grpcStatus: number | undefined,
    options: { cause: unknown; fix?: string },
  ) {
    super(code, message, options);
  }
}

export function isStatus(error: unknown, ...statuses: readonly number[]): boolean {
  return (
    error instanceof FirestoreError && error.grpcStatus !== undefined && statuses.includes(error.grpcStatus)
  );
}

/**
 * The requests of one store. Each has a time limit, is retried if that can help, fails with an error that
 * says what to do, and ends when the store is closed.
 */
export class FirestoreRequests {
  readonly limits: Limits;
  readonly #firestore: Firestore;
  /** Requests that the driver still tries, even if no caller waits for them. */
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #closing = new Set<() => void>();
  #isClosed = false;

  constructor(firestore: Firestore, limits: Limits) {
    this.#firestore = firestore;
    this.limits = limits;
  }

  /** `onUnanswered` is called for each attempt whose result is unknown. */
  async run<T>(work: () => Promise<T>, onUnanswered: () => void = () => undefined): Promise<T> {
    const again = (error: unknown): boolean => {
      if (statusOf(error) === grpc.unavailable) onUnanswered();
      return mayPass(error);
    };
    try {
      return await withRetries(this.limits, again, () => this.#inTime(work));
    } catch (error) {
      throw translated(error);
    }
  }

  /**
   * Waiting callers get an error. The driver cannot cancel a request. If it is terminated while it still
   * retries a read, it later ends the process with an unhandled rejection, so it is terminated after it has
   * given up.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const end of this.#closing) end();
    if (this.#underWay.size === 0) {
      await this.#firestore.terminate();
      return;
    }
    Promise.allSettled(this.#underWay)
      .then(() => this.#firestore.terminate())
      .catch((error: unknown) =>
        process.emitWarning(`closing the connection to Firestore: ${messageOf(error)}`),
      );
  }

  /** The driver retries for minutes when the server is gone. Callers do not wait that long. */
  #inTime<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw closed();
      const seconds = this.limits.backendRequestSecondsMax;
      const timer = setTimeout(
        () =>
          reject(
            new FirestoreError(
              'backend_unavailable',
              `Firestore did not answer within ${seconds} s.`,
              grpc.deadlineExceeded,
              { cause: undefined },
            ),
          ),
        seconds * 1_000,
      );
      const end = (): void => reject(closed());
      this.#closing.add(end);
      const asked = Promise.resolve()
        .then(work)
        .finally(() => {
          clearTimeout(timer);
          this.#closing.delete(end);
          this.#underWay.delete(asked);
        });
      this.#underWay.add(asked);
      asked.then(resolve, reject);
    });
  }
}

function closed(): StoaError {
  return new StoaError('closed', 'The connection to Firestore is closed.');
}

/** A request that exceeded its time limit is not sent again. */
function mayPass(error: unknown): boolean {
  const transient: readonly (number | undefined)[] = [grpc.resourceExhausted, grpc.aborted, grpc.unavailable];
  return (
    !(error instanceof FirestoreError) && transient.includes(statusOf(error)) && !isMessageTooLarge(error)
  );
}

/** The same status as a quota that is used up, but the message can never succeed. */
function isMessageTooLarge(error: unknown): boolean {
  return (
    statusOf(error) === grpc.resourceExhausted &&
    /larger than max|exceeds maximum|too large/i.test(messageOf(error))
  );
}

function statusOf(error: unknown): number | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'number' ? code : undefined;
}

function translated(error: unknown): StoaError {
  if (error instanceof StoaError) return error;
  const status = statusOf(error);
  const message = messageOf(error);
  // The same status as a write that came too late, but the query can never succeed.
  if (status === grpc.failedPrecondition && /requires an index/i.test(message))
    return new FirestoreError('invalid_config', `A Firestore index is missing: ${message}`, undefined, {
      fix: 'Run "firebase deploy --only firestore:indexes" with the firestore.indexes.json of this package.',
      cause: error,
    });
  const [code, sentence, fix] = meaningOf(error, status, message);
  return new FirestoreError(code, `${sentence}: ${message}`, status, {
    cause: error,
    ...(fix !== undefined && { fix }),
  });
}

function meaningOf(
  error: unknown,
  status: number | undefined,
  message: string,
): [code: ErrorCode, sentence: string, fix?: string] {
  const rejected = 'Firestore rejected the request';
  switch (status) {
    case grpc.resourceExhausted:
      return isMessageTooLarge(error)
        ? [
            'too_large',
            'The request is too large for one message to Firestore',
            'Write fewer or smaller documents in one batch.',
          ]
        : [
            'backend_unavailable',
            'Firestore throttled the request',
            'Try again later, or raise the quota of the project.',
          ];
    case grpc.unavailable:
    case grpc.deadlineExceeded:
    case grpc.internal:
    case grpc.unknown:
    case grpc.aborted:
      return ['backend_unavailable', 'Firestore does not answer'];
    case grpc.permissionDenied:
    case grpc.unauthenticated:
      return [
        'invalid_config',
        'Firestore rejected the credentials',
        'Check the credentials and their roles (docs/backends/firestore.md).',
      ];
    case grpc.invalidArgument:
      return [/size|too (large|big|long)/i.test(message) ? 'too_large' : 'engine', rejected];
    case undefined:
      return [
        /credentials|project id/i.test(message) ? 'invalid_config' : 'engine',
        'The request to Firestore failed',
      ];
    default:
      return ['engine', rejected];
  }
}
