/** Hints from which the command line makes a command of an operation. Plain data: `src/cli/derive.ts` reads it. */
import type { OperationTable } from './operation.js';

/**
 * How the text of a flag becomes the value of a field: `text` unless given. `file` is the content of the file that is
 * named, `secret` the same without white space at its ends, `json` its JSON; `none` sends null; `is` sends a fixed value.
 * `numberOrNone` takes the word `none` for null. Without its flag a field has the value of the variable `env`, or `otherwise`.
 */
export type FlagKind =
  | 'number'
  | 'signed'
  | 'needed'
  | 'duration'
  | 'yes'
  | 'many'
  | 'pairs'
  | 'file'
  | 'secret'
  | 'json'
  | 'none'
  | 'numberOrNone'
  | { is: string | number | boolean }
  | { env: string }
  | { otherwise: string };

/** The field, a dot before a member of it (`spec.memory_mb`), its flag, and the line in the help. */
export type FlagHint = readonly [field: string, flags: string, about: string, kind?: FlagKind];

export interface CommandHint {
  /** The word with its arguments, which are named as the fields: `get <task_id>`, `ack <ids...>`. */
  usage: string;
  /** The operation's summary unless given. */
  about?: string;
  flags?: readonly FlagHint[];
  examples: readonly string[];
  /** A directory without a store gets one. */
  makesStore?: true;
  /** The field `user` comes from --user, and has to be given. */
  needsUser?: true;
  /** At least one of the flags has to be given. */
  needsFlag?: true;
  /**
   * An answer that is a list: its columns, and what an empty one is called. A column shows a field, a member of it
   * (`scopes.write`), or several (`{agents}/{agents_max}`). `items` names the list in the answer where it has another name.
   */
  table?: { columns: Readonly<Record<string, string>>; empty: string; items?: string };
  /** Without an answer: the fact for programs with the field that it names, and the sentence, with `{field}`. */
  done?: readonly [fact: string, field: string, sentence: string];
  /** The member of the answer that people see. */
  shows?: string;
  /** A sentence beside the answer, with `{field}` of the answer. */
  note?: string;
}

export type CommandHints<Table extends OperationTable> = { readonly [Name in keyof Table]?: CommandHint };

export const roomKeyFlag = [
  'key',
  '--key <key>',
  'The key of a private room; prefer STOA_ROOM_KEY',
  { env: 'STOA_ROOM_KEY' },
] as const satisfies FlagHint;

export const pageFlags = [
  ['limit', '--limit <n>', 'Items on a page', 'number'],
  ['cursor', '--cursor <cursor>', 'Go on after the page that gave this cursor'],
] as const satisfies readonly FlagHint[];
