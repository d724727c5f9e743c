/**
 * The effect of a call on the agent that calls: its first write makes the agent, later calls renew its
 * presence.
 */
import type { Limits } from '../../core/settings/limits.js';
import { type AgentState, type StoredAgent, agentStateBytes, stateOf } from '../model.js';
import { checkAgentName } from '../rules.js';
import { type NewAgent, newAgent } from './changes.js';
import { type LeaseTimes, leaseTimesOf } from './lease.js';
import { type Times, applied, rescheduled } from './lifecycle.js';
import { type PresenceOutcome, called } from './presence.js';

/** An agent that calls is running. An agent that was stopped, or is in error, keeps its status. */
const wakingStates: ReadonlySet<AgentState> = new Set(['provisioning', 'idle', 'hibernating']);

/** The agent that a first write makes: running, with its name as the holder of its lease. */
export function agentOfFirstWrite(input: NewAgent, untilMs: number, times: Times): StoredAgent {
  checkAgentName(input.name, times.limits);
  const made = newAgent(input, times.nowMs);
  const running = { ...made, record: { ...made.record, status: agentStateBytes.running } };
  return rescheduled(onCall(running, untilMs, times).agent, times);
}

/**
 * The agent after one of its own calls. `untilMs` is the end of the longest lease that the call took on a
 * task, or 0: the presence does not end before it.
 */
export function onCall(before: StoredAgent, untilMs: number, times: Times): PresenceOutcome {
  const outcome = called(before, untilMs, leaseTimes(times), times.limits, times.nowMs);
  // The write that registers an agent does not change the registered agent again.
  const isFirstSign = before.lease === null || before.lease.renewedAtMs === 0;
  if (isFirstSign || !wakingStates.has(stateOf(before.record))) return outcome;
  const woken = applied(outcome.agent, { status: 'running' }, times, { reason: 'call' });
  return { ...outcome, agent: woken.agent, changes: [...outcome.changes, ...woken.changes] };
}

/** When the next call of the agent has something to write. */
export function nextCallDueMs({ lease }: Pick<StoredAgent, 'lease'>, limits: Limits, nowMs: number): number {
  const pauseMs = limits.agentPresenceRenewSeconds * 1_000;
  // A short lease is renewed well before it ends.
  return nowMs + Math.min(pauseMs, lease === null ? 0 : (lease.expiresAtMs - nowMs) / 2);
}

function leaseTimes({ limits, outages }: Times): LeaseTimes {
  return leaseTimesOf(limits, outages);
}
