/** The operations of workspaces, projects, work sessions and tasks. */
import type { OperationTable } from '../operation.js';

export const workspaces = {
  list: { method: 'GET', path: '/v1/workspaces', summary: 'List the workspaces that the caller can access' },
  create: {
    method: 'POST',
    path: '/v1/workspaces',
    summary: 'Create a workspace',
    creates: true,
    location: '/v1/workspaces/{id}',
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/workspaces/{workspace_id}', summary: 'Get a workspace', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/workspaces/{workspace_id}',
    summary: 'Change the given fields of a workspace',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/workspaces/{workspace_id}',
    summary: 'Delete a workspace; it is hidden with its content and can be restored',
    versioned: true,
  },
  restore: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/restore',
    summary: 'Restore a deleted workspace',
    versioned: true,
  },
  purge: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/purge',
    summary: 'Remove a deleted workspace and its content permanently',
    versioned: true,
    bodiless: true,
  },
} as const satisfies OperationTable;

export const projects = {
  list: {
    method: 'GET',
    path: '/v1/workspaces/{workspace_id}/projects',
    summary: 'List the projects of a workspace',
  },
  create: {
    method: 'POST',
    path: '/v1/workspaces/{workspace_id}/projects',
    summary: 'Create a project in a workspace',
    creates: true,
    location: '/v1/projects/{id}',
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/projects/{project_id}', summary: 'Get a project', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/projects/{project_id}',
    summary: 'Change the given fields of a project, or move it to another workspace',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/projects/{project_id}',
    summary: 'Delete a project; it is hidden with its sessions and tasks and can be restored',
    versioned: true,
  },
  restore: {
    method: 'POST',
    path: '/v1/projects/{project_id}/restore',
    summary: 'Restore a deleted project',
    versioned: true,
  },
  purge: {
    method: 'POST',
    path: '/v1/projects/{project_id}/purge',
    summary: 'Remove a deleted project, its sessions and tasks permanently',
    versioned: true,
    bodiless: true,
  },
} as const satisfies OperationTable;

export const sessions = {
  list: {
    method: 'GET',
    path: '/v1/projects/{project_id}/sessions',
    summary: 'List the sessions of a project',
  },
  create: {
    method: 'POST',
    path: '/v1/projects/{project_id}/sessions',
    summary: 'Create a session in a project; with status "active" it starts at once',
    creates: true,
    location: '/v1/sessions/{id}',
    versioned: true,
  },
  active: {
    method: 'GET',
    path: '/v1/projects/{project_id}/active-session',
    summary: 'Get the session in the active slot of a project; 404 if there is none',
    versioned: true,
  },
  get: { method: 'GET', path: '/v1/sessions/{session_id}', summary: 'Get a session', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/sessions/{session_id}',
    summary: 'Change a session or its status; `takeover` ends the session in the active slot',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/sessions/{session_id}',
    summary: 'Delete a session and its tasks',
    versioned: true,
  },
} as const satisfies OperationTable;

export const tasks = {
  list: { method: 'GET', path: '/v1/tasks', summary: 'List the tasks of all projects, filtered' },
  inSession: {
    method: 'GET',
    path: '/v1/sessions/{session_id}/tasks',
    summary: 'List the tasks of a session',
  },
  create: {
    method: 'POST',
    path: '/v1/sessions/{session_id}/tasks',
    summary: 'Create a task in a session',
    creates: true,
    location: '/v1/tasks/{id}',
    versioned: true,
  },
  add: {
    method: 'POST',
    path: '/v1/projects/{project_id}/tasks',
    summary: 'Add a task to the queue of a project; a new name makes the project',
    creates: true,
    location: '/v1/tasks/{id}',
    versioned: true,
  },
  ready: {
    method: 'GET',
    path: '/v1/projects/{project_id}/tasks/ready',
    summary: 'List the tasks that can be claimed now, in the order of claiming',
  },
  claim: {
    method: 'POST',
    path: '/v1/projects/{project_id}/tasks/claim',
    summary: 'Claim the first ready task that the filters accept; 204 if there is none within `wait` seconds',
    takesKey: true,
  },
  get: { method: 'GET', path: '/v1/tasks/{task_id}', summary: 'Get a task', versioned: true },
  update: {
    method: 'PATCH',
    path: '/v1/tasks/{task_id}',
    summary: 'Change a task that is still pending',
    versioned: true,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/tasks/{task_id}',
    summary: 'Delete a task; unless it was completed, its dependent tasks are cancelled',
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
    summary:
      'Report that a claimed task failed; with `retry` it returns to the queue if it has attempts left',
    repeatable: true,
  },
  ask: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/ask',
    summary: 'Ask a person; the task waits as input_required until the answer or the expiry of the question',
    repeatable: true,
  },
  answer: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/answer',
    summary:
      'Answer the question of a task, which returns to its holder, or to the queue if no agent holds it',
    repeatable: true,
  },
  release: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/release',
    summary: 'Take a task from its holder and return it to the queue; the attempt does not count',
  },
  retry: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/retry',
    summary: 'Return a task that failed or was cancelled to the queue, with all its attempts',
  },
  cancel: {
    method: 'POST',
    path: '/v1/tasks/{task_id}/cancel',
    summary: 'Cancel a task that has not ended, also if another agent holds it',
    repeatable: true,
  },
} as const satisfies OperationTable;
