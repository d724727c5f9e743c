#!/usr/bin/env node
/** The `stoa` program: reads the command line, runs one command, ends with the exit status of its error. */
import { Command, CommanderError, Option } from 'commander';
import { clientVariables, loadConfig } from '../core/settings/config.js';
import { StoaError, messageOf } from '../core/errors.js';
import { version } from '../version.js';
import { type AbsentStore, type Connection, connect } from './connection/connection.js';
import { type CommandDefinition, type Options, textOption } from './definitions/definition.js';
import { Output } from './output/output.js';
import { settingFlags } from './definitions/setting-flags.js';
import { commandWith } from './definitions/suggest.js';
import { commandTree } from './tree/index.js';

const usageExit = 2;
/** How long a command that is done waits for somebody to read what it printed. */
const outputMsMax = 10_000;

/** Options of every command. */
const globalOptions = [
  new Option('--json', 'Print JSON for programs'),
  new Option('--data <directory>', 'Directory that holds everything (./data unless set)'),
  new Option('--config <file>', 'Configuration file (./stoa.config.json unless set)').env('STOA_CONFIG'),
  new Option('--url <url>', 'A running server, instead of the one of the directory').env('STOA_URL'),
  new Option(
    '--token <token>',
    'Bearer token; prefer STOA_TOKEN, which other users of the machine cannot see',
  ).env('STOA_TOKEN'),
  new Option('--user <user>', 'Act for this user').env('STOA_USER'),
  new Option('--agent <name>', 'Name of the agent, for the record of who read and wrote').env('STOA_AGENT'),
];

const program = new Command('stoa')
  .description('The state plane for AI agents: shared data, registry, workspaces and messaging.')
  .version(version, '--version', 'Print the version')
  .configureHelp({ showGlobalOptions: true })
  .configureOutput({ outputError: (text, write) => write(usageText(text)) })
  .showSuggestionAfterError()
  .exitOverride();
for (const option of globalOptions) program.addOption(option);
addCommands(program, commandTree);
program.addHelpText(
  'after',
  examplesText(['stoa up', 'stoa agents create scout --user ada', 'stoa watch changes']),
);

// A reader that has seen enough (`| head`) is not a failure, and a closed stderr must not end a server.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});
// Nor must one that is on a full disk; there is no other place to say so.
process.stderr.on('error', () => undefined);

// The engines make files by themselves at any time; what they make is for its owner alone.
process.umask(0o077);

// As for settings: an empty variable is how shells and compose files say "not set".
for (const name of clientVariables) if (process.env[name] === '') delete process.env[name];

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = error instanceof CommanderError ? (error.exitCode === 0 ? 0 : usageExit) : report(error);
}

// All is done and closed. A driver may go on asking a server that never answers, for minutes: the process waits only for
// its own output, and not for ever where nobody reads that.
const outputDeadlineMs = Date.now() + outputMsMax;
setInterval(() => {
  const waiting = process.stdout.writableLength + process.stderr.writableLength;
  if (waiting === 0 || Date.now() > outputDeadlineMs) process.exit();
}, 1_000).unref();

function addCommands(parent: Command, definitions: readonly CommandDefinition[]): void {
  for (const definition of definitions) {
    const command = parent.command(definition.usage).description(definition.about).showSuggestionAfterError();
    for (const [flags, about, many] of definition.options ?? []) {
      if (many === undefined) command.option(flags, about);
      else
        command.option(flags, about, (value: string, before: readonly string[] = []) => [...before, value]);
    }
    if (definition.examples !== undefined) command.addHelpText('after', examplesText(definition.examples));
    if (definition.commands !== undefined) addCommands(command, definition.commands);
    const { action } = definition;
    // The last two arguments that commander passes are the options and the command itself.
    if (action !== undefined)
      command.action((...given: unknown[]) => run(action, given.slice(0, -2) as string[], command));
  }
}

async function run(
  load: NonNullable<CommandDefinition['action']>,
  args: readonly string[],
  command: Command,
): Promise<void> {
  const globals: Options = program.opts();
  const output = new Output({ json: globals['json'] === true });
  const opened: Connection[] = [];
  const connectNow = async (absent: AbsentStore = 'refused'): Promise<Connection> => {
    const connection = await connect({
      absent,
      onCreation: (directory) => {
        if (!output.json) output.say(`A new store was made in ${directory}.`);
      },
      url: textOption(globals, 'url'),
      token: textOption(globals, 'token'),
      user: textOption(globals, 'user'),
      agent: textOption(globals, 'agent'),
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

/** Prints what went wrong and answers the exit status. */
function report(thrown: unknown): number {
  const error =
    thrown instanceof StoaError ? thrown : new StoaError('internal', messageOf(thrown), { cause: thrown });
  new Output({ json: program.opts()['json'] === true }).error(error);
  // A fault of ours needs its trace; a refusal does not.
  if (error.code === 'internal' && thrown instanceof Error) process.stderr.write(`${thrown.stack}\n`);
  return error.exit;
}

/** Commander's complaints in the shape of ours. */
function usageText(text: string): string {
  const [, unknown] = /unknown command '(.+?)'/.exec(text) ?? [];
  const meant = unknown === undefined ? undefined : commandWith(unknown, process.argv.slice(2), commandTree);
  // What commander itself suggests is spelled alike, which says less.
  const sentence = (meant === undefined ? text : text.replace(/\(Did you mean .*\)/, ''))
    .trim()
    .replace(/^error: /, '');
  const fix =
    meant === undefined
      ? '"--help" after a command shows its options and examples.'
      : `Use "stoa ${meant}"; "stoa ${meant} --help" shows its options and examples.`;
  if (program.opts()['json'] === true || process.argv.includes('--json'))
    return `${JSON.stringify({ code: 'invalid_request', title: 'The command line is not valid', detail: sentence, fix })}\n`;
  return `error ${sentence}\nfix   ${fix}\n`;
}

function examplesText(examples: readonly string[]): string {
  return `\nExamples:\n${examples.map((example) => `  $ ${example}`).join('\n')}`;
}
