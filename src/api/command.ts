/**
 * Hints from which the CLI derives the command of an operation. Plain data: `src/cli/definitions/derive.ts`
 * reads it.
 */
import type { OperationTable } from './operation.js';

/**
 * How the text of a flag becomes the value of a field. The default is `text`. `file` is the content of the
 * named file, `secret` the same without white space at its ends, `json` its JSON; `none` sends null; `is`
 * sends a fixed value. `numberOrNone` reads the word `none` as null. Without its flag a field has the value
 * of the variable `env`, or `otherwise`.
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

/** The field (or a member of it, as in `spec.memory_mb`), its flag, and its line in the help. */
export type FlagHint = readonly [field: string, flags: string, about: string, kind?: FlagKind];

/** The flag of a list that can show one status only. */
export function inStatus(statuses: readonly string[]) {
  return ['status', '--status <status>', `Only in this status: ${statuses.join(', ')}`] as const;
}

export interface CommandHint {
  /** The command with its arguments, which have the names of the fields: `get <task_id>`, `ack <ids...>`. */
  usage: string;
  /** The default is the summary of the operation. */
  about?: string;
  flags?: readonly FlagHint[];
  examples: readonly string[];
  /** Creates a store in a directory that has none. */
  makesStore?: true;
  /** The field `user` comes from --user, which is required. */
  needsUser?: true;
  /** At least one of the flags is required. */
  needsFlag?: true;
  /**
   * For an answer that is a list: its columns, and the text for an empty list. A column shows a field, a
   * member of it (`scopes.write`), or several (`{agents}/{agents_max}`).
   */
  table?: {
    columns: Readonly<Record<string, string>>;
    empty: string;
    /** `--tail` turns the list around. */
    newestFirst?: boolean;
    /** Fields with an id that people see as the name of its record, and the operation that reads this record. */
    names?: Readonly<Record<string, string>>;
    /** The last column, if its texts are shown whole, on several lines where they are long. */
    folds?: string;
  };
  /**
   * For an operation without an answer: the fact and its field for programs, and the sentence, with
   * `{field}`.
   */
  done?: readonly [fact: string, field: string, sentence: string];
  /** The member of the answer that is printed for people. */
  shows?: string;
  /** A sentence printed with the answer, with `{field}` of the answer. */
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
  ['cursor', '--cursor <cursor>', 'Continue after the page that returned this cursor'],
] as const satisfies readonly FlagHint[];
