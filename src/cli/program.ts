/** Builds the parser of the command line, with its help, from the definitions of the commands. */
import { Command, Option } from 'commander';
import { variableOf } from '../core/settings/settings.js';
import { type CommandDefinition, withDetails } from './definitions/definition.js';
import { commandWith } from './definitions/suggest.js';
import { ShownIds } from './output/short-ids.js';
import { commandTree } from './tree/index.js';

/** Runs the code of a command with its arguments. */
export type Run = (
  load: NonNullable<CommandDefinition['action']>,
  args: readonly string[],
  command: Command,
) => Promise<void>;

/** The names of arguments that are ids. */
const idArguments = /_id$|^(agent|id|ids|identity|message|project|room|session|task|to|token|workspace)$/;

/** Options of every command. */
const globalOptions = [
  new Option('--json', 'Print JSON for programs'),
  new Option('--wide', 'Print tables with whole ids, exact times and uncut texts'),
  new Option('--data <directory>', dataAbout('./data')),
  variableOption('--config <file>', 'Configuration file', 'STOA_CONFIG', ['default: ./stoa.config.json']),
  variableOption(
    '--url <url>',
    'URL of a running server, instead of the server of the data directory',
    'STOA_URL',
  ),
  variableOption(
    '--token <token>',
    'Bearer token; prefer STOA_TOKEN, which other users of the machine cannot see',
    'STOA_TOKEN',
  ),
  variableOption('--user <user>', 'The user whose data the command acts on', 'STOA_USER'),
  variableOption('--agent <name>', 'The agent that acts; its first write makes the agent', 'STOA_AGENT'),
];

export function createProgram(run: Run, version: string): Command {
  const program: Command = new Command('stoa')
    .description('The state plane for AI agents: shared data, registry, workspaces and messaging.')
    .version(version, '--version', 'Print the version')
    .helpOption('-h, --help', 'Show this help')
    .helpCommand('help [command]', 'Show the help of a command')
    .configureHelp({
      showGlobalOptions: true,
      // Not those of a command between: "stoa backup prune" has no use for the options of "stoa backup".
      visibleGlobalOptions: (command) => (command === program ? [] : [...program.options]),
      subcommandTerm: termOf,
      // Commander would add the variable in brackets of its own.
      optionDescription: ({ description }) => description,
    })
    .configureOutput({ outputError: (text, write) => write(usageText(text, program)) })
    .showSuggestionAfterError()
    .exitOverride();
  for (const option of globalOptions) program.addOption(option);
  addCommands(program, commandTree, run);
  return program.addHelpText(
    'after',
    examplesText(['stoa up', 'stoa data set plan "ship it" --agent scout', 'stoa watch changes']),
  );
}

function variableOption(
  flags: string,
  about: string,
  variable: string,
  details: readonly string[] = [],
): Option {
  return new Option(flags, withDetails(about, [...details, `env: ${variable}`])).env(variable);
}

/** The settings read the variable of the data directory themselves. */
function dataAbout(fallback: string): string {
  return withDetails('Data directory', [`default: ${fallback}`, `env: ${variableOf('data')}`]);
}

function addCommands(parent: Command, definitions: readonly CommandDefinition[], run: Run): void {
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
    const { dataDefault } = definition;
    if (dataDefault !== undefined)
      command.configureHelp({
        ...command.configureHelp(),
        optionDescription: ({ long, description }) =>
          long === '--data' ? dataAbout(dataDefault) : description,
      });
    if (definition.examples !== undefined) command.addHelpText('after', examplesText(definition.examples));
    if (definition.commands !== undefined) addCommands(command, definition.commands, run);
    const { action } = definition;
    // Commander would write "[command]" before the arguments of the command itself.
    if (definition.commands !== undefined && action !== undefined)
      command.usage(shownUsage(definition.usage).replace(/^\S+/, '[options]'));
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

/** Commander's errors in the format of Stoa's errors. */
function usageText(text: string, program: Command): string {
  const [, unknown] = /unknown command '(.+?)'/.exec(text) ?? [];
  const meant = unknown === undefined ? undefined : commandWith(unknown, process.argv.slice(2), commandTree);
  // Commander suggests similar spellings, which is less useful than the same words in another order.
  const sentence = plainUsage(meant === undefined ? text : text.replace(/\(Did you mean .*\)/, ''));
  const isDashed = /^error: unknown option '-[^-]/.test(text);
  const fix =
    meant === undefined
      ? `${isDashed ? 'Put arguments that begin with "-" after "--". ' : ''}"--help" after a command shows its options and examples.`
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
