/** Examples of workspaces, projects, work sessions and tasks. */
import type { ExamplesOf } from '../example.js';

const times = {
  created_at: '2026-01-31T09:00:00.000Z',
  updated_at: '2026-01-31T09:05:00.000Z',
  version: 2,
};

const workspace = {
  id: 'ws_06e23f38-b967-416e-b926-c3c47b15521c',
  name: 'site',
  project_path: '/srv/site',
  status: 'active',
  owner_id: 'ada',
  claude_key: null,
  active_tasks: 1,
  ...times,
  deleted_at: null,
} as const;
const oneWorkspace = { workspace_id: workspace.id } as const;

const project = {
  id: 'proj_dafa15e4-d338-4444-975e-3613faf05c94',
  workspace_id: workspace.id,
  name: 'web',
  path: '/srv/site/web',
  description: 'The public pages',
  git_url: 'https://git.example.org/site.git',
  git_branch: 'main',
  language: 'TypeScript',
  status: 'active',
  config: {},
  git_info: {},
  ...times,
  deleted_at: null,
} as const;
const oneProject = { project_id: project.id } as const;

const session = {
  id: 'sess_7e73e014-d4ee-43fa-b2d6-4ccf8e87ad85',
  project_id: project.id,
  agent_id: 'scout',
  process_id: null,
  status: 'active',
  started_at: '2026-01-31T09:00:00.000Z',
  ended_at: null,
  last_active: '2026-01-31T09:05:00.000Z',
  metadata: { branch: 'login' },
  command_count: 1,
  bytes_in: 0,
  bytes_out: 0,
  error_count: 0,
  max_idle_time: 0,
  max_lifetime: 0,
  ...times,
} as const;
const oneSession = { session_id: session.id } as const;

const pending = {
  id: 'task_fa233615-e947-45ba-b800-549a42dc25f5',
  session_id: session.id,
  command: 'Fix the login page',
  status: 'pending',
  output: null,
  error: null,
  started_at: null,
  completed_at: null,
  bytes_in: 0,
  bytes_out: 0,
  duration: null,
  depends_on: [],
  priority: 5,
  claimed_by: null,
  attempts: 0,
  max_attempts: 3,
  reason: null,
  labels: ['frontend'],
  run_at: null,
  retry: { base_seconds: 30, max_seconds: 3_600 },
  question: null,
  asked_at: null,
  question_expires_at: null,
  answer: null,
  answered_at: null,
  answered_by: null,
  ...times,
};
const oneTask = { task_id: pending.id } as const;
const held = {
  ...pending,
  status: 'running',
  claimed_by: 'builder',
  started_at: '2026-01-31T09:05:00.000Z',
} as const;
const ended = { ...held, completed_at: '2026-01-31T09:15:00.000Z', duration: 600 } as const;
const asked = {
  question: 'May I deploy on a Friday?',
  asked_at: '2026-01-31T09:10:00.000Z',
  question_expires_at: '2026-02-01T09:10:00.000Z',
};
const task = { ...pending, status: 'pending' } as const;
const lease = { fence: 7, expires_at: '2026-01-31T09:20:00.000Z' };

export const workspaceExamples: ExamplesOf<'workspaces'> = {
  list: { request: { status: 'active' }, answer: { items: [workspace], next_cursor: null } },
  create: { request: { name: 'site', project_path: '/srv/site' }, answer: { ...workspace, version: 1 } },
  get: { request: oneWorkspace, answer: workspace },
  update: {
    request: { ...oneWorkspace, status: 'archived' },
    answer: { ...workspace, status: 'archived', version: 3 },
  },
  delete: { request: oneWorkspace },
  restore: { request: { ...oneWorkspace, name: 'site-2' }, answer: { ...workspace, name: 'site-2' } },
  purge: { request: oneWorkspace },
};

export const projectExamples: ExamplesOf<'projects'> = {
  list: { request: oneWorkspace, answer: { items: [project], next_cursor: null } },
  create: {
    request: { ...oneWorkspace, name: 'web', language: 'TypeScript' },
    answer: { ...project, version: 1 },
  },
  get: { request: oneProject, answer: project },
  update: {
    request: { ...oneProject, git_branch: 'release' },
    answer: { ...project, git_branch: 'release', version: 3 },
  },
  delete: { request: oneProject },
  restore: { request: { ...oneProject, name: 'web-2' }, answer: { ...project, name: 'web-2' } },
  purge: { request: oneProject },
};

export const sessionExamples: ExamplesOf<'sessions'> = {
  list: { request: { ...oneProject, status: 'active' }, answer: { items: [session], next_cursor: null } },
  create: { request: { ...oneProject, agent_id: 'scout', status: 'active' }, answer: session },
  active: { request: oneProject, answer: session },
  get: { request: oneSession, answer: session },
  update: {
    request: { ...oneSession, status: 'ended' },
    answer: { ...session, status: 'ended', ended_at: '2026-01-31T10:00:00.000Z' },
  },
  delete: { request: oneSession },
};

export const taskExamples: ExamplesOf<'tasks'> = {
  list: {
    request: { status: 'running', holder: 'builder' },
    answer: {
      items: [{ ...held, project_id: project.id, lease_expires_at: lease.expires_at }],
      next_cursor: null,
    },
  },
  inSession: {
    request: { ...oneSession, status: 'pending' },
    answer: { items: [task], next_cursor: null },
  },
  create: {
    request: {
      ...oneSession,
      command: 'Fix the login page',
      priority: 5,
      labels: ['frontend'],
      retry: { base_seconds: 30 },
    },
    answer: { ...task, version: 1 },
  },
  add: {
    request: { project_id: 'site/web', command: 'Fix the login page' },
    answer: { ...task, version: 1 },
  },
  ready: { request: oneProject, answer: { items: [task], next_cursor: null } },
  claim: {
    request: { ...oneProject, wait: 20, skills: ['frontend'] },
    answer: { task: held, lease },
    client: `await stoa.tasks.claim('${project.id}', { wait: 20, skills: ['frontend'] })`,
    command: 'stoa tasks claim PROJECT',
  },
  get: { request: oneTask, answer: task },
  update: { request: { ...oneTask, priority: 9 }, answer: { ...task, priority: 9 } },
  delete: { request: oneTask },
  heartbeat: { request: { ...oneTask, fence: 7 }, answer: { lease: { ...lease, holder: 'builder' } } },
  complete: {
    request: { ...oneTask, fence: 7, output: 'The button was below the fold.' },
    answer: { ...ended, status: 'completed', output: 'The button was below the fold.' },
  },
  fail: {
    request: { ...oneTask, fence: 7, error: 'The tests do not pass.', retry: true },
    answer: { ...task, attempts: 1, reason: 'The tests do not pass.' },
  },
  ask: {
    request: { ...oneTask, fence: 7, question: asked.question, expires_seconds: 86_400 },
    answer: { ...held, status: 'input_required', ...asked },
  },
  answer: {
    request: { ...oneTask, answer: 'Yes, before noon.' },
    answer: {
      ...held,
      ...asked,
      answer: 'Yes, before noon.',
      answered_at: '2026-01-31T09:12:00.000Z',
      answered_by: 'ada',
    },
  },
  release: {
    request: { ...oneTask, reason: 'The agent hangs' },
    answer: { ...task, reason: 'The agent hangs' },
  },
  retry: {
    request: { ...oneTask, reason: 'The network is back' },
    answer: { ...task, reason: 'The network is back' },
  },
  cancel: {
    request: { ...oneTask, reason: 'No longer needed' },
    answer: { ...ended, status: 'cancelled', reason: 'No longer needed' },
  },
};
