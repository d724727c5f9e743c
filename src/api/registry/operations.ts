/** Agents with their sessions, users with their tokens, and the links of messaging identities: their operations. */
import { type OperationTable, bearers, operatorOnly } from '../operation.js';

export const agents = {
  list: { method: 'GET', path: '/v1/agents', summary: 'The agents that the caller reaches' },
  create: {
    method: 'POST',
    path: '/v1/agents',
    summary: 'Make an agent',
    principals: bearers,
    creates: true,
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/agents/{agent_id}', summary: 'One agent', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/agents/{agent_id}',
    summary: 'Change an agent; what is not named stays',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/agents/{agent_id}',
    summary: 'Remove a stopped or failed agent with its sessions',
    versioned: true,
  },
  start: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/start',
    summary: 'One step towards running',
    versioned: true,
    bodiless: true,
  },
  stop: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/stop',
    summary: 'One step towards stopped',
    versioned: true,
    bodiless: true,
  },
  restart: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/restart',
    summary: 'Through stopped to provisioning, in one commit',
    versioned: true,
    bodiless: true,
  },
  hibernate: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/hibernate',
    summary: 'Put an agent without active sessions to sleep',
    versioned: true,
    bodiless: true,
  },
  wake: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/wake',
    summary: 'Ask a sleeping agent to come back',
    versioned: true,
    bodiless: true,
  },
  heartbeat: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/heartbeat',
    summary: 'Take or renew the lease of an agent',
    repeatable: true,
  },
  listSessions: {
    method: 'GET',
    path: '/v1/agents/{agent_id}/sessions',
    summary: 'The sessions of an agent, in the order in which they were opened',
  },
  openSession: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/sessions',
    summary: 'Open a session; a sleeping agent is asked to wake',
    creates: true,
  },
  getSession: {
    method: 'GET',
    path: '/v1/agents/{agent_id}/sessions/{session_id}',
    summary: 'One session',
  },
  closeSession: {
    method: 'DELETE',
    path: '/v1/agents/{agent_id}/sessions/{session_id}',
    summary: 'Close a session; closing it again is accepted',
    repeatable: true,
  },
  listIdentities: {
    method: 'GET',
    path: '/v1/agents/{agent_id}/identities',
    summary: 'The messaging identities that speak for an agent, and what each reaches',
  },
} as const satisfies OperationTable;

export const users = {
  list: { method: 'GET', path: '/v1/users', summary: 'Every user', principals: operatorOnly },
  get: {
    method: 'GET',
    path: '/v1/users/{user}',
    summary: 'One user; others than the operator see only themselves',
  },
  set: {
    method: 'PUT',
    path: '/v1/users/{user}',
    summary: 'Make a user, or change it; what is not named stays',
    principals: bearers,
    repeatable: true,
  },
} as const satisfies OperationTable;

export const tokens = {
  list: {
    method: 'GET',
    path: '/v1/users/{user}/tokens',
    summary: 'The tokens of a user, without their secrets',
    principals: operatorOnly,
  },
  create: {
    method: 'POST',
    path: '/v1/users/{user}/tokens',
    summary: 'Make a token for a user',
    principals: operatorOnly,
    creates: true,
  },
  revoke: {
    method: 'DELETE',
    path: '/v1/users/{user}/tokens',
    summary: 'Revoke a token of a user, or all of them',
    principals: operatorOnly,
    repeatable: true,
  },
} as const satisfies OperationTable;

/** The user decides what a messaging identity may reach. */
export const links = {
  set: {
    method: 'PUT',
    path: '/v1/identities/{identity}/link',
    summary: "Link a messaging identity to a registry agent, so that its signature opens the user's data",
    principals: bearers,
    repeatable: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/identities/{identity}/link',
    summary: 'Take the link away again',
    ofItself: true,
  },
} as const satisfies OperationTable;
