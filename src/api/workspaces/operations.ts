/** Workspaces, projects, work sessions and tasks: their operations. */
import type { OperationTable } from '../operation.js';

export const workspaces = {
  list: { method: 'GET', path: '/v1/workspaces', summary: 'The workspaces that the caller reaches' },
  create: {
    method: 'POST',
    path: '/v1/workspaces',
    summary: 'Make a workspace',
    creates: true,
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/workspaces/{workspace_id}', summary: 'One workspace', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/workspaces/{workspace_id}',
    summary: 'Change a workspace; what is not named stays',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/workspaces/{workspace_id}',
    summary: 'Delete a workspace: it is hidden with all that is in it, and can be restored',
    versioned: true,
  },
  restore: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/restore',
    summary: 'Bring a deleted workspace back',
    versioned: true,
  },
  purge: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/purge',
    summary: 'Remove a deleted workspace for good, with all that is in it',
    versioned: true,
    bodiless: true,
  },
} as const satisfies OperationTable;

export const projects = {
  list: {
    method: 'GET',
    path: '/v1/workspaces/{workspace_id}/projects',
    summary: 'The projects of a workspace',
  },
  create: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/projects',
    summary: 'Make a project in a workspace',
    creates: true,
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/projects/{project_id}', summary: 'One project', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/projects/{project_id}',
    summary: 'Change a project, or move it to another workspace; what is not named stays',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/projects/{project_id}',
    summary: 'Delete a project: it is hidden with its sessions and tasks, and can be restored',
    versioned: true,
  },
  restore: {
    method: 'POST',
    path: '/v1/projects/{project_id}/restore',
    summary: 'Bring a deleted project back',
    versioned: true,
  },
  purge: {
    method: 'POST',
    path: '/v1/projects/{project_id}/purge',
    summary: 'Remove a deleted project for good, with its sessions and tasks',
    versioned: true,
    bodiless: true,
  },
} as const satisfies OperationTable;

export const sessions = {
  list: { method: 'GET', path: '/v1/projects/{project_id}/sessions', summary: 'The sessions of a project' },
  create: {
    method: 'POST',
    path: '/v1/projects/{project_id}/sessions',
    summary: 'Make a session in a project; with status "active" it starts at once',
    creates: true,
    versioned: true,
  },
  active: {
    method: 'GET',
    path: '/v1/projects/{project_id}/active-session',
    summary: 'The session that holds the single active slot of a project; 404 when none does',
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/sessions/{session_id}', summary: 'One session', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/sessions/{session_id}',
    summary: 'Change a session or move it to another status; `takeover` ends the one that holds the slot',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/sessions/{session_id}',
    summary: 'Remove a session with its tasks',
    versioned: true,
  },
} as const satisfies OperationTable;

export const tasks = {
  list: { method: 'GET', path: '/v1/sessions/{session_id}/tasks', summary: 'The tasks of a session' },
  create: {
    method: 'POST',
    path: '/v1/sessions/{session_id}/tasks',
    summary: 'Make a task in a session',
    creates: true,
    versioned: true,
  },
  ready: {
    method: 'GET',
    path: '/v1/projects/{project_id}/tasks/ready',
    summary: 'The tasks that could be claimed now, in the order in which they would be',
  },
  claim: {
    method: 'POST',
    path: '/v1/projects/{project_id}/tasks/claim',
    summary: 'Claim the first ready task; 204 when there is none within `wait` seconds',
  },
  get: { method: 'GET', path: '/v1/tasks/{task_id}', summary: 'One task', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/tasks/{task_id}',
    summary: 'Change a task that is still pending',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/tasks/{task_id}',
    summary: 'Remove a task; unless it was completed, what depends on it is cancelled',
    versioned: true,
  },
  heartbeat: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/heartbeat',
    summary: 'Renew the lease of a claim',
    repeatable: true,
  },
  complete: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/complete',
    summary: 'Report the result of a claimed task; the same report again is accepted',
    repeatable: true,
  },
  fail: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/fail',
    summary: 'Report that a claimed task failed; with `retry` it goes back while it has attempts left',
    repeatable: true,
  },
  cancel: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/cancel',
    summary: 'End a task that is not over, also when another agent holds it',
    repeatable: true,
  },
} as const satisfies OperationTable;
