/** Every write of the data store as a step: checked, authorised, not run yet. */
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import type { Step } from '../core/write.js';
import { StoaError } from '../core/errors.js';
import { readableScope, writableScope } from './access.js';
import { isLive } from './documents/merge-document.js';
import { checkReadBytes } from './documents/bounded-reads.js';
import type { DocumentRecord, JsonValue, Scope } from './model.js';
import { appended, incremented, mergePatched } from './documents/modifications.js';
import { checkKey } from './names.js';
import {
  type ClearStep,
  type DataBatch,
  type DataBatchResult,
  type DataPort,
  type Decide,
  type DocumentWrite,
  type ExpectedVersion,
  type WriteResult,
  succeeded,
} from './port.js';
import {
  type RequestRules,
  type SetOptions,
  checkBatchBytes,
  checkBatchKeys,
  distinctKeys,
  documentWrite,
} from './requests.js';
import type { AccessTracker } from './tracking.js';
import { valueJson } from './documents/value.js';

/** A write that may be repeated under a key. */
export interface Repeatable {
  idempotency?: Idempotency | null | undefined;
}

export interface ChangeOptions {
  /** Write only over this version; 0 only if the document does not exist. */
  ifVersion?: ExpectedVersion | undefined;
}

export interface BatchRequest {
  set?: Readonly<Record<string, unknown>> | undefined;
  get?: readonly string[] | undefined;
  delete?: readonly string[] | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
  ttl?: number | null | undefined;
  expiresAt?: string | null | undefined;
  index?: boolean | undefined;
}

/** The result of one key of a batch. */
export type KeyResult = { version: number } | { error: { code: string; detail: string } };

export interface BatchAnswer {
  set: Record<string, KeyResult>;
  values: Record<string, JsonValue>;
  deleted: number;
}

export class DataSteps {
  readonly #port: DataPort;
  readonly #rules: RequestRules;
  readonly #tracker: AccessTracker;

  constructor(port: DataPort, rules: RequestRules, tracker: AccessTracker) {
    this.#port = port;
    this.#rules = rules;
    this.#tracker = tracker;
  }

  set(
    caller: Caller,
    namespace: string,
    key: string,
    value: unknown,
    options: SetOptions = {},
  ): Step<WriteResult> {
    const scope = this.#writes(caller, namespace);
    return this.put(scope, documentWrite(this.#rules, caller.agent, key, value, options));
  }

  /** A write that is checked already. */
  put(scope: Scope, write: DocumentWrite): Step<WriteResult> {
    return this.#write(scope, { sets: [write], deletes: [], gets: [] }).map(({ sets: [result] }) =>
      succeeded(result),
    );
  }

  /** True, or false if the document did not exist. */
  delete(caller: Caller, namespace: string, key: string, options: ChangeOptions = {}): Step<boolean> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.#rules.limits);
    const deletes = [{ key, ifVersion: options.ifVersion ?? null }];
    return this.#write(scope, { sets: [], deletes, gets: [] }).map(({ deletes: [result] }) =>
      succeeded(result),
    );
  }

  /** The sets and deletes, then the reads. Null if there is nothing to write. */
  batch(caller: Caller, namespace: string, request: BatchRequest): Step<BatchAnswer> | null {
    const { limits } = this.#rules;
    // Checked even if there is nothing to read, so that a caller without read access is refused.
    readableScope(caller, namespace, limits);
    const sets = Object.entries(request.set ?? {});
    const deletes = distinctKeys(limits, request.delete ?? []);
    const gets = distinctKeys(limits, request.get ?? []);
    const keys = sets.map(([key]) => key);
    checkBatchKeys(limits, keys, deletes, gets);
    const writes = sets.map(([key, value]) => documentWrite(this.#rules, caller.agent, key, value, request));
    checkBatchBytes(limits, writes);
    if (writes.length + deletes.length === 0) return null;
    const scope = this.#writes(caller, namespace);
    const batch = { sets: writes, deletes: deletes.map((key) => ({ key, ifVersion: null })), gets };
    return this.#write(scope, batch)
      .after(({ read }) => this.#tracker.readAll(scope, read, caller.agent))
      .map((result) => {
        checkReadBytes(limits, result.read);
        return batchAnswer(keys, result);
      });
  }

  /** Adds to a number; a missing document counts as 0. Its expiry and metadata stay. */
  increment(
    caller: Caller,
    namespace: string,
    key: string,
    by = 1,
    options: ChangeOptions = {},
  ): Step<WriteResult & { value: number }> {
    return this.#modify(caller, namespace, key, options, (current) => incremented(key, current, by));
  }

  /** Adds items at the end of a list; a missing document counts as an empty list. */
  append(
    caller: Caller,
    namespace: string,
    key: string,
    items: readonly unknown[],
    options: ChangeOptions = {},
  ): Step<WriteResult & { value: JsonValue[] }> {
    valueJson(items, this.#rules.limits);
    // valueJson has refused everything that is not JSON.
    const checked = items as readonly JsonValue[];
    return this.#modify(caller, namespace, key, options, (current) => appended(key, current, checked));
  }

  /** A JSON merge patch (RFC 7396) of the value. */
  mergePatch(
    caller: Caller,
    namespace: string,
    key: string,
    patch: unknown,
    options: ChangeOptions = {},
  ): Step<WriteResult & { value: JsonValue }> {
    valueJson(patch, this.#rules.limits);
    const checked = patch as JsonValue; // valueJson has refused everything that is not JSON.
    return this.#modify(caller, namespace, key, options, (current) => mergePatched(current, checked));
  }

  /** The next documents of a namespace after a key. */
  clear(caller: Caller, namespace: string, after: string | null): Step<ClearStep> {
    const scope = this.#writes(caller, namespace);
    return this.#port
      .clear(scope, after, this.#rules.limits.clearStepMax)
      .after((cleared) => this.#tracker.forgetCleared(scope, after, cleared.after));
  }

  /** Imported documents, checked before. */
  restore(records: readonly DocumentRecord[]): Step<void>[] {
    return this.#port.restore(records, { isCounted: true }).map((step) =>
      step.after(() => {
        for (const { userId: user, namespace, key } of records)
          this.#tracker.forget({ user, namespace }, key);
      }),
    );
  }

  /**
   * A check of a commit: a document that the caller can read has this version; 0 means that it does not
   * exist.
   */
  requireVersion(caller: Caller, namespace: string, key: string, version: number): Step<void> {
    return this.#port.requireVersion(readableScope(caller, namespace, this.#rules.limits), key, version);
  }

  #modify<Value extends JsonValue>(
    caller: Caller,
    namespace: string,
    key: string,
    { ifVersion }: ChangeOptions,
    change: (current: JsonValue | undefined) => Value,
  ): Step<WriteResult & { value: Value }> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.#rules.limits);
    let value: Value | undefined;
    const decide: Decide = (stored) => {
      const current = stored !== undefined && isLive(stored, this.#rules.nowMs()) ? stored : undefined;
      value = change(current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue));
      return { ...documentWrite(this.#rules, caller.agent, key, value, { ifVersion }), expiresAt: undefined };
    };
    return (
      this.#port
        .modify(scope, key, decide)
        .after(() => this.#tracker.written(scope, key))
        // The step has run, so decide has left its value.
        .map((result) => ({ ...result, value: value as Value }))
    );
  }

  #write(scope: Scope, batch: DataBatch): Step<DataBatchResult> {
    return this.#port.write(scope, batch).after(({ sets, deletes }) => {
      for (const [index, { key }] of batch.sets.entries())
        if (!(sets[index] instanceof Error)) this.#tracker.written(scope, key);
      for (const [index, { key }] of batch.deletes.entries())
        if (deletes[index] === true) this.#tracker.forget(scope, key);
    });
  }

  #writes(caller: Caller, namespace: string): Scope {
    return writableScope(caller, namespace, this.#rules.limits);
  }
}

function batchAnswer(keys: readonly string[], { sets, deletes, read }: DataBatchResult): BatchAnswer {
  const failed = deletes.find((outcome) => outcome instanceof Error);
  if (failed !== undefined) throw failed;
  return {
    set: Object.fromEntries(sets.map((outcome, index) => [keys[index] ?? '', keyResult(outcome)])),
    values: valuesOf(read),
    deleted: deletes.filter((outcome) => outcome === true).length,
  };
}

/** The values by key. */
export function valuesOf(records: readonly DocumentRecord[]): Record<string, JsonValue> {
  return Object.fromEntries(
    records.map(({ key, valueJson: json }): [string, JsonValue] => [key, JSON.parse(json) as JsonValue]),
  );
}

function keyResult(outcome: WriteResult | Error): KeyResult {
  if (!(outcome instanceof Error)) return { version: outcome.version };
  return {
    error: { code: outcome instanceof StoaError ? outcome.code : 'internal', detail: outcome.message },
  };
}
