/** Options that the commands of workspaces, projects, sessions and tasks share. */
import { StoaError } from '../errors.js';
import { type Options, numberOption, textOption } from './definition.js';

export interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

export function pageQuery(options: Options): { limit: number | undefined; cursor: string | undefined } {
  return { limit: numberOption(options, 'limit'), cursor: textOption(options, 'cursor') };
}

export function namedListQuery(options: Options): Record<string, string | number | boolean | undefined> {
  return {
    ...pageQuery(options),
    status: textOption(options, 'status'),
    name: textOption(options, 'name'),
    path: textOption(options, 'path'),
    deleted: options['deleted'] === true ? true : undefined,
  };
}

export function versionHeader(options: Options): Record<string, string> {
  const version = numberOption(options, 'ifVersion');
  return version === undefined ? {} : { 'if-match': `"${version}"` };
}

export function creationHeaders(options: Options): Record<string, string> {
  const key = textOption(options, 'idempotencyKey');
  return key === undefined ? {} : { 'idempotency-key': key };
}

/** A whole number that may be negative. */
export function signedOption(options: Options, name: string): number | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  if (/^-?\d{1,15}$/.test(text)) return Number(text);
  throw new StoaError('invalid_request', `--${name} must be a whole number, not "${text}".`);
}

export function requiredNumber(options: Options, name: string): number {
  const value = numberOption(options, name);
  if (value === undefined) throw new StoaError('invalid_request', `--${name} is needed.`);
  return value;
}
