/** Read-modify-write of one document: in one step where the backend can, by version and in line where it can't. */
import { StoaError } from '../errors.js';
import { KeyQueue } from '../key-queue.js';
import { isLive } from './merge-document.js';
import type { JsonValue, Scope } from './model.js';
import {
  type BatchResult,
  type DataStorePort,
  type Decide,
  type ExpectedVersion,
  type WriteBatch,
  type WriteResult,
  succeeded,
} from './port.js';
import { type RequestRules, type SetOptions, documentWrite } from './requests.js';

export type UpdateOptions = Omit<SetOptions, 'ifVersion'>;

/** One document, and who changes it. */
export interface Target {
  readonly scope: Scope;
  readonly key: string;
  readonly agent: string | null;
}

export class ReadModifyWrite {
  readonly #port: DataStorePort;
  readonly #rules: RequestRules;
  readonly #queue = new KeyQueue();

  constructor(port: DataStorePort, rules: RequestRules) {
    this.#port = port;
    this.#rules = rules;
  }

  /** By a function that may wait, so always by version. `write` is the service's own, which announces. */
  update<Value extends JsonValue>(
    { scope, key, agent }: Target,
    change: (current: JsonValue | undefined) => Value | Promise<Value>,
    options: UpdateOptions,
    write: (batch: WriteBatch) => Promise<BatchResult>,
  ): Promise<WriteResult & { value: Value }> {
    return this.#retried(scope, key, async () => {
      const current = await this.#port.get(scope, key);
      const value = await change(
        current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue),
      );
      const keepsExpiry = options.ttl === undefined && options.expiresAt === undefined;
      const checked = documentWrite(this.#rules, agent, key, value, {
        ...options,
        ifVersion: current?.version ?? 0,
      });
      const [result] = (
        await write({ sets: [{ ...checked, ...(keepsExpiry && { expiresAt: undefined }) }], deletes: [] })
      ).sets;
      return { ...succeeded(result), value };
    });
  }

  /** By a function that answers at once. The document's expiry and metadata stay. */
  async modify<Value extends JsonValue>(
    { scope, key, agent }: Target,
    ifVersion: ExpectedVersion | undefined,
    change: (current: JsonValue | undefined) => Value,
  ): Promise<WriteResult & { value: Value }> {
    let value: Value | undefined;
    const decide: Decide = (stored) => {
      const current = stored !== undefined && isLive(stored, this.#rules.nowMs()) ? stored : undefined;
      value = change(current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue));
      return { ...documentWrite(this.#rules, agent, key, value, { ifVersion }), expiresAt: undefined };
    };
    const result =
      this.#port.modify === undefined
        ? await this.#modifyByVersion(scope, key, decide)
        : await this.#port.modify(scope, key, decide);
    // The write succeeded, so decide has run and left its value.
    return { ...result, value: value as Value };
  }

  #modifyByVersion(scope: Scope, key: string, decide: Decide): Promise<WriteResult> {
    return this.#retried(scope, key, async () => {
      const current = await this.#port.get(scope, key);
      const write = decide(current);
      const seen = current?.version ?? 0;
      // A version that the caller asked for and that is not the current one fails for good; otherwise the one just seen must hold.
      const ifVersion =
        write.ifVersion === null || write.ifVersion === seen || (write.ifVersion === 'any' && seen > 0)
          ? seen
          : write.ifVersion;
      const [result] = (await this.#port.write(scope, { sets: [{ ...write, ifVersion }], deletes: [] }, null))
        .sets;
      if (result instanceof StoaError && result.code === 'version_conflict' && ifVersion !== seen)
        throw new FinalConflict(result);
      return succeeded(result);
    });
  }

  /** Writers of this process wait for each other; against other processes the version decides, and the loser tries again. */
  #retried<T>(scope: Scope, key: string, attempt: () => Promise<T>): Promise<T> {
    return this.#queue.run(JSON.stringify([scope.user, scope.namespace, key]), async () => {
      for (let attempts = 1; ; attempts += 1) {
        try {
          return await attempt();
        } catch (error) {
          if (error instanceof FinalConflict) throw error.conflict;
          if (
            !(error instanceof StoaError) ||
            error.code !== 'version_conflict' ||
            attempts >= this.#rules.limits.updateAttemptsMax
          )
            throw error;
          await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempts, 20)));
        }
      }
    });
  }
}

/** The caller asked for a version that is not the current one: trying again would not help. */
class FinalConflict extends Error {
  constructor(readonly conflict: StoaError) {
    super(conflict.message);
  }
}
