/** One entry into a settings file of another program: everything else in it stays, to the letter where it can. */
import { StoaError, messageOf } from '../errors.js';

/** The file with `section.name` set to `entry`. Refuses a file that it cannot read whole rather than lose a part of it. */
export function mergeJson(text: string, section: string, name: string, entry: object, file = 'The file'): string {
  const settings = text.trim() === '' ? {} : parse(text, file);
  const servers = settings[section] ?? {};
  if (!isObject(servers)) throw unreadable(file, `"${section}" is not an object`);
  const merged = { ...settings, [section]: { ...servers, [name]: entry } };
  return `${JSON.stringify(merged, null, indentOf(text))}\n`;
}

/** The same for TOML: the one table is replaced or added at the end, no other line is touched. */
export function mergeToml(text: string, section: string, name: string, entry: object): string {
  const table = tomlTable(section, name, entry);
  const lines = text.split('\n');
  const header = new RegExp(`^\\s*\\[\\s*${section}\\s*\\.\\s*"?${name}"?\\s*\\]\\s*(#.*)?$`);
  const start = lines.findIndex((line) => header.test(line));
  if (start === -1) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${table}`;
  const length = lines.slice(start + 1).findIndex((line) => /^\s*\[/.test(line));
  const rest = length === -1 ? [] : ['', ...lines.slice(start + 1 + length)];
  return [...lines.slice(0, start), ...table.trimEnd().split('\n'), ...(rest.length === 0 ? [''] : rest)].join('\n');
}

export function tomlTable(section: string, name: string, entry: object): string {
  // The basic strings and arrays of TOML are written as those of JSON.
  const lines = Object.entries(entry).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return `[${section}.${name}]\n${lines.join('\n')}\n`;
}

/** Text between two marks: replaced where they are, added at the end where they are not. */
export function mergeMarked(text: string, [begin, end]: readonly [string, string], content: string): string {
  const block = `${begin}\n${content.trim()}\n${end}\n`;
  const start = text.indexOf(begin);
  const stop = text.indexOf(end, start);
  if (start === -1 || stop === -1) return `${text.trim() === '' ? '' : `${text.trimEnd()}\n\n`}${block}`;
  return `${text.slice(0, start)}${block}${text.slice(stop + end.length).replace(/^\n/, '')}`;
}

function parse(text: string, file: string): Record<string, unknown> {
  let settings: unknown;
  try {
    settings = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (error) {
    throw unreadable(file, messageOf(error), error);
  }
  if (!isObject(settings)) throw unreadable(file, 'it is not an object');
  return settings;
}

function unreadable(file: string, why: string, cause?: unknown): StoaError {
  return new StoaError('invalid_request', `${file} is not plain JSON (${why}), and was left as it is.`, { cause, fix: 'Run the command without --write and paste what it prints.' });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function indentOf(text: string): string {
  return /\n([ \t]+)"/.exec(text)?.[1] ?? '  ';
}
