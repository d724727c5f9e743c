/** Commits over every domain, all or nothing. A conflict is an answer, not an error. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { Outdated, type Refused, type Step, prepareAndWrite } from '../core/write.js';
import { type ErrorCode, StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { validate } from '../core/validation/validate.js';
import type { AgentLookup } from '../registry/agent-lookup.js';
import { agentNotFound } from '../registry/refusals.js';
import type { References } from '../workspaces/references.js';
import { ModifiedBytes } from './modified-bytes.js';
import { type CommitSteps, isMessage, stepOf, stepOfCheck } from './operations.js';
import { type CommitHome, refuseStore } from './home.js';
import { type Check, type CommitAnswer, type CommitInput, type Operation, commitSchema } from './schemas.js';
import { limitError } from '../core/settings/exceeds.js';

/** Errors that depend on the current state. Other errors would come in any state. */
const conflicts: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'conflict',
  'invalid_transition',
  'quota_exceeded',
  'fenced',
  'already_exists',
  'version_conflict',
  'id_collision',
]);

/** Messages of commits that are not in messaging yet. */
export interface OutboxFacts {
  waiting: number;
  oldestWaitingSeconds: number;
  /** The room or recipient no longer exists, or the time for delivery was over. */
  undeliverable: number;
}

export interface CommitServiceOptions {
  steps: CommitSteps;
  home: CommitHome;
  /** The store that keeps the documents, or null if the home does. */
  store: string | null;
  limits: Limits;
  /** The newest position of the change feed. */
  position: () => string | Promise<string>;
  /** Agents by name or id. */
  agents: Pick<AgentLookup, 'idOf' | 'actingAs'>;
  projects: Pick<References, 'project'>;
}

/** What one commit checks and does. */
interface Parts {
  checks: readonly Check[];
  operations: readonly Operation[];
  prepareMessage: ReturnType<CommitHome['messages']>;
}

/** Which part of a commit was refused, and why. */
class PartRefused extends Error {
  constructor(
    readonly part: { check: number } | { operation: number },
    readonly reason: unknown,
  ) {
    super('A part of the commit was refused.', { cause: reason });
    this.name = 'PartRefused';
  }
}

export class CommitService {
  readonly #options: CommitServiceOptions;

  constructor(options: CommitServiceOptions) {
    this.#options = options;
  }

  /** Call it before messaging is closed: a delivery that is under way needs it. */
  close(): Promise<void> | undefined {
    return this.#options.home.close?.();
  }

  /**
   * Runs all operations or none, if all checks hold.
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
    const { home, store, limits, position } = this.#options;
    requireWriteScope(caller);
    const { checks, operations } = validate(commitSchema, input);
    const received = checks.length + operations.length;
    if (received > limits.commitStepsMax)
      throw limitError('too_large', {
        subject: 'The commit',
        unit: 'checks and operations',
        limit: 'commitStepsMax',
        limits,
        received,
        advice: 'Commit in several steps',
      });
    for (const check of checks) requireReach(caller, check);
    const acting = await this.#acting(caller, operations);
    if (store !== null) refuseStore(store, checks, operations);
    try {
      // Checked before anything is prepared: on a repeat, a signature or a room may be refused.
      const before = await home.writer.answered(caller, idempotency);
      const prepareMessage = home.messages(acting);
      const write = (): Promise<unknown[]> =>
        this.#write(acting, { checks, operations, prepareMessage }, idempotency);
      const results = before ?? (await prepareAndWrite(write));
      const shown = (await home.delivered?.(operations, results)) ?? results;
      return { ok: true, results: shown, position: await position() };
    } catch (error) {
      return answerOf(error);
    }
  }

  /** The answer of each operation, from one transaction. */
  async #write(
    caller: Caller,
    { checks, operations, prepareMessage }: Parts,
    idempotency: Idempotency | null,
  ): Promise<unknown[]> {
    const { home, steps: domains, limits } = this.#options;
    const modified = new ModifiedBytes(limits);
    const steps: Step<unknown>[] = [];
    const required: Step<void>[] = [];
    /** Which part of the commit each of `required` belongs to. */
    const parts: PartRefused['part'][] = [];
    const requireStep = (step: Step<void>, part: PartRefused['part']): void => {
      required.push(step);
      parts.push(part);
    };
    for (const [index, check] of checks.entries()) {
      const part = { check: index };
      const make = async (): Promise<Step<void>> =>
        stepOfCheck(domains, caller, await this.#named(caller, check));
      requireStep(await refusable(part, make), part);
    }
    for (const [index, operation] of operations.entries()) {
      const part = { operation: index };
      await refusable(part, async () => {
        if (!isMessage(operation)) {
          const named = await this.#named(caller, operation);
          return steps.push(stepOf(domains, { caller, index, modified }, named));
        }
        const message = await prepareMessage(operation);
        for (const check of message.checks) requireStep(check, part);
        return steps.push(message.step);
      });
    }
    const onRefused = ({ part, index }: Refused, error: unknown): unknown =>
      error instanceof Outdated
        ? error
        : new PartRefused((part === 'check' ? parts[index] : undefined) ?? { operation: index }, error);
    return home.writer.write({ caller, idempotency, checks: required, onRefused }, steps);
  }

  /** A commit is the work of one agent: the agent of the caller, or the agent in its claims. */
  async #acting(caller: Caller, operations: readonly Operation[]): Promise<Caller> {
    let acting = caller;
    for (const operation of operations) {
      if (operation.op !== 'task.claim' || operation.agent_id === undefined) continue;
      const claiming = await this.#options.agents.actingAs(caller, operation.agent_id);
      if (acting.agent !== null && claiming.agent !== acting.agent)
        throw new StoaError(
          'invalid_request',
          `A claim of the commit is for the agent "${claiming.agent ?? ''}", and the commit is made by "${acting.agent}".`,
          { fix: 'Leave out agent_id, or send the claims of different agents in separate commits.' },
        );
      acting = claiming;
    }
    return acting;
  }

  /** A check or an operation with the id of the agent or the project that it names. */
  async #named<Part extends Check | Operation>(caller: Caller, part: Part): Promise<Part> {
    if ('op' in part && part.op === 'task.claim')
      return { ...part, project_id: await this.#options.projects.project(caller, part.project_id) };
    return 'agent_id' in part && typeof part.agent_id === 'string' && !isSession(part)
      ? { ...part, agent_id: await this.#options.agents.idOf(caller, part.agent_id) }
      : part;
  }

  /** Messages that commits have promised and messaging does not have yet. */
  async outbox(): Promise<OutboxFacts> {
    return (await this.#options.home.outbox?.()) ?? { waiting: 0, oldestWaitingSeconds: 0, undeliverable: 0 };
  }
}

/** The agent of a workspace session is a note, which may name any agent. */
function isSession(part: Check | Operation): boolean {
  return 'op' in part && part.op === 'session.update';
}

/** Runs `make`, and adds to a refusal which part of the commit it belongs to. */
async function refusable<T>(part: PartRefused['part'], make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    throw error instanceof StoaError ? new PartRefused(part, error) : error;
  }
}

/**
 * A check reveals as much as a read: a token must not learn of namespaces outside its scope, nor a signed
 * agent of other agents.
 */
function requireReach({ kind, agent, agentId, scopes }: Caller, check: Check): void {
  if (check.check === 'data' && scopes.namespaces !== null && !scopes.namespaces.includes(check.namespace)) {
    throw new StoaError('forbidden', `These credentials cannot access the namespace "${check.namespace}".`, {
      fix: 'Use a token that includes this namespace.',
    });
  }
  if (
    (check.check === 'agent' || check.check === 'lease') &&
    kind === 'agent' &&
    check.agent_id !== agent &&
    check.agent_id.toLowerCase() !== agentId
  ) {
    throw agentNotFound(check.agent_id);
  }
}

function answerOf(error: unknown): CommitAnswer {
  if (!(error instanceof PartRefused)) throw error;
  const { part, reason } = error;
  if (!(reason instanceof StoaError)) throw reason;
  if ('check' in part) return { ok: false, failed: { ...part, ...failureOf(reason) } };
  if (conflicts.has(reason.code)) return { ok: false, failed: { ...part, ...failureOf(reason) } };
  throw new StoaError(reason.code, `Operation ${part.operation}: ${reason.message}`, {
    ...(reason.fix !== undefined && { fix: reason.fix }),
    details: { ...reason.details, ...part },
    cause: reason,
  });
}

function failureOf({ code, message, fix }: StoaError): { code: string; detail: string; fix?: string } {
  return { code, detail: message, ...(fix !== undefined && { fix }) };
}
