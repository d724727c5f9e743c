/** The `stoa` program: parses the command line, runs one command, and exits with the status of its error. */
import { type Command, CommanderError } from 'commander';
import {
  type ConfigSources,
  type LoadedConfig,
  clientVariables,
  loadConfig,
} from '../core/settings/config.js';
import { StoaError, messageOf } from '../core/errors.js';
import { settingNames } from '../core/settings/settings.js';
import { version } from '../version.js';
import { type AbsentStore, type Connection, connect } from './connection/connection.js';
import { type ActsAs, type CommandDefinition, type Options, textOption } from './definitions/definition.js';
import { Output } from './output/output.js';
import { createProgram } from './program.js';

const usageExit = 2;
/** How long a finished command waits for its output to be read. */
const outputMsMax = 10_000;

/** Runs the command of this process, and ends the process when its output is read. */
export function main(): Promise<void> {
  return runCommand().finally(exitWhenRead);
}

/** Runs the command of `process.argv`, and sets the exit status. */
export async function runCommand(): Promise<void> {
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

  const program: Command = createProgram((...given) => run(program.opts(), ...given), version);
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode =
      error instanceof CommanderError ? usageStatus(error) : report(error, program.opts()['json'] === true);
  }
}

/** Commander ends the help and the version with an error too. */
function usageStatus({ exitCode }: CommanderError): number {
  return exitCode === 0 ? 0 : usageExit;
}

/**
 * Everything is done and closed. A database driver may retry a silent server for minutes, so the process
 * waits only for its output, and only for a limited time.
 */
function exitWhenRead(): void {
  const outputDeadlineMs = Date.now() + outputMsMax;
  setInterval(() => {
    const waiting = process.stdout.writableLength + process.stderr.writableLength;
    if (waiting === 0 || Date.now() > outputDeadlineMs) process.exit();
  }, 1_000).unref();
}

async function run(
  globals: Options,
  load: NonNullable<CommandDefinition['action']>,
  args: readonly string[],
  command: Command,
): Promise<void> {
  const output = new Output({ json: globals['json'] === true, wide: globals['wide'] === true });
  const settings = (own: Options = {}): LoadedConfig =>
    loadConfig({ flags: settingFlags({ ...globals, ...own }), environment: process.env });
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
      loadConfig: () => settings().config,
    });
    opened.push(connection);
    return connection;
  };
  const action = await load();
  try {
    await action({ output, globals, settings, connect: connectNow }, args, command.opts());
  } finally {
    for (const connection of opened) await connection.close();
  }
}

/** The settings among the parsed flags. */
function settingFlags(options: Options): NonNullable<ConfigSources['flags']> {
  const named = [...settingNames, 'config'].map((name) => [name, options[name]]);
  return Object.fromEntries(named.filter(([, value]) => value !== undefined));
}

/** Prints the error and returns the exit status. */
function report(thrown: unknown, json: boolean): number {
  const error =
    thrown instanceof StoaError ? thrown : new StoaError('internal', messageOf(thrown), { cause: thrown });
  const output = new Output({ json });
  output.error(error);
  // A fault in Stoa needs its stack trace; a refused request does not.
  if (error.code === 'internal' && thrown instanceof Error) output.say(String(thrown.stack));
  return error.exit;
}
