#!/usr/bin/env node
/** The `stoa` program: parses the command line, runs one command, and exits with the status of its error. */
import { Command, CommanderError, Option } from 'commander';
import { clientVariables, loadConfig } from '../core/settings/config.js';
import { StoaError, messageOf } from '../core/errors.js';
import { version } from '../version.js';
import { type AbsentStore, type Connection, connect } from './connection/connection.js';
import { type ActsAs, type CommandDefinition, type Options, textOption } from './definitions/definition.js';
import { Output } from './output/output.js';
import { ShownIds } from './output/short-ids.js';
import { settingFlags } from './definitions/setting-flags.js';
import { commandWith } from './definitions/suggest.js';
import { commandTree } from './tree/index.js';

const usageExit = 2;
/** The names of arguments that are ids. */
const idArguments = /_id$|^(agent|id|ids|identity|message|project|room|session|task|to|token|workspace)$/;
/** How long a finished command waits for its output to be read. */
const outputMsMax = 10_000;

/** Options of every command. */
const globalOptions = [
  new Option('--json', 'Print JSON for programs'),
  new Option('--wide', 'Print tables with whole ids, exact times and uncut texts'),
  new Option('--data <directory>', 'Data directory (default: ./data, env: STOA_DATA)'),
  new Option('--config <file>', 'Configuration file (default: ./stoa.config.json)').env('STOA_CONFIG'),
  new Option('--url <url>', 'URL of a running server, instead of the server of the data directory').env(
    'STOA_URL',
  ),
  new Option(
    '--token <token>',
    'Bearer token; prefer STOA_TOKEN, which other users of the machine cannot see',
  ).env('STOA_TOKEN'),
  new Option('--user <user>', 'The user whose data the command acts on').env('STOA_USER'),
  new Option('--agent <name>', 'The agent that acts; its first write makes the agent').env('STOA_AGENT'),
];

const program = new Command('stoa')
  .description('The state plane for AI agents: shared data, registry, workspaces and messaging.')
  .version(version, '--version', 'Print the version')
  .helpOption('-h, --help', 'Show this help')
  .helpCommand('help [command]', 'Show the help of a command')
  .configureHelp({ showGlobalOptions: true, subcommandTerm: termOf })
  .configureOutput({ outputError: (text, write) => write(usageText(text)) })
  .showSuggestionAfterError()
  .exitOverride();
for (const option of globalOptions) program.addOption(option);
addCommands(program, commandTree);
program.addHelpText(
  'after',
  examplesText(['stoa up', 'stoa data set plan "ship it" --agent scout', 'stoa watch changes']),
);

// A reader that closes stdout early (`| head`) is not a failure, and a closed stderr must not end a server.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});
// A stderr on a full disk must not end it either; there is no other place to report this.
process.stderr.on('error', () => undefined);

// The engines create files at any time; only the owner may read them.
process.umask(0o077);

// As for settings: shells and compose files write an empty variable for "not set".
for (const name of clientVariables) if (process.env[name] === '') delete process.env[name];

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = error instanceof CommanderError ? (error.exitCode === 0 ? 0 : usageExit) : report(error);
}

// Everything is done and closed. A database driver may retry a silent server for minutes, so the process
// waits only for its output, and only for a limited time.
const outputDeadlineMs = Date.now() + outputMsMax;
setInterval(() => {
  const waiting = process.stdout.writableLength + process.stderr.writableLength;
  if (waiting === 0 || Date.now() > outputDeadlineMs) process.exit();
}, 1_000).unref();

function addCommands(parent: Command, definitions: readonly CommandDefinition[]): void {
  for (const definition of definitions) {
    const command = parent
      .command(shownUsage(definition.usage))
      .description(definition.about)
      .helpOption('-h, --help', 'Show this help')
      .showSuggestionAfterError();
    for (const [flags, about, many] of definition.options ?? []) {
      const [, name = ''] = /<(\w+)>/.exec(flags) ?? [];
      const read = (value: string): string => (idArguments.test(name) ? new ShownIds().whole(value) : value);
      if (many === undefined) command.option(flags, about, read);
      else
        command.option(flags, about, (value: string, before: readonly string[] = []) => [
          ...before,
          read(value),
        ]);
    }
    if (definition.examples !== undefined) command.addHelpText('after', examplesText(definition.examples));
    if (definition.commands !== undefined) addCommands(command, definition.commands);
    const { action } = definition;
    // The last two arguments from commander are the options and the command.
    if (action !== undefined)
      command.action((...given: unknown[]) =>
        run(action, wholeIds(definition.usage, given.slice(0, -2)), command),
      );
  }
}

/** A field that takes an id takes a name too, so the help shows `<agent>` for the field `agent_id`. */
function shownUsage(usage: string): string {
  return usage.replaceAll(/_id(?=[>\]])/g, '');
}

/** A command in a list of commands. Without "[options]" every line fits 80 columns. */
function termOf(command: Command): string {
  const args = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
    return argument.required ? `<${name}>` : `[${name}]`;
  });
  return [command.name(), ...args].join(' ');
}

/** Arguments that are ids, with short ids from a table made whole. The last argument may be a list. */
function wholeIds(usage: string, given: readonly unknown[]): string[] {
  const shown = new ShownIds();
  const names = Array.from(usage.matchAll(/[<[](\w+)/g), ([, name]) => name as string);
  const whole = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(whole) : typeof value === 'string' ? shown.whole(value) : value;
  // Commander gives a text for an argument, or a list of texts for the last one.
  return given.map((value, at) => (idArguments.test(names[at] ?? '') ? whole(value) : value)) as string[];
}

async function run(
  load: NonNullable<CommandDefinition['action']>,
  args: readonly string[],
  command: Command,
): Promise<void> {
  const globals: Options = program.opts();
  const output = new Output({ json: globals['json'] === true, wide: globals['wide'] === true });
  const opened: Connection[] = [];
  const connectNow = async (absent: AbsentStore = 'refused', as: ActsAs = {}): Promise<Connection> => {
    const connection = await connect({
      absent,
      onCreation: (directory) => {
        if (!output.json) output.say(`Created a new store in ${directory}.`);
      },
      url: textOption(globals, 'url'),
      token: textOption(globals, 'token'),
      user: textOption(globals, 'user') ?? as.user,
      agent: as.agent ?? textOption(globals, 'agent'),
      loadConfig: () => loadConfig({ flags: settingFlags(globals), environment: process.env }).config,
    });
    opened.push(connection);
    return connection;
  };
  const action = await load();
  try {
    await action({ output, globals, connect: connectNow }, args, command.opts());
  } finally {
    for (const connection of opened) await connection.close();
  }
}

/** Prints the error and returns the exit status. */
function report(thrown: unknown): number {
  const error =
    thrown instanceof StoaError ? thrown : new StoaError('internal', messageOf(thrown), { cause: thrown });
  new Output({ json: program.opts()['json'] === true }).error(error);
  // A fault in Stoa needs its stack trace; a refused request does not.
  if (error.code === 'internal' && thrown instanceof Error) process.stderr.write(`${thrown.stack}\n`);
  return error.exit;
}

/** Commander's errors in the format of Stoa's errors. */
function usageText(text: string): string {
  const [, unknown] = /unknown command '(.+?)'/.exec(text) ?? [];
  const meant = unknown === undefined ? undefined : commandWith(unknown, process.argv.slice(2), commandTree);
  // Commander suggests similar spellings, which is less useful than the same words in another order.
  const sentence = plainUsage(meant === undefined ? text : text.replace(/\(Did you mean .*\)/, ''));
  const fix =
    meant === undefined
      ? '"--help" after a command shows its options and examples.'
      : `Use "stoa ${meant}"; "stoa ${meant} --help" shows its options and examples.`;
  if (program.opts()['json'] === true || process.argv.includes('--json'))
    return `${JSON.stringify({ code: 'invalid_request', title: 'The command line is not valid', detail: sentence, fix })}\n`;
  return `error ${sentence}\nfix   ${fix}\n`;
}

/** Commander's words as sentences: `Unknown command "dat". Did you mean "data"?` */
function plainUsage(text: string): string {
  return text
    .trim()
    .replace(/^error: /, '')
    .replace(/^unknown (command|option) '(.*?)'/, 'Unknown $1 "$2".')
    .replace(/^missing required argument '(.*?)'/, 'The argument <$1> is missing.')
    .replace(/^option '(.*?)' argument missing/, 'The option $1 has no value.')
    .replace(
      /^too many arguments(?: for '(.*?)')?\. Expected (\d+) arguments? but got (\d+)\.?/,
      'Too many arguments: expected $2, got $3.',
    )
    .replace(
      /\s*\(Did you mean (?:one of )?(.*?)\?\)/,
      (_, meant: string) => ` Did you mean "${meant.split(', ').join('" or "')}"?`,
    );
}

function examplesText(examples: readonly string[]): string {
  return `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`;
}
