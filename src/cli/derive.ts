/** Commands made from an operation and its hints: arguments and flags become fields, the answer is shown as the hint says. */
import type { GroupName, OperationName } from '../api/call.js';
import type { CommandHint, FlagHint, FlagKind } from '../api/command.js';
import { operationNamed } from '../api/index.js';
import type { Operation } from '../api/operation.js';
import {
  type Action,
  type CommandDefinition,
  type Options,
  durationOption,
  listOption,
  needed,
  numberOption,
  pairsOption,
  signedOption,
  textOption,
} from './definition.js';
import { readJson, readText } from './file-option.js';
import type { Output } from './output.js';

type Fields = Record<string, unknown>;

/** The commands of a group, in the order of their hints. */
export function derivedCommands(
  group: GroupName,
  hints: Readonly<Record<string, CommandHint>>,
): CommandDefinition[] {
  return Object.entries(hints).map(([verb, hint]) => {
    const name = `${group}.${verb}` as OperationName; // Hints satisfy the names of their table.
    const row = operationNamed(name);
    return {
      usage: hint.usage,
      about: hint.about ?? row.summary,
      options: [...(hint.flags ?? []).map(optionOf), ...standardOptions(row)],
      examples: hint.examples,
      operation: name,
      action: async () => derivedAction(name, hint),
    };
  });
}

function optionOf([, flags, about, kind]: FlagHint): readonly [string, string, 'many'?] {
  return kind === 'many' || kind === 'pairs' ? [flags, about, 'many'] : [flags, about];
}

/** What every operation of its kind takes. */
function standardOptions({ creates, versioned, method }: Operation): (readonly [string, string])[] {
  if (creates === true)
    return [['--idempotency-key <key>', 'A repeat with the same key makes no second one']];
  return versioned === true && method !== 'GET'
    ? [['--if-version <n>', 'Only if this is still the version']]
    : [];
}

function derivedAction(name: OperationName, hint: CommandHint): Action {
  const argumentNames = Array.from(hint.usage.matchAll(/[<[](\w+)[>\]]/g), ([, field]) => field as string);
  return async ({ connect, output }, args, options) => {
    const fields: Fields = Object.fromEntries(argumentNames.map((field, at) => [field, args[at]]));
    for (const [field, flags, , kind] of hint.flags ?? []) {
      const value = await valueOf(options, attributeOf(flags), kind);
      if (value !== undefined) put(fields, field, value);
    }
    const settings = {
      ifVersion: numberOption(options, 'ifVersion'),
      idempotencyKey: textOption(options, 'idempotencyKey'),
    };
    const connection = await connect(hint.makesStore === true ? 'created' : 'refused');
    show(output, hint, fields, await connection.ask(name, fields, settings));
  };
}

/** As commander calls the value of a flag: `--git-url <url>` is `gitUrl`, `--no-key` is `key`. */
function attributeOf(flags: string): string {
  const [, word = ''] = /--(?:no-)?([a-z-]+)/.exec(flags) ?? [];
  return word.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

async function valueOf(options: Options, name: string, kind: FlagKind | undefined): Promise<unknown> {
  if (typeof kind === 'object') return options[name] === true ? kind.is : undefined;
  switch (kind) {
    case undefined:
      return textOption(options, name);
    case 'number':
      return numberOption(options, name);
    case 'needed':
      return needed(numberOption(options, name), name);
    case 'signed':
      return signedOption(options, name);
    case 'duration':
      return durationOption(options, name);
    case 'yes':
      return options[name] === true ? true : undefined;
    case 'none':
      return options[name] === false ? null : undefined;
    case 'many':
      return listOption(options, name);
    case 'pairs':
      return pairsOption(options, name);
    case 'file':
      return readText(options, name);
    case 'secret':
      return (await readText(options, name))?.trim();
    case 'json':
      return readJson(options, name);
  }
}

/** The first flag of a field that was given counts. */
function put(fields: Fields, field: string, value: unknown): void {
  const [name = '', member] = field.split('.');
  if (member === undefined) fields[name] ??= value;
  else fields[name] = { ...(fields[name] as Fields | undefined), [member]: value };
}

function show(output: Output, { table, done, shows }: CommandHint, fields: Fields, answer: unknown): void {
  if (done !== undefined) {
    const [fact, field, sentence] = done;
    output.done({ [fact]: fields[field] }, filled(sentence, fields));
    return;
  }
  if (table !== undefined) {
    const columns = Object.entries(table.columns).map(
      ([heading, field]) => [heading, (item: Fields) => item[field]] as const,
    );
    // An operation with a table answers a page.
    output.list(answer as { items: Fields[] }, columns, filled(table.empty, fields));
    return;
  }
  // Every other answer is an object.
  const value = answer as Fields;
  output.value(shows === undefined || output.json ? value : (value[shows] as object));
}

function filled(sentence: string, fields: Fields): string {
  return sentence.replaceAll(/\{(\w+)\}/g, (_, field: string) => String(fields[field]));
}
