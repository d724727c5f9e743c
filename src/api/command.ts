/** Hints from which the command line makes a command of an operation. Plain data: `src/cli/derive.ts` reads it. */
import type { OperationTable } from './operation.js';

/**
 * How the text of a flag becomes the value of a field: `text` unless given. `file` is the content of the file that is
 * named, `secret` the same without white space at its ends, `json` its JSON; `none` sends null; `is` sends a fixed value.
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
  | { is: string };

/** The field, a dot before a member of it (`spec.memory_mb`), its flag, and the line in the help. */
export type FlagHint = readonly [field: string, flags: string, about: string, kind?: FlagKind];

export interface CommandHint {
  /** The word with its arguments, which are named as the fields: `get <task_id>`. */
  usage: string;
  /** The operation's summary unless given. */
  about?: string;
  flags?: readonly FlagHint[];
  examples: readonly string[];
  /** A directory without a store gets one. */
  makesStore?: true;
  /** An answer that is a list: its columns with the fields that they show, and what an empty one is called. */
  table?: { columns: Readonly<Record<string, string>>; empty: string };
  /** Without an answer: the fact for programs with the field that it names, and the sentence, with `{field}`. */
  done?: readonly [fact: string, field: string, sentence: string];
  /** The member of the answer that people see. */
  shows?: string;
}

export type CommandHints<Table extends OperationTable> = { readonly [Name in keyof Table]?: CommandHint };

export const pageFlags = [
  ['limit', '--limit <n>', 'Items on a page', 'number'],
  ['cursor', '--cursor <cursor>', 'Go on after the page that gave this cursor'],
] as const satisfies readonly FlagHint[];
