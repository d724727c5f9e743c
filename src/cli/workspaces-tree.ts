/** The commands of workspaces: their words, options and examples. */
import type { CommandDefinition } from './definition.js';

const pageOptions = [
  ['--limit <n>', 'Items on a page'],
  ['--cursor <cursor>', 'Go on after the page that gave this cursor'],
] as const;
const versionOption = ['--if-version <n>', 'Only if this is still the version'] as const;
const idempotencyOption = [
  '--idempotency-key <key>',
  'A repeat with the same key makes no second one',
] as const;
const namedListOptions = [
  ['--status <status>', 'active, inactive or archived'],
  ['--name <name>', 'Only of this very name'],
  ['--path <path>', 'Only with this very path'],
  ['--deleted', 'Only the deleted ones'],
  ...pageOptions,
] as const;
const workspaceOptions = [
  ['--path <path>', 'Path of the project on disk'],
  ['--status <status>', 'active, inactive or archived'],
  ['--key-file <file>', 'File with the key to store encrypted; - reads standard input'],
] as const;
const projectOptions = [
  ['--path <path>', 'Path on disk'],
  ['--description <text>', 'What it is'],
  ['--git-url <url>', 'Where its repository is'],
  ['--git-branch <branch>', 'Its branch'],
  ['--language <language>', 'Its language'],
  ['--status <status>', 'active, inactive or archived'],
  ['--config-file <file>', 'File with the config as JSON; - reads standard input'],
] as const;
const resultOptions = [
  ['--fence <n>', 'The fencing number that the claim answered'],
  ['--output <text>', 'What the command printed'],
  ['--output-file <file>', 'File with what it printed; - reads standard input'],
] as const;

const workspaces = () => import('./commands/workspaces.js');
const projects = () => import('./commands/projects.js');
const sessions = () => import('./commands/sessions.js');
const tasks = () => import('./commands/tasks.js');

export const workspaceCommands: readonly CommandDefinition[] = [
  {
    usage: 'workspaces',
    about: 'Workspaces: what agents work on',
    examples: [
      'stoa workspaces create "My Project" --path /home/ada/project --user ada',
      'stoa workspaces ls --user ada',
    ],
    commands: [
      {
        usage: 'ls',
        about: 'List workspaces; without --user those of every user',
        options: namedListOptions,
        examples: ['stoa workspaces ls', 'stoa workspaces ls --deleted --json'],
        action: async () => (await workspaces()).ls,
      },
      {
        usage: 'get <id>',
        about: 'Show one workspace',
        options: [['--deleted', 'Also when it is deleted']],
        examples: ['stoa workspaces get ID --json'],
        action: async () => (await workspaces()).get,
      },
      {
        usage: 'create <name>',
        about: 'Make a workspace',
        options: [...workspaceOptions, idempotencyOption],
        examples: [
          'stoa workspaces create site --path /srv/site --user ada',
          'pass show claude | stoa workspaces create site --key-file - --user ada',
        ],
        action: async () => (await workspaces()).create,
      },
      {
        usage: 'update <id>',
        about: 'Change a workspace',
        options: [
          ['--name <name>', 'A new name'],
          ...workspaceOptions,
          ['--no-key', 'Forget the stored key'],
          versionOption,
        ],
        examples: ['stoa workspaces update ID --status archived'],
        action: async () => (await workspaces()).update,
      },
      {
        usage: 'rm <id>',
        about: 'Delete a workspace; it can be restored',
        options: [versionOption],
        examples: ['stoa workspaces rm ID'],
        action: async () => (await workspaces()).rm,
      },
      {
        usage: 'restore <id>',
        about: 'Bring a deleted workspace back',
        options: [['--name <name>', 'A new name, where the old one was taken']],
        examples: ['stoa workspaces restore ID'],
        action: async () => (await workspaces()).restore,
      },
      {
        usage: 'purge <id>',
        about: 'Remove a deleted workspace for good, with all that is in it',
        options: [versionOption],
        examples: ['stoa workspaces purge ID'],
        action: async () => (await workspaces()).purge,
      },
    ],
  },
  {
    usage: 'projects',
    about: 'Projects of workspaces',
    examples: ['stoa projects create WORKSPACE api --language go', 'stoa projects ls WORKSPACE'],
    commands: [
      {
        usage: 'ls <workspace>',
        about: 'List the projects of a workspace',
        options: namedListOptions,
        examples: ['stoa projects ls WORKSPACE'],
        action: async () => (await projects()).ls,
      },
      {
        usage: 'get <id>',
        about: 'Show one project',
        options: [['--deleted', 'Also when it is deleted']],
        examples: ['stoa projects get ID --json'],
        action: async () => (await projects()).get,
      },
      {
        usage: 'create <workspace> <name>',
        about: 'Make a project',
        options: [...projectOptions, idempotencyOption],
        examples: ['stoa projects create WORKSPACE api --git-url https://example.org/api.git'],
        action: async () => (await projects()).create,
      },
      {
        usage: 'update <id>',
        about: 'Change a project, or move it',
        options: [
          ['--name <name>', 'A new name'],
          ['--workspace <id>', 'Move it to this workspace of the same owner'],
          ...projectOptions,
          versionOption,
        ],
        examples: ['stoa projects update ID --git-branch main'],
        action: async () => (await projects()).update,
      },
      {
        usage: 'rm <id>',
        about: 'Delete a project; it can be restored',
        options: [versionOption],
        examples: ['stoa projects rm ID'],
        action: async () => (await projects()).rm,
      },
      {
        usage: 'restore <id>',
        about: 'Bring a deleted project back',
        options: [['--name <name>', 'A new name, where the old one was taken']],
        examples: ['stoa projects restore ID'],
        action: async () => (await projects()).restore,
      },
      {
        usage: 'purge <id>',
        about: 'Remove a deleted project for good',
        options: [versionOption],
        examples: ['stoa projects purge ID'],
        action: async () => (await projects()).purge,
      },
    ],
  },
  {
    usage: 'sessions',
    about: 'Work sessions of projects: one active at a time',
    examples: ['stoa sessions create PROJECT --start', 'stoa sessions active PROJECT'],
    commands: [
      {
        usage: 'ls <project>',
        about: 'List the sessions of a project',
        options: [['--status <status>', 'Only in this status'], ...pageOptions],
        examples: ['stoa sessions ls PROJECT --status active'],
        action: async () => (await sessions()).ls,
      },
      {
        usage: 'get <id>',
        about: 'Show one session',
        examples: ['stoa sessions get ID --json'],
        action: async () => (await sessions()).get,
      },
      {
        usage: 'active <project>',
        about: 'Show the session that holds the active slot',
        examples: ['stoa sessions active PROJECT'],
        action: async () => (await sessions()).active,
      },
      {
        usage: 'create <project>',
        about: 'Make a session',
        options: [
          ['--start', 'Start it at once'],
          ['--takeover', 'End the session that holds the active slot'],
          ['--process-id <pid>', 'The process it runs in'],
          ['--max-idle <duration>', 'End it after this time without activity'],
          ['--max-lifetime <duration>', 'End it after this time'],
          idempotencyOption,
        ],
        examples: [
          'stoa sessions create PROJECT --start --takeover',
          'stoa sessions create PROJECT --max-idle 10m',
        ],
        action: async () => (await sessions()).create,
      },
      {
        usage: 'move <id> <status>',
        about: 'Move a session to another status',
        options: [['--takeover', 'With active: end the session that holds the slot'], versionOption],
        examples: ['stoa sessions move ID active', 'stoa sessions move ID ending'],
        action: async () => (await sessions()).move,
      },
      {
        usage: 'rm <id>',
        about: 'Remove a session with its tasks',
        options: [versionOption],
        examples: ['stoa sessions rm ID'],
        action: async () => (await sessions()).rm,
      },
    ],
  },
  {
    usage: 'tasks',
    about: 'Tasks: claimed by one agent at a time',
    examples: [
      'stoa tasks create SESSION "go test ./..."',
      'stoa tasks claim PROJECT --wait 30s --agent worker-1',
    ],
    commands: [
      {
        usage: 'ls <session>',
        about: 'List the tasks of a session',
        options: [['--status <status>', 'Only in this status'], ...pageOptions],
        examples: ['stoa tasks ls SESSION --status failed'],
        action: async () => (await tasks()).ls,
      },
      {
        usage: 'ready <project>',
        about: 'List what could be claimed now, in order',
        options: pageOptions,
        examples: ['stoa tasks ready PROJECT'],
        action: async () => (await tasks()).ready,
      },
      {
        usage: 'get <id>',
        about: 'Show one task',
        examples: ['stoa tasks get ID --json'],
        action: async () => (await tasks()).get,
      },
      {
        usage: 'create <session> <command>',
        about: 'Make a task',
        options: [
          ['--priority <n>', 'Higher ones are claimed first; may be negative'],
          ['--after <task>', 'A task that must be completed first; may be given more than once', 'many'],
          ['--max-attempts <n>', 'Attempts before it fails'],
          idempotencyOption,
        ],
        examples: [
          'stoa tasks create SESSION "make test" --priority 5',
          'stoa tasks create SESSION "make deploy" --after TASK',
        ],
        action: async () => (await tasks()).create,
      },
      {
        usage: 'update <id>',
        about: 'Change a pending task',
        options: [
          ['--command <text>', 'Another command'],
          ['--priority <n>', 'Another priority'],
          ['--max-attempts <n>', 'Attempts before it fails'],
          versionOption,
        ],
        examples: ['stoa tasks update ID --priority 10'],
        action: async () => (await tasks()).update,
      },
      {
        usage: 'rm <id>',
        about: 'Remove a task; unless it was completed, what depends on it is cancelled',
        options: [versionOption],
        examples: ['stoa tasks rm ID'],
        action: async () => (await tasks()).rm,
      },
      {
        usage: 'claim <project>',
        about: 'Claim the first ready task',
        options: [
          ['--wait <duration>', 'Wait this long for one'],
          ['--lease <duration>', 'Hold it this long without a heartbeat'],
        ],
        examples: ['stoa tasks claim PROJECT --wait 30s --json'],
        action: async () => (await tasks()).claim,
      },
      {
        usage: 'heartbeat <id>',
        about: 'Renew the lease of a claim',
        options: [['--fence <n>', 'The fencing number that the claim answered']],
        examples: ['stoa tasks heartbeat ID --fence 1'],
        action: async () => (await tasks()).heartbeat,
      },
      {
        usage: 'complete <id>',
        about: 'Report the result',
        options: resultOptions,
        examples: ['stoa tasks complete ID --fence 1 --output done'],
        action: async () => (await tasks()).complete,
      },
      {
        usage: 'fail <id>',
        about: 'Report a failure',
        options: [
          ...resultOptions,
          ['--error <text>', 'What went wrong'],
          ['--retry', 'Give it back while it has attempts left'],
        ],
        examples: ['stoa tasks fail ID --fence 1 --error "no network" --retry'],
        action: async () => (await tasks()).fail,
      },
      {
        usage: 'cancel <id>',
        about: 'End a task that is not over',
        options: [['--reason <text>', 'Why']],
        examples: ['stoa tasks cancel ID --reason "not needed"'],
        action: async () => (await tasks()).cancel,
      },
    ],
  },
  {
    usage: 'secrets',
    about: 'How secrets are encrypted',
    examples: ['stoa secrets rekey'],
    commands: [
      {
        usage: 'rekey',
        about: 'Make a new key and re-encrypt every secret with it',
        examples: ['stoa secrets rekey --json'],
        action: async () => (await import('./commands/secrets.js')).rekey,
      },
    ],
  },
];
