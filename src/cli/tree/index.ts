/** The definitions of all commands. The code of each is loaded only when it runs. */
import {
  type SettingName,
  flagOf,
  settingNames,
  settings,
  variableOf,
} from '../../core/settings/settings.js';
import { changeCommands } from '../../api/feed/commands.js';
import {
  agentCommands,
  agentSessionCommands,
  tokenCommands,
  userCommands,
} from '../../api/registry/commands.js';
import { type CommandDefinition, withDetails } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';
import { connectedDirectory } from '../editors/directory.js';
import { backupCommands } from './backup.js';
import { dataCommands } from './data.js';
import { findCommands } from './find.js';
import { lockCommands } from './locks.js';
import { messagingCommands } from './messaging.js';
import { pageOptions } from './options.js';
import { watchCommands } from './watch.js';
import { workspaceCommands } from './workspaces.js';

/** The flags of every setting, without those that all commands have. */
const settingOptions = settingNames
  .filter((name) => name !== 'data')
  .map(
    (name) =>
      [
        `${flagOf(name)} ${settings[name].type.about === 'true or false' ? '[on]' : '<value>'}`,
        withDetails(settings[name].about, detailsOf(name)),
      ] as const,
  );

/** The values that a setting accepts, its default and its variable. */
function detailsOf(name: SettingName): string[] {
  const { type, default: fallback } = settings[name];
  return [
    ...(type.about === 'text' ? [] : [type.about]),
    ...(fallback === null || typeof fallback === 'object' ? [] : [`default: ${fallback}`]),
    `env: ${variableOf(name)}`,
  ];
}

export const commandTree: readonly CommandDefinition[] = [
  {
    usage: 'up',
    about: 'Run the server in the foreground',
    options: [
      ...settingOptions,
      ['--stop-when-idle', 'Stop after ten minutes without a client, as a server that "stoa mcp" starts'],
      ['--dry-run', 'With --postgres: print what a start would add to the databases, and change nothing'],
    ],
    examples: [
      'stoa up',
      'stoa up --data ./data --port 9000',
      'stoa up --postgres postgres://stoa@db/stoa --redis redis://cache --dry-run',
      'STOA_PORT=0 stoa up --json',
    ],
    action: async () => (await import('../commands/server/up.js')).up,
  },
  {
    usage: 'down',
    about: 'Stop the server of the data directory when its running requests are done',
    examples: ['stoa down', 'stoa down --data ~/stoa'],
    action: async () => (await import('../commands/server/down.js')).down,
  },
  {
    usage: 'mcp',
    about: 'Serve MCP on stdin and stdout, for editors and agents; starts a server if none runs',
    options: [['--scope <name>', 'The repository whose memory, tasks and locks the calls use by default']],
    examples: [
      'stoa mcp --data ~/stoa --agent scout',
      'stoa mcp --url https://stoa.example.org --token TOKEN',
    ],
    action: async () => (await import('../commands/server/mcp.js')).mcp,
  },
  {
    usage: 'connect <program>',
    about:
      'Print the MCP configuration for claude-code, claude-desktop, cursor, vscode, windsurf, gemini or codex; agents-md prints the instructions for an agent',
    options: [
      ['--write', 'Write the configuration into the files of the program, and keep a copy of each file'],
      ['--dry-run', 'Print which files would change'],
      ['--remove', 'Remove what this command wrote'],
      ['--global', "The user's file instead of the project's, if the program has both"],
      ['--http', 'Use the URL of the running server, with the token from STOA_TOKEN'],
    ],
    dataDefault: `~/${connectedDirectory}`,
    examples: [
      'stoa connect claude-code --write',
      'stoa connect cursor --agent scout',
      'stoa connect vscode --url https://stoa.example.org',
      'stoa connect agents-md --write',
    ],
    action: async () => (await import('../commands/server/connect.js')).connect,
  },
  {
    usage: 'hook <event>',
    about: 'Print what an agent should know at an event of its program: start, prompt or tool',
    options: [
      ['--scope <name>', 'The repository, as in "stoa mcp --scope"'],
      ['--program <name>', 'Answer as this program reads it: gemini, codex or cursor (default: plain text)'],
    ],
    examples: ['stoa hook start --scope acme/shop', 'stoa hook start --program cursor'],
    action: async () => (await import('../commands/hook.js')).hook,
  },
  {
    usage: 'status',
    about: 'Show the status of the server and its store',
    examples: ['stoa status', 'stoa status --json | jq .position'],
    action: async () => (await import('../commands/server/status.js')).status,
  },
  {
    usage: 'console',
    about: 'Open the console in a browser with a one-time sign-in link; --user signs in as that user',
    options: [['--print', 'Only print the link']],
    examples: ['stoa console', 'stoa console --print', 'stoa console --user ada --print'],
    action: async () => (await import('../commands/server/console.js')).console,
  },
  {
    usage: 'agents',
    about: 'The registry of agents',
    examples: ['stoa agents create scout --label team=blue --user ada', 'stoa agents ls --status running'],
    commands: [
      ...derivedCommands('agents', agentCommands),
      {
        usage: 'sessions',
        about: 'Sessions of an agent',
        examples: ['stoa agents sessions open scout', 'stoa agents sessions ls scout --status active'],
        commands: derivedCommands('agents', agentSessionCommands),
      },
    ],
  },
  ...dataCommands,
  ...workspaceCommands,
  ...lockCommands,
  ...messagingCommands,
  ...findCommands,
  {
    usage: 'users',
    about: 'Users of this server',
    examples: ['stoa users ls', 'stoa users set ada --agents-max 50'],
    commands: derivedCommands('users', userCommands),
  },
  {
    usage: 'token',
    about: 'Bearer tokens of users',
    examples: ['stoa token create --user ada --name laptop', 'stoa token revoke TOKEN_ID --user ada'],
    commands: derivedCommands('tokens', tokenCommands),
  },
  ...derivedCommands('changes', changeCommands),
  ...watchCommands,
  ...backupCommands,
  {
    usage: 'inspect [family]',
    about: 'List the families of the store with counts and sizes, or the raw entries of one family',
    options: [['--prefix <hex>', 'Only keys that begin with these bytes'], ...pageOptions],
    examples: ['stoa inspect', 'stoa inspect agents --json', 'stoa inspect registry/sessions --limit 5'],
    action: async () => (await import('../commands/storage/inspect.js')).inspect,
  },
  {
    usage: 'doctor',
    about: 'Check all stored data for damage; the exit status is 1 if damage remains',
    options: [
      ['--repair', 'Repair what can be repaired'],
      ['--accept-loss', 'Continue although acknowledged transactions are missing from a database'],
    ],
    examples: ['stoa doctor', 'stoa doctor --repair --json', 'stoa doctor --accept-loss --data ./data'],
    action: async () => (await import('../commands/storage/doctor.js')).doctor,
  },
  {
    usage: 'reshard',
    about: 'Copy a data directory that no server uses into a new one with another number of shards',
    options: [
      ['--from <directory>', 'The existing directory (default: --data)'],
      ['--to <directory>', 'The directory to create'],
      ['--shards <n>', 'Shards of the new directory, 1 to 256'],
    ],
    examples: ['stoa reshard --from ./data --to ./data-8 --shards 8'],
    action: async () => (await import('../commands/storage/reshard.js')).reshard,
  },
  {
    usage: 'completion <shell>',
    about: 'Print the script that completes commands and flags in bash, zsh or fish',
    examples: [
      'eval "$(stoa completion bash)"',
      'stoa completion zsh > "${fpath[1]}/_stoa"',
      'stoa completion fish > ~/.config/fish/completions/stoa.fish',
    ],
    action: async () => (await import('../commands/server/completion.js')).completion,
  },
  {
    usage: 'config',
    about: 'List every setting with its value and the source of the value',
    options: settingOptions,
    examples: ['stoa config', 'STOA_PORT=9000 stoa config --json'],
    action: async () => (await import('../commands/server/config.js')).config,
  },
];
