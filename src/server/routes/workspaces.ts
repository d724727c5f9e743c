/** The handlers of workspaces, projects, work sessions and tasks. */
import { StoaError } from '../../core/errors.js';
import { projects, sessions, tasks, workspaces } from '../../api/workspaces/operations.js';
import {
  projectSchemas,
  sessionSchemas,
  taskSchemas,
  workspaceSchemas,
} from '../../api/workspaces/schemas.js';
import { TaskQueue } from '../../workspaces/queue.js';
import { disconnectSignal } from '../request/disconnection.js';
import { answer, routesOf } from '../route.js';
import { positioned } from './positioned.js';

const workspaceRoutes = routesOf('workspaces', workspaces, workspaceSchemas, {
  list: ({ stoa, caller, query }) => stoa.workspaces.listWorkspaces(caller, query),
  create: ({ stoa, caller, body, idempotency }) =>
    stoa.workspaces.createWorkspace(caller, body, { idempotency }),
  get: ({ stoa, caller, params, query }) =>
    stoa.workspaces.getWorkspace(caller, params.workspace_id, { deleted: query.deleted ?? false }),
  update: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.updateWorkspace(caller, params.workspace_id, body, { ifVersion }),
  delete: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.deleteWorkspace(caller, params.workspace_id, { ifVersion }).then(() => undefined),
  restore: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.restoreWorkspace(caller, params.workspace_id, body, { ifVersion }),
  purge: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.purgeWorkspace(caller, params.workspace_id, { ifVersion }).then(() => undefined),
});

const projectRoutes = routesOf('projects', projects, projectSchemas, {
  list: ({ stoa, caller, params, query }) => stoa.workspaces.listProjects(caller, params.workspace_id, query),
  create: ({ stoa, caller, params, body, idempotency }) =>
    stoa.workspaces.createProject(caller, params.workspace_id, body, { idempotency }),
  get: ({ stoa, caller, params, query }) =>
    stoa.workspaces.getProject(caller, params.project_id, { deleted: query.deleted ?? false }),
  update: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.updateProject(caller, params.project_id, body, { ifVersion }),
  delete: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.deleteProject(caller, params.project_id, { ifVersion }).then(() => undefined),
  restore: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.restoreProject(caller, params.project_id, body, { ifVersion }),
  purge: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.purgeProject(caller, params.project_id, { ifVersion }).then(() => undefined),
});

const sessionRoutes = routesOf('sessions', sessions, sessionSchemas, {
  list: ({ stoa, caller, params, query }) =>
    positioned(stoa, () => stoa.workspaces.listSessions(caller, params.project_id, query)),
  create: ({ stoa, caller, params, body, idempotency }) =>
    stoa.workspaces.createSession(caller, params.project_id, body, { idempotency }),
  active: async ({ stoa, caller, params }) => {
    const session = await stoa.workspaces.activeSession(caller, params.project_id);
    if (session === null)
      throw new StoaError('not_found', `The project ${params.project_id} has no active session.`, {
        fix: 'Create a session with status "active", or set the status of one to "active".',
      });
    return session;
  },
  get: ({ stoa, caller, params }) => stoa.workspaces.getSession(caller, params.session_id),
  update: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.updateSession(caller, params.session_id, body, { ifVersion }),
  delete: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.deleteSession(caller, params.session_id, { ifVersion }).then(() => undefined),
});

const taskRoutes = routesOf('tasks', tasks, taskSchemas, {
  list: async ({ stoa, caller, query }) => {
    const holder = await stoa.registry.agents.holderNamed(caller, query.holder);
    return positioned(stoa, () => stoa.workspaces.listTasks(caller, { ...query, holder }));
  },
  inSession: ({ stoa, caller, params, query }) =>
    stoa.workspaces.listSessionTasks(caller, params.session_id, query),
  create: ({ stoa, caller, params, body, idempotency }) =>
    stoa.workspaces.createTask(caller, params.session_id, body, { idempotency }),
  add: ({ stoa, caller, params, body, idempotency }) =>
    new TaskQueue(stoa.workspaces, caller).add(params.project_id, body, { idempotency }),
  ready: ({ stoa, caller, params, query }) =>
    stoa.workspaces.listReadyTasks(caller, params.project_id, query),
  claim: async ({ stoa, caller, params, body: { agent_id, ...claim }, reply, idempotency }) => {
    const acting = await stoa.registry.agents.actingAs(caller, agent_id);
    // A task must not go to a client that has disconnected while it waited.
    const signal = (claim.wait ?? 0) > 0 ? disconnectSignal(reply) : undefined;
    const options = { signal, idempotency };
    return (await stoa.workspaces.claimTask(acting, params.project_id, claim, options)) ?? answer(204);
  },
  get: ({ stoa, caller, params }) => stoa.workspaces.getTask(caller, params.task_id),
  update: ({ stoa, caller, params, body, ifVersion }) =>
    stoa.workspaces.updateTask(caller, params.task_id, body, { ifVersion }),
  delete: ({ stoa, caller, params, ifVersion }) =>
    stoa.workspaces.deleteTask(caller, params.task_id, { ifVersion }).then(() => undefined),
  heartbeat: ({ stoa, caller, params, body }) => stoa.workspaces.heartbeatTask(caller, params.task_id, body),
  complete: ({ stoa, caller, params, body }) => stoa.workspaces.completeTask(caller, params.task_id, body),
  fail: ({ stoa, caller, params, body }) => stoa.workspaces.failTask(caller, params.task_id, body),
  ask: ({ stoa, caller, params, body }) => stoa.workspaces.askQuestion(caller, params.task_id, body),
  answer: ({ stoa, caller, params, body }) => stoa.workspaces.answerQuestion(caller, params.task_id, body),
  release: ({ stoa, caller, params, body }) => stoa.workspaces.releaseTask(caller, params.task_id, body),
  retry: ({ stoa, caller, params, body }) => stoa.workspaces.retryTask(caller, params.task_id, body),
  cancel: ({ stoa, caller, params, body }) => stoa.workspaces.cancelTask(caller, params.task_id, body),
});

export const workspacesRoutes = [...workspaceRoutes, ...projectRoutes, ...sessionRoutes, ...taskRoutes];
