import { operatorCaller } from '../../../src/core/caller.js';
import type { Running } from '../running.js';
import { type Row, type RowRequest, statuses } from './row.js';

interface Things {
  workspace: string;
  project: string;
  session: string;
  task: string;
}

let made = 0;
const alice = operatorCaller('alice');
/** The signed agent of alice. */
const signed = { ...alice, agent: 'signed' };

/** A workspace of alice's with one of each in it. */
async function makeThings({ stoa: { workspaces } }: Running): Promise<Things> {
  made += 1;
  const workspace = await workspaces.createWorkspace(alice, { name: `row ${made}` });
  const project = await workspaces.createProject(alice, workspace.id, { name: 'row' });
  const session = await workspaces.createSession(alice, project.id, { status: 'active' });
  const task = await workspaces.createTask(alice, session.id, { command: 'row' });
  return { workspace: workspace.id, project: project.id, session: session.id, task: task.id };
}

const reading = statuses(200, 200, 404, 200, 200, 401);
const reporting = statuses(403, 403, 404, 403, 200, 401);
const writing = statuses(200, 200, 404, 403, 200, 401);
const making = statuses(201, 201, 404, 403, 201, 401);
const removing = statuses(204, 204, 404, 403, 204, 401);

function on(kind: keyof Things, resource: string, suffix = '', body?: unknown): Row['request'] {
  return async (running): Promise<RowRequest> => ({
    path: `/v1/${resource}/${(await makeThings(running))[kind]}${suffix}`,
    body,
  });
}

function onDeleted(kind: 'workspace' | 'project', suffix: string): Row['request'] {
  return async (running): Promise<RowRequest> => {
    const things = await makeThings(running);
    if (kind === 'workspace') await running.stoa.workspaces.deleteWorkspace(alice, things.workspace);
    else await running.stoa.workspaces.deleteProject(alice, things.project);
    return { path: `/v1/${kind}s/${things[kind]}/${suffix}` };
  };
}

/** The claim belongs to the signed agent: only the holder can report on a claim. */
function onClaimed(verb: string, more: object = {}): Row['request'] {
  return async (running): Promise<RowRequest> => {
    const things = await makeThings(running);
    const claim = await running.stoa.workspaces.claimTask(signed, things.project);
    return { path: `/v1/tasks/${things.task}/${verb}`, body: { fence: claim?.lease.fence, ...more } };
  };
}

async function onCancelled(running: Running): Promise<RowRequest> {
  const { task } = await makeThings(running);
  await running.stoa.workspaces.cancelTask(alice, task);
  return { path: `/v1/tasks/${task}/retry`, body: {} };
}

async function onHeld(running: Running, agentId: string): Promise<RowRequest> {
  const { path } = await onClaimed('release')(running, agentId);
  return { path, body: {} };
}

/** The question was asked by the signed agent. */
async function onQuestion(running: Running): Promise<RowRequest> {
  const things = await makeThings(running);
  const { workspaces } = running.stoa;
  const claim = await workspaces.claimTask(signed, things.project);
  await workspaces.askQuestion(signed, things.task, { fence: claim?.lease.fence, question: 'Which one?' });
  return { path: `/v1/tasks/${things.task}/answer`, body: { answer: 'this one' } };
}

export const workspaceRows: Record<string, Row> = {
  'GET /v1/workspaces': {
    request: () => ({ path: '/v1/workspaces' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'POST /v1/workspaces': {
    request: () => {
      made += 1;
      return { path: '/v1/workspaces', body: { name: `new ${made}` } };
    },
    status: statuses(201, 201, 201, 403, 201, 401),
  },
  'GET /v1/workspaces/{workspace_id}': { request: on('workspace', 'workspaces'), status: reading },
  'PATCH /v1/workspaces/{workspace_id}': {
    request: on('workspace', 'workspaces', '', { status: 'inactive' }),
    status: writing,
  },
  'DELETE /v1/workspaces/{workspace_id}': { request: on('workspace', 'workspaces'), status: removing },
  'POST /v1/workspaces/{workspace_id}/restore': {
    request: onDeleted('workspace', 'restore'),
    status: writing,
  },
  'POST /v1/workspaces/{workspace_id}/purge': { request: onDeleted('workspace', 'purge'), status: removing },
  'GET /v1/workspaces/{workspace_id}/projects': {
    request: on('workspace', 'workspaces', '/projects'),
    status: reading,
  },
  'POST /v1/workspaces/{workspace_id}/projects': {
    request: on('workspace', 'workspaces', '/projects', { name: 'new' }),
    status: making,
  },
  'GET /v1/projects/{project_id}': { request: on('project', 'projects'), status: reading },
  'PATCH /v1/projects/{project_id}': {
    request: on('project', 'projects', '', { language: 'go' }),
    status: writing,
  },
  'DELETE /v1/projects/{project_id}': { request: on('project', 'projects'), status: removing },
  'POST /v1/projects/{project_id}/restore': { request: onDeleted('project', 'restore'), status: writing },
  'POST /v1/projects/{project_id}/purge': { request: onDeleted('project', 'purge'), status: removing },
  'GET /v1/projects/{project_id}/sessions': {
    request: on('project', 'projects', '/sessions'),
    status: reading,
  },
  'POST /v1/projects/{project_id}/sessions': {
    request: on('project', 'projects', '/sessions', {}),
    status: making,
  },
  'GET /v1/projects/{project_id}/active-session': {
    request: on('project', 'projects', '/active-session'),
    status: reading,
  },
  'GET /v1/projects/{project_id}/tasks/ready': {
    request: on('project', 'projects', '/tasks/ready'),
    status: reading,
  },
  'POST /v1/projects/{project_id}/tasks/claim': {
    request: on('project', 'projects', '/tasks/claim', {}),
    status: writing,
  },
  'POST /v1/projects/{project_id}/tasks': {
    request: on('project', 'projects', '/tasks', { command: 'new' }),
    status: making,
  },
  'GET /v1/sessions/{session_id}': { request: on('session', 'sessions'), status: reading },
  'PATCH /v1/sessions/{session_id}': {
    request: on('session', 'sessions', '', { status: 'idle' }),
    status: writing,
  },
  'DELETE /v1/sessions/{session_id}': { request: on('session', 'sessions'), status: removing },
  'GET /v1/sessions/{session_id}/tasks': { request: on('session', 'sessions', '/tasks'), status: reading },
  'POST /v1/sessions/{session_id}/tasks': {
    request: on('session', 'sessions', '/tasks', { command: 'new' }),
    status: making,
  },
  'GET /v1/tasks': {
    request: () => ({ path: '/v1/tasks' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'GET /v1/tasks/{task_id}': { request: on('task', 'tasks'), status: reading },
  'PATCH /v1/tasks/{task_id}': { request: on('task', 'tasks', '', { priority: 3 }), status: writing },
  'DELETE /v1/tasks/{task_id}': { request: on('task', 'tasks'), status: removing },
  'POST /v1/tasks/{task_id}/heartbeat': { request: onClaimed('heartbeat'), status: reporting },
  'POST /v1/tasks/{task_id}/complete': { request: onClaimed('complete'), status: reporting },
  'POST /v1/tasks/{task_id}/fail': { request: onClaimed('fail'), status: reporting },
  'POST /v1/tasks/{task_id}/ask': {
    request: onClaimed('ask', { question: 'Which one?' }),
    status: reporting,
  },
  'POST /v1/tasks/{task_id}/answer': { request: onQuestion, status: statuses(200, 200, 404, 403, 403, 401) },
  'POST /v1/tasks/{task_id}/release': { request: onHeld, status: writing },
  'POST /v1/tasks/{task_id}/cancel': { request: on('task', 'tasks', '/cancel'), status: writing },
  'POST /v1/tasks/{task_id}/retry': { request: onCancelled, status: writing },
  'POST /v1/secrets/rekey': {
    request: () => ({ path: '/v1/secrets/rekey' }),
    status: statuses(200, 403, 403, 403, 403, 401),
  },
};
