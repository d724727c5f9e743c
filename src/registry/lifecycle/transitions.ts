/** The lifecycle of an agent as a table, and the verbs as ways through it. */
import { StoaError } from '../../core/errors.js';
import type { AgentState } from '../model.js';

/** From each state, the states that may follow it. */
const transitions: Readonly<Record<AgentState, readonly AgentState[]>> = {
  provisioning: ['running', 'error'],
  running: ['idle', 'hibernating', 'stopping', 'error'],
  idle: ['running', 'hibernating', 'stopping', 'error'],
  hibernating: ['running', 'provisioning', 'stopping', 'error'],
  stopping: ['stopped', 'error'],
  stopped: ['provisioning'],
  error: ['stopped', 'provisioning'],
};

const agentVerbs = ['start', 'stop', 'restart', 'hibernate', 'wake'] as const;
export type AgentVerb = (typeof agentVerbs)[number];

/**
 * The states that a verb leads through, from each state that it can start in.
 *
 * `start` and `stop` go one step towards running and stopped: the program that runs the agent then reports
 * the result, with the same verb or by setting the status. `restart` goes all the way to provisioning in one
 * transaction, and each of its steps is in the table. `wake` requests that a hibernating agent runs.
 */
const verbPaths: Readonly<Record<AgentVerb, Partial<Record<AgentState, readonly AgentState[]>>>> = {
  start: {
    provisioning: ['running'],
    idle: ['running'],
    hibernating: ['provisioning'],
    stopped: ['provisioning'],
    error: ['provisioning'],
  },
  stop: {
    running: ['stopping'],
    idle: ['stopping'],
    hibernating: ['stopping'],
    stopping: ['stopped'],
    error: ['stopped'],
  },
  restart: {
    running: ['stopping', 'stopped', 'provisioning'],
    idle: ['stopping', 'stopped', 'provisioning'],
    hibernating: ['provisioning'],
    stopping: ['stopped', 'provisioning'],
    stopped: ['provisioning'],
    error: ['provisioning'],
  },
  hibernate: { running: ['hibernating'], idle: ['hibernating'] },
  wake: { idle: ['running'], hibernating: ['provisioning'], stopped: ['provisioning'] },
};

/** The status that each verb leads to, for the error if the table does not allow it. */
const verbGoals: Readonly<Record<AgentVerb, AgentState>> = {
  start: 'running',
  stop: 'stopped',
  restart: 'provisioning',
  hibernate: 'hibernating',
  wake: 'running',
};

/** Throws `invalid_transition`, with both states, if the table does not have the step. */
export function checkTransition(from: AgentState, to: AgentState): void {
  const allowed = transitions[from];
  if (allowed.includes(to)) return;
  throw new StoaError('invalid_transition', `The agent is ${from} and cannot become ${to}.`, {
    fix: `An agent that is ${from} can become ${allowed.join(', ')}.`,
    details: { from, to, allowed },
  });
}

/** The steps of a verb from a state. Throws `invalid_transition` if there are none. */
export function verbPath(verb: AgentVerb, from: AgentState): readonly AgentState[] {
  const path = verbPaths[verb][from];
  if (path !== undefined) return path;
  const to = verbGoals[verb];
  const starts = Object.keys(verbPaths[verb]);
  throw new StoaError(
    'invalid_transition',
    `The agent is ${from} and cannot ${verb}: its status would become ${to}.`,
    {
      fix: `An agent can ${verb} when it is ${starts.join(', ')}.`,
      details: { from, to, verb },
    },
  );
}

/** The next status of an agent when a session is opened; null if the status stays. */
export function stateForSession(from: AgentState): AgentState | null {
  if (from === 'running') return null;
  if (from === 'idle') return 'running';
  if (from === 'hibernating' || from === 'stopped') return 'provisioning';
  throw new StoaError('conflict', `The agent is ${from}, so a session cannot be opened on it.`, {
    fix:
      from === 'error'
        ? 'Start or restart the agent first.'
        : 'Try again when the agent has left that state.',
    details: { status: from },
  });
}

/** Whether the agent was stopped on purpose. */
export function isAtRest(status: AgentState): boolean {
  return status === 'stopped' || status === 'error';
}

/** Only an agent at rest can be deleted. */
export function checkDeletable(status: AgentState): void {
  if (isAtRest(status)) return;
  throw new StoaError('conflict', `The agent is ${status}, so it cannot be deleted.`, {
    fix: 'Stop it first: an agent can be deleted when it is stopped or in error.',
    details: { status, allowed: ['stopped', 'error'] },
  });
}

/** An agent with active sessions cannot hibernate. */
export function checkHibernatable(activeSessions: number): void {
  if (activeSessions === 0) return;
  throw new StoaError(
    'conflict',
    `The agent has ${activeSessions} active ${activeSessions === 1 ? 'session' : 'sessions'} and cannot hibernate.`,
    {
      fix: 'Close its sessions first.',
      details: { to: 'hibernating', active_sessions: activeSessions },
    },
  );
}
