/** The operations of agents, agent sessions, users, tokens and links of messaging identities. */
import { type OperationTable, bearers, operatorOnly } from '../operation.js';

export const agents = {
  list: { method: 'GET', path: '/v1/agents', summary: 'List the agents that the caller can access' },
  create: {
    method: 'POST',
    path: '/v1/agents',
    summary: 'Create an agent',
    principals: bearers,
    creates: true,
    location: '/v1/agents/{agent_id}',
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/agents/{agent_id}', summary: 'Get an agent', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/agents/{agent_id}',
    summary: 'Change the given fields of an agent',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/agents/{agent_id}',
    summary: 'Delete a stopped or failed agent and its sessions',
    versioned: true,
  },
  forget: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/forget',
    summary: 'Forget an agent that is not present, with its sessions and its inbox',
    versioned: true,
    bodiless: true,
  },
  start: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/start',
    summary: 'Move an agent one status towards running',
    versioned: true,
    bodiless: true,
  },
  stop: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/stop',
    summary: 'Move an agent one status towards stopped',
    versioned: true,
    bodiless: true,
  },
  restart: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/restart',
    summary: 'Move an agent through stopped to provisioning, in one commit',
    versioned: true,
    bodiless: true,
  },
  hibernate: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/hibernate',
    summary: 'Hibernate an agent without active sessions',
    versioned: true,
    bodiless: true,
  },
  wake: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/wake',
    summary: 'Wake a hibernating agent',
    versioned: true,
    bodiless: true,
  },
  heartbeat: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/heartbeat',
    summary: 'Acquire or renew the lease of an agent',
    repeatable: true,
  },
  listSessions: {
    method: 'GET',
    path: '/v1/agents/{agent_id}/sessions',
    summary: 'List the sessions of an agent, in the order of opening',
  },
  openSession: {
    method: 'POST',
    path: '/v1/agents/{agent_id}/sessions',
    summary: 'Open a session; a hibernating agent starts to wake',
    creates: true,
    location: '/v1/agents/{agent_id}/sessions/{session_id}',
  },
  getSession: {
    method: 'GET',
    path: '/v1/agents/{agent_id}/sessions/{session_id}',
    summary: 'Get a session',
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
    summary: 'List the messaging identities linked to an agent, with their scopes',
  },
} as const satisfies OperationTable;

export const users = {
  list: { method: 'GET', path: '/v1/users', summary: 'List all users', principals: operatorOnly },
  get: {
    method: 'GET',
    path: '/v1/users/{user}',
    summary: 'Get a user; only the operator can read other users',
  },
  set: {
    method: 'PUT',
    path: '/v1/users/{user}',
    summary: 'Create a user, or change the given fields',
    principals: bearers,
    repeatable: true,
  },
} as const satisfies OperationTable;

export const tokens = {
  list: {
    method: 'GET',
    path: '/v1/users/{user}/tokens',
    summary: 'List the tokens of a user, without their secrets',
    principals: operatorOnly,
  },
  create: {
    method: 'POST',
    path: '/v1/users/{user}/tokens',
    summary: 'Create a token for a user',
    principals: operatorOnly,
    creates: true,
    location: '/v1/users/{user}/tokens',
  },
  revoke: {
    method: 'DELETE',
    path: '/v1/users/{user}/tokens',
    summary: 'Revoke a token of a user, or all of them',
    principals: operatorOnly,
    repeatable: true,
  },
} as const satisfies OperationTable;

/** A user decides what a messaging identity can access. */
export const links = {
  set: {
    method: 'PUT',
    path: '/v1/identities/{identity}/link',
    summary:
      "Link a messaging identity to a registry agent, so that its signature gives access to the user's data",
    principals: bearers,
    repeatable: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/identities/{identity}/link',
    summary: 'Remove the link of a messaging identity',
    changesOnlyItself: true,
  },
} as const satisfies OperationTable;
