/** The registry's writes as steps: checked, allowed, and with the answer that their caller sees. */
import { type Caller, requireOperator, requireWriteScope } from '../core/caller.js';
import { given } from '../core/given.js';
import type { Step } from '../core/write.js';
import type { Limits } from '../core/settings/limits.js';
import { validate } from '../core/validation/validate.js';
import { reachUser, requireUserWide, scopeOf, userOf, userScopeOf } from './access.js';
import { agentAnswer, leaseAnswer, sessionAnswer, userAnswer } from './answers.js';
import { parseAgentId, parseSessionId } from './ids.js';
import type { AgentView, RegistryPort, WriteGuard } from './port.js';
import {
  checkAgentName,
  checkEmail,
  checkErrorMessage,
  checkHolder,
  checkLabels,
  checkSpec,
} from './rules.js';
import {
  type AgentAnswer,
  type CreateAgentInput,
  type HeartbeatInput,
  type LeaseAnswer,
  type OpenSessionInput,
  type PutAgentInput,
  type PutUserInput,
  type SessionAnswer,
  type UpdateAgentInput,
  type UserAnswer,
  createAgentSchema,
  heartbeatSchema,
  openSessionSchema,
  putAgentSchema,
  putUserSchema,
  updateAgentSchema,
} from './schemas.js';
import type { AgentVerb } from './lifecycle/transitions.js';
import { sessionNotFound } from './refusals.js';

export interface WriteOptions {
  /** The version that the caller has seen; another one is `version_conflict`. */
  ifVersion?: number | undefined;
}

export interface RemoveOptions extends WriteOptions {
  /** Also an agent that works, unless it is present. */
  forgets?: boolean | undefined;
}

export class RegistrySteps {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  createAgent(caller: Caller, input: CreateAgentInput): Step<AgentAnswer> {
    requireWriteScope(caller);
    requireUserWide(caller);
    const { name, spec = {}, labels = {} } = validate(createAgentSchema, input);
    this.#checkAgent({ name, spec, labels });
    const user = userOf(caller, this.#limits);
    return this.#port.createAgent({ user, name, spec: given(spec), labels }).map(this.#answer);
  }

  /** Creates an agent under an id that the caller chose, or updates it. */
  putAgent(caller: Caller, input: PutAgentInput, options: WriteOptions = {}): Step<AgentAnswer> {
    requireWriteScope(caller);
    const { agent_id, name, status, spec = {}, labels = {}, error_message } = validate(putAgentSchema, input);
    const agentId = parseAgentId(agent_id);
    if (caller.kind === 'agent') scopeOf(caller, agentId, this.#limits);
    this.#checkAgent({ name, spec, labels, error_message });
    const user = userOf(caller, this.#limits);
    const agent = { agentId, user, name, status, spec: given(spec), labels, errorMessage: error_message };
    return this.#port.putAgent(agent, guardOf(caller, options)).map(this.#answer);
  }

  updateAgent(
    caller: Caller,
    agentId: string,
    input: UpdateAgentInput,
    options: WriteOptions = {},
  ): Step<AgentAnswer> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const { name, status, spec, labels, error_message } = validate(updateAgentSchema, input);
    this.#checkAgent({ name, spec, labels, error_message });
    const change = { name, status, spec: spec && given(spec), labels, errorMessage: error_message };
    return this.#port
      .updateAgent(scopeOf(caller, id, this.#limits), id, change, guardOf(caller, options))
      .map(this.#answer);
  }

  moveAgent(caller: Caller, agentId: string, verb: AgentVerb, options: WriteOptions = {}): Step<AgentAnswer> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    return this.#port
      .moveAgent(scopeOf(caller, id, this.#limits), id, verb, guardOf(caller, options))
      .map(this.#answer);
  }

  /** Write it repeatedly before `deleteAgent`, until it returns false. */
  deleteSomeSessions(caller: Caller, agentId: string, options: RemoveOptions = {}): Step<boolean> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const guard = guardOf(caller, options);
    return this.#port.deleteSomeSessions(
      scopeOf(caller, id, this.#limits),
      id,
      guard,
      options.forgets ?? false,
    );
  }

  deleteAgent(caller: Caller, agentId: string, options: RemoveOptions = {}): Step<void> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const guard = guardOf(caller, options);
    return this.#port.deleteAgent(scopeOf(caller, id, this.#limits), id, guard, options.forgets ?? false);
  }

  requireAgentVersion(caller: Caller, agentId: string, version: number): Step<void> {
    return this.#port.requireAgentVersion(userScopeOf(caller, this.#limits), parseAgentId(agentId), version);
  }

  /** The holder is the one named, else the identity or agent that calls, else the agent under its own name. */
  heartbeat(caller: Caller, agentId: string, input: HeartbeatInput = {}): Step<{ lease: LeaseAnswer }> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const { holder = caller.identity ?? caller.agent } = validate(heartbeatSchema, input);
    if (holder !== null) checkHolder(holder, this.#limits);
    return (
      this.#port
        .heartbeat(scopeOf(caller, id, this.#limits), id, holder, guardOf(caller))
        // A lease that was just renewed has a holder.
        .map((lease) => ({ lease: leaseAnswer(lease) as LeaseAnswer }))
    );
  }

  releaseLease(caller: Caller, agentId: string, input: HeartbeatInput = {}): Step<void> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const { holder = null } = validate(heartbeatSchema, input);
    return this.#port.releaseLease(scopeOf(caller, id, this.#limits), id, holder, guardOf(caller));
  }

  requireLease(caller: Caller, agentId: string, fence: number): Step<void> {
    return this.#port.requireLease(userScopeOf(caller, this.#limits), parseAgentId(agentId), fence);
  }

  openSession(caller: Caller, agentId: string, input: OpenSessionInput = {}): Step<SessionAnswer> {
    requireWriteScope(caller);
    const id = parseAgentId(agentId);
    const { session_id } = validate(openSessionSchema, input);
    const sessionId = session_id === undefined ? null : parseSessionId(session_id);
    return this.#port
      .openSession(scopeOf(caller, id, this.#limits), id, sessionId, guardOf(caller))
      .map(sessionAnswer);
  }

  /** A signed agent closes its own sessions only. With an agent, only if the session belongs to that agent. */
  closeSession(caller: Caller, sessionId: string, agentId?: string): Step<SessionAnswer> {
    requireWriteScope(caller);
    const id = parseSessionId(sessionId);
    const named = agentId === undefined ? null : parseAgentId(agentId);
    if (caller.kind === 'agent' && (caller.agentId === null || (named ?? caller.agentId) !== caller.agentId))
      throw sessionNotFound(id);
    const ofAgent = caller.kind === 'agent' ? caller.agentId : named;
    return this.#port
      .closeSession(userScopeOf(caller, this.#limits), ofAgent, id, guardOf(caller))
      .map(sessionAnswer);
  }

  /** Fields that are not given stay. Only the operator sets quotas and writes other users. */
  putUser(caller: Caller, user: string, input: PutUserInput = {}): Step<UserAnswer> {
    requireWriteScope(caller);
    requireUserWide(caller);
    const id = reachUser(caller, user, this.#limits);
    const { email, agents_max } = validate(putUserSchema, input);
    if (email !== undefined) checkEmail(email, this.#limits);
    if (agents_max !== undefined) requireOperator(caller);
    return this.#port
      .putUser(id, { email, agentsMax: agents_max })
      .map((stored) => userAnswer(stored, this.#limits));
  }

  /** Lets a messaging identity speak for an agent. */
  linkIdentity(caller: Caller, agentId: string, identity: string): Step<void> {
    requireWriteScope(caller);
    requireUserWide(caller);
    const id = parseAgentId(agentId);
    return this.#port.linkIdentity(scopeOf(caller, id, this.#limits), id, identity);
  }

  unlinkIdentity(caller: Caller, identity: string): Step<void> {
    requireWriteScope(caller);
    requireUserWide(caller);
    return this.#port.unlinkIdentity(userScopeOf(caller, this.#limits), identity);
  }

  #checkAgent({ name, spec, labels, error_message }: UpdateAgentInput): void {
    if (name !== undefined) checkAgentName(name, this.#limits);
    if (spec !== undefined) checkSpec(given(spec), this.#limits);
    if (labels !== undefined) checkLabels(labels, this.#limits);
    if (typeof error_message === 'string') checkErrorMessage(error_message, this.#limits);
  }

  readonly #answer = (agent: AgentView): AgentAnswer => agentAnswer(agent, this.#port.nowMs());
}

/** The preconditions that a caller sends with a write. */
function guardOf(caller: Caller, options: WriteOptions = {}): WriteGuard {
  return { fence: caller.fence, ifVersion: options.ifVersion };
}
