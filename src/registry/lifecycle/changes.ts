/** How an agent changes, as pure functions, so that every home decides the same. */
import { StoaError } from '../../core/errors.js';
import { type Outage, extendedByOutages } from '../../core/outages.js';
import type { Limits } from '../../core/settings/limits.js';
import {
  type AgentSpecRecord,
  type AgentState,
  type Lease,
  type StoredAgent,
  agentSpecDefaults,
  agentStateBytes,
  stateOf,
} from '../model.js';
import { checkHibernatable, checkTransition } from './transitions.js';

export interface NewAgent {
  agentId: string;
  /** The 32 bytes of the owner in hex. */
  userId: string;
  /** The owner's readable id. */
  user: string;
  name: string;
  spec: Partial<AgentSpecRecord>;
  labels: Record<string, string>;
}

export interface AgentChange {
  name?: string | undefined;
  status?: AgentState | undefined;
  spec?: Partial<AgentSpecRecord> | undefined;
  labels?: Record<string, string> | undefined;
  errorMessage?: string | null | undefined;
}

/** Every agent begins in provisioning, at version 1. */
export function newAgent(input: NewAgent, nowMs: number): StoredAgent {
  return {
    record: {
      agent_id: input.agentId,
      user_id: input.userId,
      name: input.name,
      status: agentStateBytes.provisioning,
      spec: { ...agentSpecDefaults, ...input.spec },
      created_at: nowMs,
      updated_at: nowMs,
      last_heartbeat_at: null,
    },
    meta: {
      version: 1,
      user: input.user,
      labels: input.labels,
      errorMessage: null,
      statusSinceMs: nowMs,
      activeAtMs: nowMs,
      activityTimerAtMs: null,
    },
    lease: null,
    activeSessions: 0,
  };
}

/** The changed agent, or the same object if nothing changes. */
export function changedAgent(before: StoredAgent, change: AgentChange, nowMs: number): StoredAgent {
  const from = stateOf(before.record);
  const to = change.status ?? from;
  if (change.status !== undefined) checkTransition(from, to);
  if (to === 'hibernating' && from !== to) checkHibernatable(before.activeSessions);
  const errorMessage = errorMessageAfter(before, change, to);
  const after: StoredAgent = {
    ...before,
    record: {
      ...before.record,
      name: change.name ?? before.record.name,
      status: agentStateBytes[to],
      spec: { ...before.record.spec, ...change.spec },
    },
    meta: { ...before.meta, labels: change.labels ?? before.meta.labels, errorMessage },
    lease: change.name === undefined ? before.lease : renamedLease(before, change.name),
  };
  if (JSON.stringify(after) === JSON.stringify(before)) return before;
  after.record.updated_at = Math.max(nowMs, before.record.updated_at);
  after.meta.version += 1;
  if (from !== to) {
    after.meta.statusSinceMs = nowMs;
    after.meta.activeAtMs = nowMs;
  }
  return after;
}

/** A lease that the agent holds under its own name. */
function renamedLease({ lease, record }: StoredAgent, name: string): Lease | null {
  return lease?.holder === record.name ? { ...lease, holder: name } : lease;
}

/** Throws `version_conflict` if the caller expects another version. */
export function checkVersion(version: number, ifVersion: number | undefined): void {
  if (ifVersion === undefined || ifVersion === version) return;
  throw new StoaError('version_conflict', `The agent is at version ${version}, not ${ifVersion}.`, {
    fix: 'Read the agent again and repeat the change on its current version.',
    details: { version, expected: ifVersion },
  });
}

/** How many agents a user has, and how many of them are absent and do not count. */
export interface AgentCounts {
  agents: number;
  absent: number;
  agentsMax: number;
}

/** Throws `quota_exceeded` if the user cannot have another agent. */
export function checkAgentQuota({ agents, absent, agentsMax }: AgentCounts, limits: Limits): void {
  const counted = agents - absent;
  if (counted >= agentsMax)
    throw new StoaError(
      'quota_exceeded',
      `With this agent the user has ${counted + 1} agents, which exceeds ${agentsMax} (agents_max of the user).`,
      {
        fix: 'Use the name of an agent that exists, forget agents that are no longer needed ("stoa agents forget NAME"), or ask the operator to raise agents_max.',
        details: { agents: counted, agents_max: agentsMax },
      },
    );
  if (absent > limits.agentsLostMax)
    throw new StoaError(
      'quota_exceeded',
      `The user has ${absent} lost agents, which exceeds ${limits.agentsLostMax} (agentsLostMax).`,
      {
        fix: 'Forget lost agents ("stoa agents forget NAME"), or use the name of an agent that exists.',
        details: { lost: absent, lost_max: limits.agentsLostMax },
      },
    );
}

/** When a silent agent becomes idle, or an idle one hibernates. Null if no timer will change the agent. */
export function activityDueMs(agent: StoredAgent, limits: Limits, outages: readonly Outage[]): number | null {
  if (agent.activeSessions > 0) return null;
  const status = stateOf(agent.record);
  if (status === 'running' && limits.idleAfterSeconds > 0) {
    const signMs = lastSignOfLifeMs(agent.meta.activeAtMs, agent.lease);
    return extendedByOutages(signMs, signMs + limits.idleAfterSeconds * 1_000, outages);
  }
  if (status === 'idle' && limits.hibernateAfterSeconds > 0) {
    const sinceMs = agent.meta.statusSinceMs;
    return extendedByOutages(sinceMs, sinceMs + limits.hibernateAfterSeconds * 1_000, outages);
  }
  return null;
}

function lastSignOfLifeMs(activeAtMs: number, lease: Lease | null): number {
  return Math.max(activeAtMs, lease?.renewedAtMs ?? 0);
}

function errorMessageAfter(before: StoredAgent, change: AgentChange, to: AgentState): string | null {
  const given = change.errorMessage;
  if (to === 'error') return given === undefined ? before.meta.errorMessage : given;
  if (given !== undefined && given !== null) {
    throw new StoaError(
      'invalid_request',
      `error_message is set, but the agent is ${to}. Only an agent in error can have an error message.`,
      {
        fix: 'Set the status to "error" in the same request, or leave out error_message.',
        details: { field: 'error_message' },
      },
    );
  }
  return null;
}
