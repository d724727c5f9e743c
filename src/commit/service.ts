/** All or nothing over every domain. A conflict is an answer, not an accident. */
import { type ErrorCode, StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { Idempotency } from '../kernel/once.js';
import type { Limits } from '../limits.js';
import { validate } from '../validate.js';
import { CheckFailed, type CommitPort, OperationFailed, type OutboxFacts } from './port.js';
import { type Check, type CommitAnswer, type CommitInput, commitSchema } from './schemas.js';

/** Refusals that say "not in this state": others would be refused in any state. */
const conflicts: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'conflict',
  'invalid_transition',
  'quota_exceeded',
  'fenced',
  'already_exists',
  'version_conflict',
  'id_collision',
]);

export interface CommitServiceOptions {
  port: CommitPort;
  limits: Limits;
  /** The newest position of the change feed. */
  position: () => string;
  /** What each outbox holds; there are none where every domain is embedded. */
  outboxes?: () => Promise<OutboxFacts[]>;
  /** Refuses a caller who names an agent that it cannot act as. */
  checkName: (caller: Pick<Caller, 'kind' | 'user' | 'agent'>) => void;
  close?: () => Promise<void>;
}

export class CommitService {
  readonly #options: CommitServiceOptions;

  constructor(options: CommitServiceOptions) {
    this.#options = options;
  }

  /**
   * Does every operation or none, if every check holds.
   *
   * @example
   * const outcome = await stoa.commit.commit(caller, {
   *   checks: [{ check: 'data', key: 'plan', version: 3 }],
   *   operations: [
   *     { op: 'data.set', key: 'plan', value: 'go' },
   *     { op: 'data.increment', key: 'plans' },
   *   ],
   * });
   * if (!outcome.ok) console.log(outcome.failed);
   */
  async commit(
    caller: Caller,
    input: CommitInput,
    idempotency: Idempotency | null = null,
  ): Promise<CommitAnswer> {
    const { port, limits, position } = this.#options;
    if (!caller.scopes.write) throw new StoaError('forbidden', 'These credentials can only read.');
    const { checks, operations } = validate(commitSchema, input);
    if (checks.length + operations.length > limits.commitStepsMax) {
      throw new StoaError(
        'too_large',
        `A commit has at most ${limits.commitStepsMax} checks and operations.`,
        { details: { commitStepsMax: limits.commitStepsMax } },
      );
    }
    for (const check of checks) requireReach(caller, check);
    for (const operation of operations)
      if (operation.op === 'task.claim' && operation.agent_id !== undefined)
        this.#options.checkName({ ...caller, agent: operation.agent_id });
    try {
      const results = await port.commit(caller, checks, operations, idempotency);
      return { ok: true, results, position: position() };
    } catch (error) {
      return answerOf(error);
    }
  }

  /** Messages that commits have promised and messaging does not have, over all databases. */
  async outbox(): Promise<OutboxFacts> {
    const all = (await this.#options.outboxes?.()) ?? [];
    return {
      waiting: all.reduce((sum, { waiting }) => sum + waiting, 0),
      oldestWaitingSeconds: all.reduce(
        (oldest, { oldestWaitingSeconds }) => Math.max(oldest, oldestWaitingSeconds),
        0,
      ),
      undeliverable: all.reduce((sum, { undeliverable }) => sum + undeliverable, 0),
    };
  }

  /** Ends the deliveries that are under way; what still waits is left to the next server. */
  async close(): Promise<void> {
    await this.#options.close?.();
  }
}

/** A check tells as much as a read: nothing of other namespaces to a token for some, nothing of other agents to a signed one. */
function requireReach({ kind, agentId, scopes }: Caller, check: Check): void {
  if (check.check === 'data' && scopes.namespaces !== null && !scopes.namespaces.includes(check.namespace)) {
    throw new StoaError('forbidden', `These credentials do not reach the namespace "${check.namespace}".`);
  }
  if (
    (check.check === 'agent' || check.check === 'lease') &&
    kind === 'agent' &&
    check.agent_id.toLowerCase() !== agentId
  ) {
    throw new StoaError('not_found', `There is no agent ${check.agent_id}.`);
  }
}

function answerOf(error: unknown): CommitAnswer {
  if (error instanceof CheckFailed)
    return { ok: false, failed: { check: error.index, ...failureOf(error.reason) } };
  if (!(error instanceof OperationFailed)) throw error;
  const { index, reason } = error;
  if (!(reason instanceof StoaError)) throw reason;
  if (conflicts.has(reason.code)) return { ok: false, failed: { operation: index, ...failureOf(reason) } };
  throw new StoaError(reason.code, `Operation ${index}: ${reason.message}`, {
    ...(reason.fix !== undefined && { fix: reason.fix }),
    details: { ...reason.details, operation: index },
    cause: reason,
  });
}

function failureOf({ code, message, fix }: StoaError): { code: string; detail: string; fix?: string } {
  return { code, detail: message, ...(fix !== undefined && { fix }) };
}
