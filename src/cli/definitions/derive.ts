/**
 * Commands derived from an operation and its hints: arguments and flags become fields, and the hint formats
 * the answer.
 */
import type { GroupName, OperationName } from '../../api/call.js';
import type { CommandHint, FlagHint, FlagKind } from '../../api/command.js';
import { operationNamed } from '../../api/index.js';
import { StoaError } from '../../core/errors.js';
import type { Operation } from '../../api/operation.js';
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
import { readJson, readText } from '../input/file-option.js';
import type { Connection } from '../connection/connection.js';
import type { Output } from '../output/output.js';

type Fields = Record<string, unknown>;

/** The commands of a group, in the order of their hints. */
export function derivedCommands(
  group: GroupName,
  hints: Readonly<Record<string, CommandHint>>,
): CommandDefinition[] {
  return Object.entries(hints).map(([verb, hint]) => {
    // The type of the hints allows only names of their table.
    const name = `${group}.${verb}` as OperationName;
    const row = operationNamed(name);
    return {
      usage: hint.usage,
      about: hint.about ?? row.summary,
      options: [
        ...(hint.flags ?? []).map(optionOf),
        ...(hint.table?.newestFirst === true ? [['--tail', 'Newest last'] as const] : []),
        ...standardOptions(row),
      ],
      examples: hint.examples,
      operation: name,
      action: async () => derivedAction(name, hint),
    };
  });
}

function optionOf([, flags, about, kind]: FlagHint): readonly [string, string, 'many'?] {
  return kind === 'many' || kind === 'pairs' ? [flags, about, 'many'] : [flags, about];
}

/** The options that follow from the kind of operation. */
function standardOptions({ creates, versioned, method }: Operation): (readonly [string, string])[] {
  if (creates === true)
    return [['--idempotency-key <key>', 'A repeat with the same key does not create a second record']];
  return versioned === true && method !== 'GET'
    ? [['--if-version <n>', 'Only if this is the current version']]
    : [];
}

function derivedAction(name: OperationName, hint: CommandHint): Action {
  const argumentNames = Array.from(
    hint.usage.matchAll(/[<[](\w+)(?:\.{3})?[>\]]/g),
    ([, field]) => field as string,
  );
  return async ({ connect, output, globals }, args, options) => {
    const fields: Fields = Object.fromEntries(argumentNames.map((field, at) => [field, args[at]]));
    if (hint.needsUser === true) fields['user'] = userOf(globals);
    const { flags = [] } = hint;
    if (hint.needsFlag === true && flags.every(([, flag]) => options[attributeOf(flag)] === undefined))
      throw new StoaError('invalid_request', 'The command does not change anything.', {
        fix: `Add one of ${flags.map(([, flag]) => flag.split(' ')[0]).join(', ')}.`,
      });
    for (const [field, flag, , kind] of flags) {
      const value = await valueOf(options, attributeOf(flag), kind);
      if (value !== undefined) put(fields, field, value);
    }
    const settings = {
      ifVersion: numberOption(options, 'ifVersion'),
      idempotencyKey: textOption(options, 'idempotencyKey'),
    };
    const connection = await connect(hint.makesStore === true ? 'created' : 'refused');
    const isReversed = options['tail'] === true;
    const answer = await connection.ask(name, fields, settings);
    show(output, hint, fields, output.json ? answer : await named(connection, hint, answer), isReversed);
  };
}

/** The answer with names instead of ids where the table has them. A record that is gone keeps its id. */
async function named(connection: Connection, { table }: CommandHint, answer: unknown): Promise<unknown> {
  const { items } = (answer ?? {}) as { items?: Fields[] };
  if (items === undefined || table?.names === undefined) return answer;
  const shown = items.map((item) => ({ ...item }));
  for (const [field, operation] of Object.entries(table.names)) {
    const ids = new Set(items.map((item) => item[field]));
    for (const id of ids) {
      const name = await nameOf(connection, operation, field, id);
      for (const item of shown) if (item[field] === id) item[field] = name ?? id;
    }
  }
  return { ...(answer as Fields), items: shown };
}

async function nameOf(
  connection: Connection,
  operation: string,
  field: string,
  id: unknown,
): Promise<unknown> {
  try {
    // A hint names an operation.
    const record = (await connection.ask(operation as OperationName, { [field]: id })) as Fields;
    return record['name'];
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

/** Commands for the data of one user require --user, so that `default` is not used by accident. */
function userOf(globals: Options): string {
  const user = textOption(globals, 'user');
  if (user === undefined)
    throw new StoaError('invalid_request', '--user is missing.', {
      fix: 'Add --user NAME, or set STOA_USER.',
    });
  return user;
}

/** The name that commander gives the value of a flag: `--git-url <url>` is `gitUrl`, `--no-key` is `key`. */
function attributeOf(flags: string): string {
  const [, word = ''] = /--(?:no-)?([a-z-]+)/.exec(flags) ?? [];
  return word.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

async function valueOf(options: Options, name: string, kind: FlagKind | undefined): Promise<unknown> {
  if (typeof kind === 'object') {
    if ('is' in kind) return options[name] === true ? kind.is : undefined;
    // A variable does not show a secret in the list of processes.
    return textOption(options, name) ?? ('env' in kind ? process.env[kind.env] : kind.otherwise);
  }
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
    case 'numberOrNone':
      return options[name] === 'none' ? null : numberOption(options, name);
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

/** If several flags set a field, the first one wins. */
function put(fields: Fields, field: string, value: unknown): void {
  const [name = '', member] = field.split('.');
  if (member === undefined) fields[name] ??= value;
  else fields[name] = { ...(fields[name] as Fields | undefined), [member]: value };
}

function show(output: Output, hint: CommandHint, fields: Fields, answer: unknown, isReversed: boolean): void {
  const { table, done, shows, note, flags = [] } = hint;
  if (done !== undefined) {
    const [fact, field, sentence] = done;
    output.done({ [fact]: fields[field] }, filled(sentence, fields));
    return;
  }
  const value = answer as Fields; // An operation without an answer has `done`; every other answer is an object.
  if (table !== undefined) {
    const columns = Object.entries(table.columns).map(
      ([heading, field]) => [heading, (item: Fields) => cellOf(item, field)] as const,
    );
    const found = value['items'] as Fields[]; // The hint is of a list.
    const items = isReversed ? found.toReversed() : found;
    const takesCursor = flags.some(([field]) => field === 'cursor');
    const isWhole = output.json || takesCursor;
    output.list({ ...(isWhole && value), items }, columns, filled(table.empty, fields), table.folds);
  } else output.value(shows === undefined || output.json ? value : (value[shows] as object));
  if (note !== undefined) output.say(filled(note, value));
}

function cellOf(item: Fields, field: string): unknown {
  if (field.includes('{')) return filled(field, item);
  const [name = '', member] = field.split('.');
  const value = member === undefined ? item[name] : (item[name] as Fields | null | undefined)?.[member];
  return Array.isArray(value) ? value.join(', ') : value;
}

function filled(sentence: string, fields: Fields): string {
  return sentence.replaceAll(/\{(\w+)\}/g, (_, field: string) => String(fields[field]));
}
