/** Commands of workspaces, projects, work sessions and tasks. */
import { sessionStatuses, taskStatuses, workspaceStatuses } from '../../workspaces/model.js';
import { type CommandHints, type FlagHint, inStatus, pageFlags } from '../command.js';
import type { projects, sessions, tasks, workspaces } from './operations.js';

const status = ['status', '--status <status>', workspaceStatuses.join(', ')] as const;
const newName = ['name', '--name <name>', 'A new name'] as const;
const namedList = [
  status,
  ['name', '--name <name>', 'Only with exactly this name'],
  ['path', '--path <path>', 'Only with exactly this path'],
  ['deleted', '--deleted', 'Only deleted records', 'yes'],
  ...pageFlags,
] as const satisfies readonly FlagHint[];
const alsoDeleted = ['deleted', '--deleted', 'Show it also if it is deleted', 'yes'] as const;
const otherName = ['name', '--name <name>', 'A new name, if the old name is taken'] as const;

const workspaceFlags = [
  ['project_path', '--path <path>', 'Path of the project on disk'],
  status,
  // The key comes from a file or standard input, because other processes on the machine can read arguments.
  [
    'claude_key',
    '--key-file <file>',
    'File with the key to store encrypted; - reads standard input',
    'secret',
  ],
] as const satisfies readonly FlagHint[];

export const workspaceCommands = {
  list: {
    usage: 'ls',
    about: 'List workspaces; without --user, those of all users',
    flags: namedList,
    examples: ['stoa workspaces ls', 'stoa workspaces ls --deleted --json'],
    table: {
      columns: {
        ID: 'id',
        NAME: 'name',
        STATUS: 'status',
        TASKS: 'active_tasks',
        OWNER: 'owner_id',
        UPDATED: 'updated_at',
      },
      empty: 'No workspaces. Create one with: stoa workspaces create NAME',
    },
  },
  get: {
    usage: 'get <workspace_id>',
    about: 'Show one workspace',
    flags: [alsoDeleted],
    examples: ['stoa workspaces get ID --json'],
  },
  create: {
    usage: 'create <name>',
    flags: workspaceFlags,
    makesStore: true,
    examples: [
      'stoa workspaces create site --path /srv/site --user ada',
      'pass show claude | stoa workspaces create site --key-file - --user ada',
    ],
  },
  update: {
    usage: 'update <workspace_id>',
    flags: [newName, ...workspaceFlags, ['claude_key', '--no-key', 'Delete the stored key', 'none']],
    examples: ['stoa workspaces update ID --status archived'],
  },
  delete: {
    usage: 'rm <workspace_id>',
    about: 'Delete a workspace; it can be restored',
    examples: ['stoa workspaces rm ID'],
    done: [
      'deleted',
      'workspace_id',
      'Deleted {workspace_id}. Restore it with: stoa workspaces restore {workspace_id}',
    ],
  },
  restore: {
    usage: 'restore <workspace_id>',
    flags: [otherName],
    examples: ['stoa workspaces restore ID'],
  },
  purge: {
    usage: 'purge <workspace_id>',
    examples: ['stoa workspaces purge ID'],
    done: ['purged', 'workspace_id', 'Purged {workspace_id}.'],
  },
} satisfies CommandHints<typeof workspaces>;

const projectFlags = [
  ['path', '--path <path>', 'Path on disk'],
  ['description', '--description <text>', 'A description'],
  ['git_url', '--git-url <url>', 'The URL of the repository'],
  ['git_branch', '--git-branch <branch>', 'The branch of the repository'],
  ['language', '--language <language>', 'The programming language'],
  status,
  ['config', '--config-file <file>', 'File with the config as JSON; - reads standard input', 'json'],
] as const satisfies readonly FlagHint[];

export const projectCommands = {
  list: {
    usage: 'ls <workspace_id>',
    flags: namedList,
    examples: ['stoa projects ls WORKSPACE'],
    table: {
      columns: {
        ID: 'id',
        NAME: 'name',
        STATUS: 'status',
        LANGUAGE: 'language',
        PATH: 'path',
        UPDATED: 'updated_at',
      },
      empty: 'No projects. Create one with: stoa projects create {workspace_id} NAME',
    },
  },
  get: {
    usage: 'get <project_id>',
    about: 'Show one project',
    flags: [alsoDeleted],
    examples: ['stoa projects get ID --json'],
  },
  create: {
    usage: 'create <workspace_id> <name>',
    about: 'Create a project',
    flags: projectFlags,
    examples: ['stoa projects create WORKSPACE api --git-url https://example.org/api.git'],
  },
  update: {
    usage: 'update <project_id>',
    about: 'Change a project, or move it to another workspace',
    flags: [
      newName,
      ['workspace_id', '--workspace <id>', 'Move it to this workspace of the same owner'],
      ...projectFlags,
    ],
    examples: ['stoa projects update ID --git-branch main'],
  },
  delete: {
    usage: 'rm <project_id>',
    about: 'Delete a project; it can be restored',
    examples: ['stoa projects rm ID'],
    done: [
      'deleted',
      'project_id',
      'Deleted {project_id}. Restore it with: stoa projects restore {project_id}',
    ],
  },
  restore: { usage: 'restore <project_id>', flags: [otherName], examples: ['stoa projects restore ID'] },
  purge: {
    usage: 'purge <project_id>',
    examples: ['stoa projects purge ID'],
    done: ['purged', 'project_id', 'Purged {project_id}.'],
  },
} satisfies CommandHints<typeof projects>;

export const sessionCommands = {
  list: {
    usage: 'ls <project_id>',
    flags: [inStatus(sessionStatuses), ...pageFlags],
    examples: ['stoa sessions ls PROJECT --status active'],
    table: {
      columns: {
        ID: 'id',
        STATUS: 'status',
        AGENT: 'agent_id',
        COMMANDS: 'command_count',
        ERRORS: 'error_count',
        LAST_ACTIVE: 'last_active',
      },
      empty: 'No sessions.',
    },
  },
  get: {
    usage: 'get <session_id>',
    about: 'Show one session',
    examples: ['stoa sessions get ID --json'],
  },
  active: {
    usage: 'active <project_id>',
    about: 'Show the session that holds the active slot',
    examples: ['stoa sessions active PROJECT'],
  },
  create: {
    usage: 'create <project_id>',
    about: 'Create a session',
    flags: [
      ['status', '--start', 'Start the session at once', { is: 'active' }],
      ['takeover', '--takeover', 'End the session that holds the active slot', 'yes'],
      ['process_id', '--process-id <pid>', 'The id of the process that runs the session', 'number'],
      [
        'max_idle_time',
        '--max-idle <duration>',
        'End the session after this time without activity (default: 30m)',
        'duration',
      ],
      [
        'max_lifetime',
        '--max-lifetime <duration>',
        'End the session after this time (default: 1d)',
        'duration',
      ],
    ],
    examples: [
      'stoa sessions create PROJECT --start --takeover',
      'stoa sessions create PROJECT --max-idle 10m',
    ],
  },
  update: {
    usage: 'move <session_id> <status>',
    about: `Move a session to another status: ${sessionStatuses.slice(1).join(', ')}`,
    flags: [['takeover', '--takeover', 'With active: end the session that holds the slot', 'yes']],
    examples: ['stoa sessions move ID active', 'stoa sessions move ID ending'],
  },
  delete: {
    usage: 'rm <session_id>',
    examples: ['stoa sessions rm ID'],
    done: ['deleted', 'session_id', 'Removed {session_id} and its tasks.'],
  },
} satisfies CommandHints<typeof sessions>;

const taskTable = {
  ID: 'id',
  STATUS: 'status',
  PRI: 'priority',
  TRIES: 'attempts',
  HOLDER: 'claimed_by',
  COMMAND: 'command',
};
/** Of all projects. More columns would cut the ids on 80 columns. */
const everyTaskTable = {
  ID: 'id',
  PROJECT: 'project_id',
  STATUS: 'status',
  HOLDER: 'claimed_by',
  COMMAND: 'command',
  LABELS: 'labels',
};
const schedule = [
  ['run_at', '--run-at <time>', 'Start not before this time, such as 2030-01-31T12:00:00Z'],
  [
    'retry.base_seconds',
    '--retry-base <duration>',
    'Pause after the first failed attempt; each later pause is twice as long',
    'duration',
  ],
  ['retry.max_seconds', '--retry-max <duration>', 'The longest pause between attempts', 'duration'],
] as const satisfies readonly FlagHint[];
const labels = ['labels', '--label <label>', 'A label; can be repeated', 'many'] as const;
const fence = ['fence', '--fence <n>', 'The fencing number from the claim', 'needed'] as const;
const resultFlags = [
  fence,
  ['output', '--output <text>', 'The output of the command'],
  ['output', '--output-file <file>', 'File with the output; - reads standard input', 'file'],
] as const satisfies readonly FlagHint[];

const reason = ['reason', '--reason <text>', 'The reason, which is stored in the task'] as const;
const newTask = [
  ['priority', '--priority <n>', 'A task with a higher priority is claimed first; can be negative', 'signed'],
  ['depends_on', '--after <task>', 'A task that must be completed first; can be repeated', 'many'],
  ['max_attempts', '--max-attempts <n>', 'Attempts before the task fails (default: 3)', 'number'],
  labels,
  ...schedule,
] as const satisfies readonly FlagHint[];

/** `claim` is not derived: its exit status reports that no task is ready. */
export const taskCommands = {
  list: {
    usage: 'ls',
    about: 'List tasks of all projects; without --user, those of all users',
    flags: [
      inStatus(taskStatuses),
      ['holder', '--holder <agent>', 'Only tasks that this agent holds now'],
      ['project', '--project <id>', 'Only tasks of this project'],
      ['label', '--label <label>', 'Only tasks with this label'],
      ...pageFlags,
    ],
    examples: ['stoa tasks ls --status running', 'stoa tasks ls --holder worker-1 --label gpu --json'],
    table: { columns: everyTaskTable, empty: 'No tasks.', names: { project_id: 'projects.get' } },
  },
  inSession: {
    usage: 'in <session_id>',
    flags: [inStatus(taskStatuses), ...pageFlags],
    examples: ['stoa tasks in SESSION --status failed'],
    table: { columns: taskTable, empty: 'No tasks.' },
  },
  ready: {
    usage: 'ready <project_id>',
    about: 'List the tasks that can be claimed now, in order',
    flags: pageFlags,
    examples: ['stoa tasks ready PROJECT'],
    table: { columns: taskTable, empty: 'Nothing is ready.' },
  },
  get: { usage: 'get <task_id>', about: 'Show one task', examples: ['stoa tasks get ID --json'] },
  add: {
    usage: 'add <project_id> <command>',
    about: 'Add a task to a project; a new name makes the project',
    flags: newTask,
    makesStore: true,
    examples: [
      'stoa tasks add shop "Write the migration"',
      'stoa tasks add acme/shop "make test" --label gpu',
    ],
  },
  create: {
    usage: 'create <session_id> <command>',
    flags: newTask,
    examples: [
      'stoa tasks create SESSION "make test" --priority 5 --label gpu',
      'stoa tasks create SESSION "make deploy" --after TASK',
    ],
  },
  update: {
    usage: 'update <task_id>',
    about: 'Change a pending task',
    flags: [
      ['command', '--command <text>', 'The new command'],
      ['priority', '--priority <n>', 'The new priority', 'signed'],
      ['max_attempts', '--max-attempts <n>', 'Attempts before the task fails', 'number'],
      ['labels', '--label <label>', 'A label, instead of all labels before; can be repeated', 'many'],
      ...schedule,
      ['run_at', '--no-run-at', 'Remove the start time', 'none'],
    ],
    examples: ['stoa tasks update ID --priority 10'],
  },
  delete: {
    usage: 'rm <task_id>',
    examples: ['stoa tasks rm ID'],
    done: ['deleted', 'task_id', 'Removed {task_id}.'],
  },
  heartbeat: {
    usage: 'heartbeat <task_id>',
    flags: [fence],
    examples: ['stoa tasks heartbeat ID --fence 1'],
    shows: 'lease',
  },
  complete: {
    usage: 'complete <task_id>',
    about: 'Report that a claimed task is completed, with its result',
    flags: resultFlags,
    examples: ['stoa tasks complete ID --fence 1 --output done'],
  },
  fail: {
    usage: 'fail <task_id>',
    about: 'Report that a claimed task failed',
    flags: [
      ...resultFlags,
      ['error', '--error <text>', 'What went wrong'],
      ['retry', '--retry', 'Return the task to the queue if it has attempts left', 'yes'],
    ],
    examples: ['stoa tasks fail ID --fence 1 --error "no network" --retry'],
  },
  ask: {
    usage: 'ask <task_id> <question>',
    about: 'Ask a person; the task waits for the answer',
    flags: [
      fence,
      [
        'expires_seconds',
        '--expires <duration>',
        'The task fails without an answer in this time (default: 1d)',
        'duration',
      ],
      ['release', '--release', 'Give up the claim: after the answer, any agent can claim the task', 'yes'],
    ],
    examples: ['stoa tasks ask ID "Deploy to production?" --fence 1 --expires 2h'],
  },
  answer: {
    usage: 'answer <task_id> <answer>',
    about: 'Answer the question of a task',
    examples: ['stoa tasks ls --status input_required', 'stoa tasks answer ID "Yes, after 18:00."'],
  },
  release: {
    usage: 'release <task_id>',
    about: 'Take a task from its holder and return it to the queue',
    flags: [reason],
    examples: ['stoa tasks release ID --reason "the agent hangs"'],
  },
  retry: {
    usage: 'retry <task_id>',
    about: 'Return a task that failed or was cancelled to the queue',
    flags: [reason],
    examples: ['stoa tasks ls --status failed', 'stoa tasks retry ID --reason "the network is back"'],
  },
  cancel: {
    usage: 'cancel <task_id>',
    about: 'Cancel a task that has not ended',
    flags: [reason],
    examples: ['stoa tasks cancel ID --reason "not needed"'],
  },
} satisfies CommandHints<typeof tasks>;
