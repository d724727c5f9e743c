/** The definition of a command. `main.ts` builds the parser from it and loads the code only when it runs. */
import type { OperationName } from '../../api/call.js';
import { StoaError, messageOf } from '../../core/errors.js';
import type { LoadedConfig } from '../../core/settings/config.js';
import { flagOf } from '../../core/settings/settings.js';
import type { AbsentStore, Connection } from '../connection/connection.js';
import type { Output } from '../output/output.js';

type OptionValue = string | boolean | readonly string[] | undefined;
export type Options = Readonly<Record<string, OptionValue>>;

export interface ActsAs {
  agent?: string | undefined;
  user?: string | undefined;
}

/** What every action gets besides its arguments. */
export interface Context {
  output: Output;
  /** The options of every command: `--data`, `--url`, `--user` … */
  globals: Options;
  /** The settings, from the flags of every command, those in `own`, the environment and the file. */
  settings(own?: Options): LoadedConfig;
  /**
   * Finds the running server or opens the directory; closed when the action ends. A directory without a store
   * is refused by default. `as` replaces `--agent` and is the user where `--user` is missing.
   */
  connect(absent?: AbsentStore, as?: ActsAs): Promise<Connection>;
}

export type Action = (context: Context, args: readonly string[], options: Options) => Promise<void>;

export interface CommandDefinition {
  /** The command with its arguments: `get <id>`. */
  usage: string;
  about: string;
  /** `['--limit <n>', 'Items on a page']`; a third element `many` collects repeated flags. */
  options?: readonly (readonly [flags: string, about: string, many?: 'many'])[];
  /** The data directory of this command if none is given, where it is not `./data`. */
  dataDefault?: string;
  examples?: readonly string[];
  action?: () => Promise<Action>;
  /** The operation that a derived command calls. */
  operation?: OperationName;
  commands?: readonly CommandDefinition[];
}

/** What the help says about an option: the accepted values, the default and the variable, in one form. */
export function withDetails(about: string, details: readonly string[]): string {
  return details.length === 0 ? about : `${about} (${details.join('; ')})`;
}

export function textOption(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

export function listOption(options: Options, name: string): string[] | undefined {
  const value = options[name];
  return typeof value === 'object' ? [...value] : undefined;
}

/** A whole number, or a usage error that names the flag. */
export function numberOption(options: Options, name: string, digits = /^\d{1,15}$/): number | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  if (digits.test(text)) return Number(text);
  throw new StoaError('invalid_request', `${flagOf(name)} must be a whole number, got "${text}".`);
}

/** A whole number that may be negative. */
export function signedOption(options: Options, name: string): number | undefined {
  return numberOption(options, name, /^-?\d{1,15}$/);
}

export function needed<Value>(value: Value | undefined, name: string): Value {
  if (value === undefined)
    throw new StoaError('invalid_request', `${flagOf(name)} is missing.`, {
      fix: `Add ${flagOf(name)} with its value.`,
    });
  return value;
}

/** The JSON of a flag. `example` shows in the error how a shell takes its quotes. */
export function jsonOption(
  options: Options,
  name: string,
  example: string,
): Record<string, unknown> | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  try {
    // The server checks its type.
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new StoaError('invalid_request', `${flagOf(name)} is not JSON: ${messageOf(error)}.`, {
      cause: error,
      fix: `Write it as '${example}'.`,
    });
  }
}

/** The options of every list. */
export function pageQuery(options: Options): { limit: number | undefined; cursor: string | undefined } {
  return { limit: numberOption(options, 'limit'), cursor: textOption(options, 'cursor') };
}

/** Repeated `name=value` flags as an object. */
export function pairsOption(options: Options, name: string): Record<string, string> | undefined {
  const pairs = listOption(options, name);
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1)
        throw new StoaError('invalid_request', `${flagOf(name)} must be name=value, got "${pair}".`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** `90s`, `15m`, `12h`, `30d` or plain seconds. */
export function durationOption(options: Options, name: string): number | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  const [, digits, unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(text) ?? [];
  if (digits === undefined)
    throw new StoaError(
      'invalid_request',
      `${flagOf(name)} must be a duration like 90s, 15m, 12h or 30d, got "${text}".`,
    );
  return Number(digits) * { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
}
